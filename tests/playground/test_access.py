"""The keyboard alone, screen readers, narrow screens."""
import re

from conftest import NARROW
from playwright.sync_api import expect

LONG = "A long answer that the keyboard stops. " * 10


def test_the_keyboard_is_enough(scripted, visit):
    here = visit(scripted(token_delay_ms=5))
    keys = here.page.keyboard
    expect(here.prompt).to_be_focused()
    keys.type("one")
    keys.press("Shift+Enter")
    keys.type("two")
    expect(here.prompt).to_have_value("one\ntwo")
    keys.press("Enter")
    here.expect_done("onetwo")
    keys.type(LONG)
    keys.press("Enter")
    expect(here.answer.locator("> .markdown")).to_contain_text("A long")
    keys.press("Escape")
    expect(here.answer.locator(".figures-line")).to_contain_text("stopped")
    expect(here.prompt).to_be_focused()
    here.button("Try again").focus()
    keys.press("Enter")
    expect(here.button("Stop")).to_be_visible()
    keys.press("Escape")
    here.button("New chat").focus()
    keys.press("Space")
    expect(here.questions).to_have_count(0)
    expect(here.prompt).to_be_focused()


def test_tab_reaches_everything_in_order_and_shows_where_it_is(echo, visit):
    here = visit(echo)
    here.send("Hello")
    here.expect_done("Hello")
    here.page.get_by_role("link", name="Skip to the message box").focus()
    seen = ["Skip to the message box"]
    for _ in range(60):
        here.page.keyboard.press("Tab")
        focused = here.page.locator(":focus")
        if focused.count() == 0 or seen[0] == focused.text_content():
            break
        name = focused.evaluate("node => node.getAttribute('aria-label') || node.id || node.name || node.textContent.trim()")
        style = focused.evaluate("node => getComputedStyle(node).outlineStyle + ' ' + getComputedStyle(node).outlineWidth")
        assert style == "solid 2px", f"{name} does not show its focus: {style}"
        seen.append(name)
    order = ["Skip to the message box", "Chats and server", "Settings", "new-chat", "Conversation", "Edit", "Copy",
             "Try again", "prompt", "send", "system", "temperature", "seed", "thinking"]
    places = [next((i for i, name in enumerate(seen) if name == wanted), -1) for wanted in order]
    assert -1 not in places, f"not reached: {order[places.index(-1)]} in {seen}"
    assert places == sorted(places), seen


def test_a_screen_reader_hears_an_answer_once_and_no_tokens(scripted, visit):
    here = visit(scripted(token_delay_ms=60))
    said = here.page.locator("#said")
    spoken = "A short answer, said slowly enough to be listened to"
    here.send(spoken)
    expect(said).to_have_text("The model answers.")
    expect(here.answer.locator("> .markdown")).to_contain_text("A short")
    expect(said).to_have_text("The model answers.")
    expect(here.page.locator("#messages")).to_have_attribute("aria-busy", "true")
    expect(said).to_have_text(spoken)
    expect(here.page.locator("#messages")).to_have_attribute("aria-busy", "false")
    for role, name in (("banner", None), ("main", None), ("navigation", "Chats and server"),
                       ("complementary", "Settings"), ("region", "Conversation")):
        expect(here.page.get_by_role(role, name=name) if name else here.page.get_by_role(role)).to_be_visible()
    # Nothing that is spoken holds the conversation.
    expect(here.page.locator("[aria-live] .answer, [role=log] .answer, [role=status] .answer")).to_have_count(0)


def test_a_narrow_screen_has_the_panels_over_the_conversation(echo, visit):
    here = visit(echo, viewport=NARROW)
    settings = here.page.get_by_role("complementary", name="Settings")
    expect(settings).to_be_hidden()
    toggle = here.button("Settings", exact=True)
    toggle.click()
    expect(settings).to_be_visible()
    expect(toggle).to_have_attribute("aria-expanded", "true")
    here.setting("system").fill("Narrow")
    here.page.keyboard.press("Escape")
    expect(settings).to_be_hidden()
    expect(toggle).to_be_focused()
    here.send("Hi")
    here.expect_done("[Narrow] Hi")
    here.button("Chats and server").click()
    here.button("New chat").click()
    expect(here.page.get_by_role("navigation")).to_be_hidden()
    expect(here.questions).to_have_count(0)
    width = here.page.locator("html").evaluate("node => node.scrollWidth")
    assert width <= NARROW["width"], "nothing is wider than the screen"


def test_a_beginning_fills_in_what_it_needs(echo, visit):
    here = visit(echo)
    here.button(re.compile("^Call a tool")).click()
    expect(here.page.get_by_role("group", name="Call of get_weather")).to_be_visible()
    expect(here.setting("tools")).to_have_value(re.compile("get_weather"))
