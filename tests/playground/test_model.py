"""Once with the demo model."""
import pytest
import servers
from playwright.sync_api import expect


def test_the_demo_model_answers(visit):
    model = servers.demo_model()
    if model is None:
        pytest.skip("the demo model is not there: run 'pome pull smollm2'")
    server = servers.serve(model)
    try:
        here = visit(server)
        expect(here.page.get_by_text("Ready")).to_be_visible(timeout=60_000)
        here.setting("temperature").fill("0")
        here.setting("max_tokens").fill("16")
        here.send("What is the capital of France?")
        expect(here.answer.locator("> .markdown")).to_contain_text("Paris", timeout=60_000)
        expect(here.answer.locator(".figures-line")).to_contain_text("first after")
        expect(here.page.locator("#figures")).to_contain_text("planned")
    finally:
        server.end()
