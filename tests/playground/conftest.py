"""A headless browser, servers, and a page that notes whatever it must not do."""
import os
import re
import urllib.error  # noqa: F401  (the servers' module names it)

import pytest
from playwright.sync_api import Page, expect, sync_playwright

import servers

WIDE = {"width": 1360, "height": 900}
NARROW = {"width": 390, "height": 780}
expect.set_options(timeout=10_000)
# What the browser itself writes about replies that a journey provokes.
PROVOKED = re.compile(r"Failed to load resource: (the server responded with a status of (400|401|404|429|503)|net::ERR_)")


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=os.environ["POME_TEST_BROWSER"],
                                              args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("template") / "caller.jinja"
    path.write_text(servers.TEMPLATE)
    return str(path)


@pytest.fixture(scope="session")
def echo(template):
    server = servers.serve("echo", "--chat-template", template, "--tool-call-parser", "qwen25",
                           "--reasoning-parser", "qwen3")
    yield server
    server.end()


@pytest.fixture
def scripted():
    """Starts scripted servers that end with the test."""
    started = []

    def start(**options) -> servers.Server:
        started.append(servers.scripted(**options))
        return started[-1]

    yield start
    for server in started:
        server.end()


class Visit:
    """A page in a browser profile of its own."""

    def __init__(self, browser, server: servers.Server, **context):
        self.server = server
        self.context = browser.new_context(viewport=context.pop("viewport", WIDE), **context)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.faults: list[str] = []
        self.page = self.open()

    def open(self) -> Page:
        page = self.context.new_page()
        page.on("request", lambda request: request.url.startswith(self.server.url + "/") or
                self.faults.append(f"asked {request.url}"))
        page.on("console", lambda said: said.type == "error" and not PROVOKED.match(said.text) and
                self.faults.append(f"console: {said.text}"))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}") or dialog.dismiss())
        page.goto(self.server.url + "/")
        return page

    def send(self, text: str):
        self.prompt.fill(text)
        self.prompt.press("Enter")

    @property
    def prompt(self):
        return self.page.get_by_label("Message", exact=True)

    @property
    def answer(self):
        return self.page.locator(".answer").last

    @property
    def questions(self):
        return self.page.locator(".question .said")

    def expect_done(self, text: str):
        expect(self.answer.locator("> .markdown")).to_have_text(text)
        expect(self.page.get_by_role("button", name="Send", exact=True)).to_be_visible()

    def expect_problem(self, text):
        expect(self.answer.locator("> .problem")).to_have_text(text)

    def button(self, name: str, **more):
        return self.page.get_by_role("button", name=name, **more)

    def setting(self, name: str):
        return self.page.locator(f"#settings-form [name={name}]")


@pytest.fixture
def visit(browser):
    """Opens pages; at the end none may have asked another origin, run foreign code, or written an error."""
    visits = []

    def start(server: servers.Server, **context) -> Visit:
        visits.append(Visit(browser, server, **context))
        return visits[-1]

    yield start
    for one in visits:
        one.context.close()
    assert [fault for one in visits for fault in one.faults] == []
