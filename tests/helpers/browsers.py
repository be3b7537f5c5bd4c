"""A real browser for tests of pages; in CI it must be there."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

# Of Debian's chromium or chromium-headless-shell. As root it needs --no-sandbox.
BROWSERS = ("chromium-headless-shell", "chromium")
# Milliseconds for what comes by itself: a machine that does much else is no fault of the page.
PATIENCE = 600_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser. In CI it must be there."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not os.environ.get("CI"):
        pytest.importorskip("playwright", reason="the page is looked at with playwright")
        if program is None:
            pytest.skip("no chromium is installed")
    from playwright.sync_api import sync_playwright

    assert program, f"none of {', '.join(BROWSERS)} is installed"
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


def keep_picture(page: Any, name: str, *, width: int, height: int) -> None:
    """Keep a picture of a page's top, as docs/images has it, where $JOBGEN_PICTURES says."""
    if folder := os.environ.get("JOBGEN_PICTURES"):
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("window.scrollTo(0, 0)")
        page.screenshot(path=f"{folder}/{name}.png")
