"""What the settings make of a request, tools, schemas, thoughts, and figures of the server."""
import re

from playwright.sync_api import expect

import servers


def body_of(here, text: str) -> dict:
    """The request that a message makes."""
    with here.page.expect_request("**/v1/chat/completions") as asked:
        here.send(text)
    return asked.value.post_data_json


def test_settings_are_in_the_request_and_nothing_else(echo, visit):
    here = visit(echo)
    assert body_of(here, "Hi") == {
        "model": "tested", "messages": [{"role": "user", "content": "Hi"}], "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    here.expect_done("Hi")
    here.button("New chat").click()
    for name, text in {"system": "Sys", "temperature": "0,5", "top_p": "0.9", "top_k": "40", "min_p": "0.05",
                       "max_tokens": "7", "seed": "11"}.items():
        here.setting(name).fill(text)
    here.page.get_by_text("Penalties and stop strings").click()
    for name, text in {"repetition_penalty": "1.1", "presence_penalty": "0.1", "frequency_penalty": "-0.1",
                       "stop": "END\n\\n\\n"}.items():
        here.setting(name).fill(text)
    here.setting("thinking").select_option("off")
    body = body_of(here, "one END two")
    assert body["messages"][0] == {"role": "system", "content": "Sys"}
    wanted = {"temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "max_tokens": 7, "seed": 11,
              "repetition_penalty": 1.1, "presence_penalty": 0.1, "frequency_penalty": -0.1, "stop": ["END", "\n\n"],
              "chat_template_kwargs": {"enable_thinking": False}}
    assert {name: body[name] for name in wanted} == wanted
    here.expect_done("[Sys] o")
    expect(here.answer.locator(".figures-line")).to_contain_text("cut at the most tokens")
    here.button("Reset the settings").click()
    expect(here.setting("temperature")).to_have_value("")
    assert "temperature" not in body_of(here, "again")


def test_a_tool_is_called_answered_and_told_of(echo, visit):
    here = visit(echo)
    here.page.locator("#tools-section summary").click()
    here.button("Example").first.click()
    here.send("Oslo")
    call = here.page.get_by_role("group", name="Call of get_weather")
    expect(call.get_by_role("heading")).to_have_text("Calls get_weather")
    expect(call.locator("pre")).to_have_text(re.compile(r'"city": "Oslo",\s+"days": 3'))
    expect(here.answer.locator("> .markdown")).to_have_text("One moment.")
    thought = here.answer.locator("summary", has_text="Thought")
    expect(here.answer.get_by_text("Which tool?")).to_be_hidden()
    thought.click()
    expect(here.answer.get_by_text("Which tool? All of them.")).to_be_visible()
    call.get_by_label("Result").fill("rain, 4 degrees")
    with here.page.expect_request("**/v1/chat/completions") as asked:
        here.button("Send the result").click()
    wire = asked.value.post_data_json["messages"]
    assert [message["role"] for message in wire] == ["user", "assistant", "tool"]
    assert wire[1]["tool_calls"][0]["id"] == wire[2]["tool_call_id"]
    here.expect_done("It is rain, 4 degrees.")
    expect(here.page.locator(".result .said")).to_have_text("rain, 4 degrees")
    here.page.reload()
    here.expect_done("It is rain, 4 degrees.")
    expect(call.locator("pre")).to_contain_text("Oslo")


def test_what_is_no_json_is_told_while_it_is_typed(echo, visit):
    here = visit(echo)
    here.page.locator("#tools-section summary").click()
    here.setting("tools").fill('[{"type": ')
    expect(here.page.locator("#tools-problem")).to_contain_text("This is not JSON yet")
    expect(here.setting("tools")).to_have_attribute("aria-invalid", "true")
    here.send("Hi")
    here.expect_problem(re.compile("^This is not JSON yet"))
    here.setting("tools").fill("")
    expect(here.page.locator("#tools-problem")).to_be_hidden()
    here.button("Try again").click()
    here.expect_done("Hi")


def test_a_schema_is_sent_as_a_strict_response_format(echo, visit):
    here = visit(echo)
    here.page.locator("#format-section summary").click()
    here.button("Example").last.click()
    body = body_of(here, "{}")
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["strict"] is True
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["name", "colour", "sweetness"]
    # An answer, or the server's sentence with the field that it refuses.
    expect(here.answer.locator("> .markdown:not(:empty), > .problem:not([hidden])")).to_have_count(1)
    here.setting("schema").fill("")
    here.send("Hi")
    here.expect_problem("There is no JSON schema yet: paste one, or take the example.")


def test_a_refused_field_is_named_and_marked(echo, visit):
    here = visit(echo)
    here.setting("temperature").fill("500")
    here.send("Hi")
    here.expect_problem(re.compile("^The server refused the field “temperature”: .*500"))
    expect(here.setting("temperature")).to_have_attribute("aria-invalid", "true")
    here.setting("temperature").fill("")
    here.button("Try again").click()
    here.expect_done("Hi")


def test_the_live_view_shows_requests_cache_and_memory(scripted, visit):
    server = scripted(token_delay_ms=10)
    here = visit(server)
    figures = here.page.locator("#figures")
    expect(figures).to_contain_text("Running0Waiting0")
    other = server.occupy()
    expect(figures).to_contain_text("Running1")
    expect(figures).to_contain_text(re.compile(r"Output\d+\.\d tokens/s"))
    expect(figures).to_contain_text(re.compile(r"KV cache[1-9][\d,]* used and [\d,]+ kept of 65,536 tokens"))
    here.page.get_by_text("Memory, item by item").click()
    expect(here.page.locator("#memory-items")).to_contain_text("cached prompts")
    other.end()
    expect(figures).to_contain_text("Running0")


def test_without_metrics_it_says_so(visit):
    server = servers.serve("echo", "--enable-metrics=false")
    try:
        here = visit(server)
        expect(here.page.get_by_text("it runs without metrics")).to_be_visible()
        expect(here.page.locator("#figures")).to_contain_text("Running0")
    finally:
        server.end()
