"""One browser for all tests of pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

from tests.report.browser.looking import Browser, settle

WAIT_S = 30.0


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                     "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromium))
    yield driver
    driver.quit()


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[..., Browser]]:
    """Opens a page at a width, light or dark; nothing may be on the console at the end."""
    browser.get_log("browser")

    def opened(page: Path | str, width: int = 1280, theme: str = "light",
               ready: str = "document.documentElement.className == 'ready'") -> Browser:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": theme}]})
        browser.get(page if isinstance(page, str) else page.as_uri())
        WebDriverWait(browser, WAIT_S, 0.05).until(
            lambda b: b.execute_script(f"return Boolean({ready})"), ready)
        settle(browser)
        return browser

    yield opened
    assert browser.get_log("browser") == []
