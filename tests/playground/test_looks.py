"""axe's rules in both themes and at two widths; POME_SCREENSHOTS keeps pictures of the same."""
import os
import pathlib

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import NARROW, WIDE
from playwright.sync_api import expect

SHOWN = """# Apples

A *Golden Delicious* keeps for **three months** in a cool cellar. Three things matter:

1. The temperature, which should stay near 2 °C.
2. The air: damp, and **never** shared with potatoes.
3. Patience.

```python
def keep(apple, months=3):
    return apple.sweetness * 0.98 ** months
```

| variety | keeps |
|---|---|
| Boskoop | 5 months |
| Gravensteiner | 1 month |

> One bad apple spoils the barrel, as [the saying](https://example.com) goes: `ethylene`."""


def serious(page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['help']}: {node['html'][:200]}" for one in found
            if one["impact"] in ("serious", "critical") for node in one["nodes"]]


def picture(page, name: str):
    if folder := os.environ.get("POME_SCREENSHOTS"):
        page.screenshot(path=pathlib.Path(folder) / f"{name}.png")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_axe_finds_nothing_serious(echo, visit, theme, width):
    # axe is put into the page, which the page's own policy would not let in.
    viewport = WIDE if width == "wide" else NARROW
    here = visit(echo, viewport=viewport, color_scheme=theme, bypass_csp=True)
    expect(here.page.get_by_text("Ready")).to_be_attached()
    name = f"{theme}-{width}"
    picture(here.page, f"{name}-empty")
    assert serious(here.page) == []
    here.send("How long do apples keep?")
    here.expect_done("How long do apples keep?")
    here.send(SHOWN)
    expect(here.answer.locator("table")).to_be_visible()
    picture(here.page, f"{name}-chat")
    assert serious(here.page) == []
    if width == "narrow":
        here.button("Settings", exact=True).click()
    here.page.locator("#tools-section summary").click()
    here.button("Example").first.click()
    here.setting("temperature").fill("500")
    picture(here.page, f"{name}-settings")
    if width == "narrow":
        here.page.keyboard.press("Escape")
    here.send("Oslo")
    expect(here.answer.locator("> .problem")).to_be_visible()
    picture(here.page, f"{name}-problem")
    assert serious(here.page) == []
    here.setting("temperature").evaluate("node => { node.value = ''; }")
    here.button("Try again").click()
    expect(here.page.get_by_role("group", name="Call of get_weather")).to_be_visible()
    here.answer.locator("summary").click()
    picture(here.page, f"{name}-tool")
    assert serious(here.page) == []


def test_axe_finds_nothing_serious_in_the_dialog(scripted, visit):
    here = visit(scripted(api_key="secret"), bypass_csp=True)
    here.send("Hi")
    expect(here.page.get_by_role("dialog", name="API key")).to_be_visible()
    picture(here.page, "key")
    assert serious(here.page) == []
