"""Makes `docs/page.png`, which README shows: the top of a profile's page as a browser draws it.

Run it in the development environment, with Chromium and its driver (Debian: chromium-driver):

    handtorch profile HarLSTM --batch 32 --sheet nexus-5 --out har.htr
    handtorch report har.htr
    python dev/make_picture.py har.html
"""

from __future__ import annotations

import base64
import shutil
import sys
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

PICTURE = Path(__file__).parents[1] / "docs" / "page.png"
WIDTH, HEIGHT = 1000, 1500


def main(page: str) -> int:
    driver = shutil.which("chromedriver")
    if driver is None:
        print("chromedriver is not installed\n  try: apt-get install chromium-driver")
        return 2
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options, service=Service(driver))
    try:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "light"}]})
        browser.get(Path(page).resolve().as_uri())
        WebDriverWait(browser, 30).until(lambda b: b.execute_script(
            "return document.documentElement.className == 'ready'"))
        taken = browser.execute_cdp_cmd("Page.captureScreenshot", {})
    finally:
        browser.quit()
    PICTURE.write_bytes(base64.b64decode(taken["data"]))
    print(f"{PICTURE}: {PICTURE.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
