"""Sending, reading, stopping, trying again, editing, and what a reload keeps."""
import re

from playwright.sync_api import expect

LONG = "A sentence that the slow model repeats, token by token. " * 8


def test_a_question_is_answered_and_counted(echo, visit):
    here = visit(echo)
    expect(here.page.get_by_text("Ready")).to_be_visible()
    expect(here.page.get_by_text("tested", exact=True)).to_be_visible()
    here.send("Hello there")
    here.expect_done("Hello there")
    expect(here.questions).to_have_text(["Hello there"])
    expect(here.answer.locator(".figures-line")).to_have_text(re.compile(
        r"^11 prompt tokens · 12 tokens · (.* tokens/s · )?first after \d\.\d\d s$"))
    expect(here.page.locator("#context-use")).to_have_text("23 of 8,192 tokens")
    expect(here.prompt).to_be_focused()
    expect(here.prompt).to_have_value("")


def test_the_same_prompt_again_is_found_in_the_cache(echo, visit):
    here = visit(echo)
    question = "A question that is long enough for a page of the cache"
    here.send(question)
    here.expect_done(question)
    here.button("Try again").click()
    expect(here.answer.locator(".figures-line")).to_contain_text("48 cached")
    expect(here.page.locator(".answer")).to_have_count(1)


