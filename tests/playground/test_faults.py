"""What goes wrong, said in sentences: a full queue, keys, a start, a server that dies, an answer that fails."""
import re
import signal

from playwright.sync_api import expect

LONG = "The server will be killed before it has said all this. " * 8


def test_a_full_queue_is_told_with_the_seconds_to_wait(scripted, visit):
    server = scripted(token_delay_ms=20, running=1, queued=0)
    other = server.occupy()
    here = visit(server)
    here.send("Hi")
    here.expect_problem(re.compile(r"^The server is busy with as many requests as it takes. Try again in \d+ seconds?\.$"))
    other.end()
    here.button("Try again").click()
    here.expect_done("Hi")


def test_a_server_killed_in_mid_answer_and_started_again(scripted, visit):
    server = scripted(token_delay_ms=15)
    here = visit(server)
    here.send(LONG)
    expect(here.answer.locator("> .markdown")).to_contain_text("The server will")
    server.end(signal.SIGKILL)
    here.expect_problem("The connection to the server broke off in mid-answer. What had arrived is kept.")
    expect(here.answer.locator("> .markdown")).to_contain_text("The server will")
    expect(here.page.get_by_text("Not reachable")).to_be_visible()
    here.button("Try again").click()
    here.expect_problem("The server cannot be reached. Is pome still running there?")
    scripted(port=server.port)
    expect(here.page.get_by_text("Ready")).to_be_visible()
    here.button("Try again").click()
    here.expect_done(LONG.strip())


def test_a_key_is_asked_for_and_kept_in_the_tab(scripted, visit):
    here = visit(scripted(api_key="secret"))
    here.send("Hi")
    dialog = here.page.get_by_role("dialog", name="API key")
    key = dialog.get_by_label("Key", exact=True)
    expect(key).to_be_focused()
    key.fill("wrong")
    key.press("Enter")
    expect(dialog.get_by_text("does not know the key")).to_be_visible()
    key.fill("secret")
    here.button("Use this key").click()
    here.expect_done("Hi")
    expect(here.page.get_by_text("scripted", exact=True)).to_be_visible()
    here.page.reload()
    here.send("Again")
    expect(here.answer.locator("> .markdown")).to_have_text("HiHiAgain")
    assert "secret" not in str(here.context.storage_state()), "it is in no storage that outlives the tab"
    here.button("Forget the API key").click()
    here.send("More")
    key.press("Escape")
    here.expect_problem("This server wants an API key.")


def test_a_model_that_is_still_loaded(scripted, visit):
    here = visit(scripted(ready_delay_ms=3000))
    expect(here.page.get_by_text("The model is being loaded")).to_be_visible()
    here.send("Hi")
    here.expect_problem(re.compile("^The model is still being loaded. Try again in"))
    expect(here.page.get_by_text("Ready")).to_be_visible()
    here.button("Try again").click()
    here.expect_done("Hi")


def test_an_answer_that_fails_keeps_what_it_had_said(scripted, visit):
    here = visit(scripted(fail_at=5, token_delay_ms=30))
    here.send("Hello there")
    here.expect_problem(re.compile("^The answer ended with an error. "))
    expect(here.answer.locator("> .markdown")).to_have_text("Hello")
