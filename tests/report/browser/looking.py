"""What a person sees of a page: pictures of it, faults of its text, and what axe says of it."""

from __future__ import annotations

import base64
from importlib.resources import files
from typing import Any

from selenium import webdriver

from tests.conftest import ROOT

SHOTS = ROOT / ".cache" / "report-screenshots"
WIDTHS = (390, 1280, 1920)
Browser = webdriver.Chrome

# Text over text, text cut off, text beyond the page: what a person would call broken.
FAULTS = """
const rects = [], faults = [];
const clip = element => {
  let box = {left: -1e9, right: 1e9, top: -1e9, bottom: 1e9};
  for (let e = element; e && e !== document.body; e = e.parentElement) {
    const style = getComputedStyle(e);
    if (style.overflowX === 'visible' && style.overflowY === 'visible') continue;
    const b = e.getBoundingClientRect();
    box = {left: Math.max(box.left, b.left), right: Math.min(box.right, b.right),
           top: Math.max(box.top, b.top), bottom: Math.min(box.bottom, b.bottom)};
    if (style.overflowX === 'hidden' && e.scrollWidth > e.clientWidth + 1) {
      faults.push(`cut: ${e.textContent.slice(0, 60)}`);
    }
  }
  return box;
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const range = document.createRange();
while (walker.nextNode()) {
  const node = walker.currentNode, parent = node.parentElement;
  if (!node.data.trim() || parent.closest('script, style, noscript, title, .skip, .choice legend')
      || !parent.checkVisibility()) continue;
  range.selectNodeContents(node);
  const box = clip(parent), svg = parent.closest('svg')?.getBoundingClientRect();
  for (const r of range.getClientRects()) {
    const seen = {left: Math.max(r.left, box.left), right: Math.min(r.right, box.right),
                  top: Math.max(r.top, box.top), bottom: Math.min(r.bottom, box.bottom),
                  text: node.data.trim().slice(0, 50), node};
    if (seen.right - seen.left < 1 || seen.bottom - seen.top < 1) continue;
    if (seen.right > innerWidth + 1 || seen.left < -1) faults.push(`beyond the page: ${seen.text}`);
    if (svg && (r.right > svg.right + 1 || r.left < svg.left - 1 || r.bottom > svg.bottom + 1
                || r.top < svg.top - 1)) faults.push(`beyond its chart: ${seen.text}`);
    rects.push(seen);
  }
}
rects.sort((a, b) => a.top - b.top);
for (let i = 0; i < rects.length; i++) {
  for (let j = i + 1; j < rects.length && rects[j].top < rects[i].bottom - 3; j++) {
    const a = rects[i], b = rects[j];
    if (a.node !== b.node && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4) {
      faults.push(`overlap: ${a.text} | ${b.text}`);
    }
  }
}
const root = document.documentElement;
if (root.scrollWidth > innerWidth) faults.push(`the page is ${root.scrollWidth} px wide`);
return {faults: [...new Set(faults)].slice(0, 20), texts: rects.length};
"""


def settle(browser: Browser) -> None:
    """Two frames later, what was asked for is drawn."""
    browser.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));")


def photograph(browser: Browser, name: str) -> None:
    """The whole page, as far as a person would scroll."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    width, height = browser.execute_script(
        "return [innerWidth, Math.min(document.documentElement.scrollHeight, 12000)]")
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {
        "captureBeyondViewport": True,
        "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}})
    (SHOTS / f"{name}.png").write_bytes(base64.b64decode(taken["data"]))


def audited(browser: Browser) -> list[Any]:
    """Serious and critical findings of axe-core, with what they are about."""
    axe = files("selenium_axe_python") / "axe-core" / "axe.min.js"
    browser.set_script_timeout(60)
    browser.execute_script(axe.read_text(encoding="utf-8"))
    found = browser.execute_async_script(
        "const done = arguments[0];"
        "axe.run(document, {resultTypes: ['violations']}).then(r => done(r.violations));")
    return [(v["id"], v["nodes"][0]["html"][:200], len(v["nodes"])) for v in found
            if v["impact"] in ("serious", "critical")]
