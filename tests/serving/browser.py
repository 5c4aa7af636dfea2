"""A real browser for the tests of the page."""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "screenshots"
NAMES = ("chromium", "chromium-browser", "google-chrome")


def executable() -> str:
    """The browser to test with; the reason is printed where there is none."""
    named = os.environ.get("MUNDAP_BROWSER")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        pytest.skip("no browser for the page: install Debian's `chromium`, or name one in MUNDAP_BROWSER")
    return found


def expect(locator):
    """Wait until something is true of a part of the page.

    Never `wait_for_function` with a string: where it is not true at once, Playwright evaluates the string in the page
    again, which the page's policy forbids.
    """
    from playwright.sync_api import expect

    expect.set_options(timeout=60_000)
    return expect(locator)


@pytest.fixture(scope="module")
def browser():
    """One for each file of tests: Playwright's loop must not be running when others start theirs."""
    pytest.importorskip("fastapi", reason="needs the extra `serve`")
    driver = pytest.importorskip("playwright.sync_api", reason="needs the extra `dev`")
    path = executable()
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def examples(example_index):
    """The address of a server with the example encyclopaedia and the shipped models, as most people will see it."""
    from tests.serving.conftest import Server

    server = Server(["-m", "mundap", "serve", "-i", f"encyclopedia={example_index.path}", "--port", "0"])
    yield server.address
    server.stop()


@pytest.fixture
def visit(browser):
    """Open pages; afterwards make sure that none had an error or asked anybody but its server."""
    contexts = []
    faults: list[str] = []

    def open_page(address, token="", dark=False, width=1200, height=800, language="en-US", tolerant=False):
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            locale=language,
            reduced_motion="reduce",
        )
        contexts.append(context)
        context.set_default_timeout(60_000)
        if token:
            context.add_init_script(f"sessionStorage.setItem('mundap.token', {token!r})")
        page = context.new_page()
        origin = "/".join(address.split("/")[:3])
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda sent: sent.url.startswith((origin, "data:")) or faults.append(sent.url))
        if not tolerant:
            page.on("console", lambda said: said.type == "error" and faults.append(said.text))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not faults


def shot(page, name: str) -> None:
    """Keep a picture, for people."""
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


def ask(page, question: str) -> None:
    """Type a question and wait for what comes of it."""
    page.fill("#question", question)
    with page.expect_response("**/v1/ask"):
        page.press("#question", "Enter")
    page.wait_for_selector("#results:not([aria-busy]) .answer")