def test_an_answer_in_markdown_is_laid_out_and_stays_text(echo, visit):
    here = visit(echo)
    here.send("# Title\n\nSome **bold**, *soft* and `code` with [a link](https://example.com/a?b=1).\n\n- one\n- two\n\n"
              "```python\nprint('<b>')\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    said = here.answer.locator("> .markdown")
    expect(said.get_by_role("heading", name="Title")).to_be_visible()
    expect(said.locator("strong")).to_have_text("bold")
    expect(said.locator("em")).to_have_text("soft")
    expect(said.locator("li")).to_have_text(["one", "two"])
    expect(said.locator("pre")).to_have_text("print('<b>')")
    expect(said.locator("td")).to_have_text(["1", "2"])
    link = said.get_by_role("link", name="a link")
    expect(link).to_have_attribute("href", "https://example.com/a?b=1")
    expect(link).to_have_attribute("rel", re.compile("noopener"))


HOSTILE = ["<img src=x onerror=alert(1)>", "<script>alert(2)</script>", "[x](javascript:alert(3))",
           "![x](https://evil.example/a.png)", "[y](data:text/html,<script>alert(4)</script>)",
           "<iframe src=https://evil.example></iframe>", "<style>body{display:none}</style>",
           "[z](  JaVaScRiPt:alert(5))", "<svg onload=alert(6)>", "`<b onclick=alert(7)>`", "[q](//evil.example)",
           "**<a href='javascript:alert(8)'>bold</a>**", "| <img src=y> | b |\n|---|---|\n| <script>1</script> | 2 |"]


def test_hostile_markup_is_text(echo, visit):
    here = visit(echo)
    here.send("\n\n".join(HOSTILE))
    said = here.answer.locator("> .markdown")
    expect(said).to_contain_text("<img src=x onerror=alert(1)>")
    expect(said).to_contain_text("[x](javascript:alert(3))")
    expect(said).to_contain_text("<style>body{display:none}</style>")
    expect(here.page.locator("#messages").locator("img, script, iframe, style, svg, object, [onerror], [onclick]")).to_have_count(0)
    # Plain http addresses became links, which nobody follows by itself.
    links = said.locator("a")
    expect(links).to_have_count(2)
    for link in links.all():
        expect(link).to_have_attribute("href", re.compile(r"^https://evil\.example/"))
    here.page.reload()
    expect(said).to_contain_text("<script>alert(2)</script>")
    expect(here.page.locator("#messages").locator("img, script, iframe")).to_have_count(0)


def test_text_made_to_be_slow_is_not(echo, visit):
    here = visit(echo)
    for text in ("*a " * 700, "[" * 2000, "`a``" * 600, "> " * 900, "**a" * 800, "![](" * 600, "- " * 900, "_a_" * 600):
        here.send(text.strip())
        expect(here.answer.locator("> .markdown")).not_to_be_empty()
        expect(here.button("Send", exact=True)).to_be_visible()


def test_escape_stops_and_what_had_come_stays(scripted, visit):
    server = scripted(token_delay_ms=15)
    here = visit(server)
    here.send(LONG)
    expect(here.answer.locator("> .markdown")).to_contain_text("A sentence")
    expect(here.button("Send", exact=True)).to_be_hidden()
    here.page.keyboard.press("Escape")
    expect(here.answer.locator(".figures-line")).to_contain_text("stopped")
    expect(here.button("Send", exact=True)).to_be_visible()
    server.wait_until_idle()
    said = here.answer.locator("> .markdown").text_content()
    assert 0 < len(said) < len(LONG.strip())
    here.send("Short")
    expect(here.answer.locator("> .markdown")).to_contain_text("Short")


def test_the_button_stops_and_the_answer_can_be_had_again(scripted, visit):
    here = visit(scripted(token_delay_ms=15))
    here.send(LONG)
    expect(here.answer.locator("> .markdown")).to_contain_text("A sentence")
    here.button("Stop").click()
    expect(here.answer.locator(".figures-line")).to_contain_text("stopped")
    expect(here.prompt).to_be_focused()
    here.button("Try again").click()
    expect(here.button("Stop")).to_be_visible()
    expect(here.page.locator(".answer")).to_have_count(1)
    here.page.keyboard.press("Escape")


def test_an_edited_question_is_asked_in_the_place_of_the_old_one(echo, visit):
    here = visit(echo)
    for text in ("First", "Second"):
        here.send(text)
        expect(here.page.locator(".answer > .markdown").last).to_contain_text(text)
    here.button("Edit").first.click()
    box = here.page.get_by_label("Edit your message")
    expect(box).to_be_focused()
    box.fill("Anew")
    box.press("Escape")
    expect(here.questions).to_have_text(["First", "Second"])
    here.button("Edit").first.click()
    box.fill("Anew")
    box.press("Enter")
    here.expect_done("Anew")
    expect(here.questions).to_have_text(["Anew"])


def test_a_reload_keeps_chats_and_settings(echo, visit):
    here = visit(echo)
    here.setting("system").fill("Be brief")
    here.send("Kept over a reload")
    here.expect_done("[Be brief] Kept over a reload")
    here.page.reload()
    here.expect_done("[Be brief] Kept over a reload")
    expect(here.setting("system")).to_have_value("Be brief")
    here.button("New chat").click()
    expect(here.questions).to_have_count(0)
    here.send("Another")
    here.expect_done("[Be brief] Another")
    here.button("Kept over a reload", exact=True).click()
    expect(here.questions).to_have_text(["Kept over a reload"])
    here.button("Delete the chat “Kept over a reload”").click()
    expect(here.button("Kept over a reload", exact=True)).to_have_count(0)
    here.page.reload()
    expect(here.button("Another", exact=True)).to_be_visible()
    expect(here.button("Kept over a reload", exact=True)).to_have_count(0)


def test_a_reload_in_mid_answer_keeps_what_had_come(scripted, visit):
    here = visit(scripted(token_delay_ms=15))
    here.send(LONG)
    expect(here.answer.locator("> .markdown")).to_contain_text("A sentence")
    here.page.reload()
    expect(here.answer.locator("> .markdown")).to_contain_text("A sentence")
    expect(here.answer.locator(".figures-line")).to_contain_text("stopped")
    expect(here.button("Try again")).to_be_visible()


def test_stored_nonsense_is_passed_over(echo, visit):
    here = visit(echo)
    here.send("Kept")
    here.expect_done("Kept")
    here.context.add_init_script("""
      localStorage.setItem('pome.settings', '[1, {"a"');
      localStorage.setItem('pome.chat.1', '{"id": "1"}');
      localStorage.setItem('pome.chat.2', 'null');
      localStorage.setItem('pome.chat.3', '{"id":"3","title":"<img src=x>","updated":1,"messages":[{"role":"evil","content":""}]}');
    """)
    page = here.open()
    expect(page.get_by_role("button", name="Kept", exact=True)).to_be_visible()
    expect(page.locator("#chat-list li")).to_have_count(1)
