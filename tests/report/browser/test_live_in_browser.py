"""The pages of `handtorch report --serve` in a browser: nothing cut or overlapping, axe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from handtorch.profile.rows import write_run
from handtorch.record import Result, Run, RunWriter, Verdict
from handtorch.record.progress import ProgressFile
from handtorch.report import render, render_comparison
from handtorch.report.live import LOOPBACK, Live
from tests.report.browser.everything import everything
from tests.report.browser.looking import FAULTS, WIDTHS, Browser, audited, photograph

Look = Callable[..., Browser]
LISTED = "document.querySelectorAll('#rows tr').length == {}"
FOLLOWED = "document.getElementById('results').rows.length == {}"
THEMES = ("light", "dark")
SIDEWAYS = """
return [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)
  .map(e => e.textContent.slice(0, 60))"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "runs"
    folder.mkdir()
    server = Live(folder, 0, render, render_comparison, kept=kept_rows)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://{LOOPBACK}:{server.port}", folder
    server.end()
    thread.join()
    server.server_close()


def kept_rows(folder: Path) -> list[tuple[str, str]]:
    return [("resnet50-b8-device", "12 samples/s"),
            ("wide_resnet-with-a-long-name-b128-torch",
             "not run: it needs 12,345,678,901 bytes, the limit is 8,589,934,592"),
            ("empty", "")]


def results() -> Iterator[Result]:
    common: dict[str, Any] = {"study": "training", "better": "higher", "repeats": 1,
                              "provenance": "measured"}
    yield Result(name="throughput", subject="LeNet", x_name="batch", x_value=16.0, value=1234.5,
                 unit="samples/s", **common)
    yield Result(name="throughput of the step with its data", subject="a_module.with_a_long_name."
                 "and_more.attention.out_proj", x_name="batch", x_value=128.0, value=None, unit="",
                 value_reason="about 1,234 s are predicted from batch 64, more than 180",
                 **{**common, "repeats": 0})
    yield Result(name="energy", subject="LeNet", value=0.25, unit="J",
                 **{**common, "provenance": "estimated"})


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """The name of a run that is being written, with a verdict of each kind."""
    path = folder / "a-study-that-takes-long.htr"
    path.with_suffix(".kept").mkdir()
    with ProgressFile(path) as said:
        record = RunWriter.create(path, "handtorch study all --quick --out runs/long.htr")
        said.say("training: cell 7 of 192, wide_resnet50_2 b16, pocl; about 12 min left", 0.35, 700)
        record.add(*results(), *(
            Verdict(study="training", question="?", answer=f"{word}: the step of ResNet50 b16 is "
                    "1.3 times as fast on the device as by torch.", holds=holds,
                    holds_reason="" if holds is not None else "one of them was not run")
            for word, holds in (("Yes", True), ("No", False), ("Open", None))))
        record.flush()
        yield record.part.name
        record.close()


def filled(folder: Path, run: Run) -> None:
    """Runs of every state, and with names of all lengths."""
    whole = everything(run)
    faster = tuple(replace(s, end_ns=s.end_ns - 100_000) for s in whole.steps)
    write_run(whole, folder / "before.htr")
    write_run(replace(whole, steps=faster), folder / "after.htr")
    name = "a_run_with_a_name_that_has_no_end_" * 3
    write_run(replace(whole, info=replace(whole.info, command="handtorch study " + "x" * 90)),
              folder / f"{name}.htr")
    (folder / "cut.htr").write_bytes((folder / "before.htr").read_bytes()[:5000])
    with RunWriter.create(folder / "stopped.htr", "handtorch study training") as record:
        record.close("interrupted", "Ctrl-C after 12 of 192 cells")


def seen(look: Look, url: str, name: str, ready: str, own: bool = True) -> None:
    """At every width, in both themes."""
    for width in WIDTHS:
        for theme in THEMES:
            browser = look(url, width, theme, ready)
            photograph(browser, f"{name}-{width}-{theme}")
            assert browser.execute_script(FAULTS)["faults"] == [], (width, theme)
            if own:                     # the tables of a report may be wide: they have a frame
                assert browser.execute_script(SIDEWAYS) == [], (width, theme)
            if width != WIDTHS[1]:
                assert audited(browser) == [], (width, theme)


@pytest.mark.slow
def test_the_list(look: Look, site: tuple[str, Path], run: Run) -> None:
    url, folder = site
    filled(folder, run)
    with running(folder):
        seen(look, f"{url}/", "live-list", LISTED.format(6))


@pytest.mark.slow
def test_an_empty_list(look: Look, site: tuple[str, Path]) -> None:
    browser = look(f"{site[0]}/", 390, "light", "document.getElementById('said').textContent"
                   " != 'Looking'")
    photograph(browser, "live-empty-390")
    assert browser.execute_script(FAULTS)["faults"] == [] and audited(browser) == []


@pytest.mark.slow
def test_a_comparison(look: Look, site: tuple[str, Path], run: Run) -> None:
    url, folder = site
    filled(folder, run)
    seen(look, f"{url}/compare?run=before.htr&run=after.htr", "live-comparison",
         "document.documentElement.className == 'ready'", own=False)


@pytest.mark.slow
def test_a_followed_run(look: Look, site: tuple[str, Path]) -> None:
    url, folder = site
    with running(folder) as name:
        seen(look, f"{url}/live/{quote(name)}", "live-run", FOLLOWED.format(3))


@pytest.mark.slow
def test_a_run_with_nothing_yet_says_so(look: Look, site: tuple[str, Path]) -> None:
    url, folder = site
    with RunWriter.create(folder / "new.htr", "handtorch study all") as record:
        browser = look(f"{url}/live/{quote(record.part.name)}", 390, "light",
                       "document.getElementById('counts').textContent")
        photograph(browser, "live-new-390")
        said = browser.find_element("tag name", "main").text
        assert said.count("None yet.") == 2 and "0 results, 0 verdicts" in said
        assert browser.execute_script(FAULTS)["faults"] == [] and audited(browser) == []


@pytest.mark.slow
def test_the_theme_chosen_on_a_page_holds_on_the_list(
        look: Look, site: tuple[str, Path], run: Run) -> None:
    url, folder = site
    write_run(everything(run), folder / "a.htr")
    browser = look(f"{url}/run/a.htr")
    browser.find_element("css selector", "button.theme").click()
    browser = look(f"{url}/", 1280, "light", LISTED.format(1))
    assert browser.execute_script("return document.documentElement.dataset.theme") == "dark"
    browser.execute_script("localStorage.clear()")


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/run/none.htr", "/compare?run=a.htr", "/other"])
def test_a_refusal_is_a_page_too(look: Look, site: tuple[str, Path], path: str) -> None:
    browser = look(site[0] + path, 390, "dark", "document.querySelector('a')")
    photograph(browser, "live-refusal-390-dark")
    assert browser.execute_script(FAULTS)["faults"] == [] and audited(browser) == []
    browser.get_log("browser")              # Chromium itself notes the status there
