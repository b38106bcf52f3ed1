from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from handtorch.errors import StorageError
from handtorch.record import Run, RunInfo
from handtorch.record.row import Row, columns
from handtorch.record.rows import CHILDREN
from handtorch.report import render, write_page
from handtorch.report.script import script

HOSTILE = "</style><script>alert(1)</script>\"'><img src=x onerror=alert(1)> & {0} %s \x00 \u202e"


def poisoned(row: Row) -> Row:
    """The row with hostile text wherever free text may stand."""
    known = {f for fields in row.REASONS.values() for f in fields if getattr(row, f) is not None}
    quiet = {reason for reason, fields in row.REASONS.items() if set(fields) <= known}
    change = {c.name: HOSTILE for c in columns(type(row))
              if c.type is str and not c.words and c.name not in quiet | {"facts"}
              and getattr(row, c.name) not in ("", None)}
    return replace(row, **change)  # type: ignore[type-var]


@pytest.fixture
def hostile(run: Run) -> Run:
    failed = RunInfo(id="1", command=HOSTILE, started_utc=HOSTILE, duration_ns=1, status="failed",
                     status_reason=HOSTILE)
    tables: dict[str, Any] = {name: tuple(map(poisoned, getattr(run, name))) for name in CHILDREN
                              if name != "machine"}
    assert run.machine is not None
    return Run(info=failed, machine=poisoned(run.machine), **tables)  # type: ignore[arg-type]


def test_the_page_is_whole_and_says_what_there_is(run: Run, parse: Any) -> None:
    page = parse(render(run))
    assert [e.text for e in page.all("h1")] == ["handtorch study sgemm"]
    assert [e.text for e in page.all("h2")] == [
        "What was learnt", "Steps and launches", "Memory", "Study: sgemm", "Sensors",
        "Where it ran", "How to read the figures"]
    assert [e.text for e in page.all("h3")] == [
        "Timeline of gpu", "Kernels of mlp b32 on gpu", "rate by n", "step time"]
    facts = page.all("p", "facts")[0].text.replace("\N{NO-BREAK SPACE}", " ")
    assert facts == "complete 2026-01-02 03:04:05 UTC 14.2 s"
    assert [e.text for e in page.all("dt")] == ["measured", "estimated", "simulated", "published"]


def test_verdicts_come_as_sentences(run: Run, parse: Any) -> None:
    (yes,) = run.verdicts
    no = replace(yes, holds=False, answer="No, not at 64.")
    open_ = replace(yes, holds=None, holds_reason="no sensor", answer="It cannot be said.")
    page = parse(render(replace(run, verdicts=(yes, no, open_))))
    assert [(e.attrs["class"], e.text) for e in page.all("li") if "ul.verdicts" in e.inside] == [
        ("yes", "sgemm: holdsLevel with BLAS?Yes, at 512."),
        ("no", "sgemm: does not holdLevel with BLAS?No, not at 64."),
        ("open", "sgemm: cannot be judgedLevel with BLAS?It cannot be said.no sensor")]


@pytest.mark.parametrize(("same", "reason", "text"), [
    (True, "One chip.", "Same silicon: gpu and cpu share the same cores, so each slows the other "
     "when both work. One chip."),
    (False, "", "Separate silicon: gpu and cpu share no cores."),
    (None, "the driver hides it", "Same silicon unknown for gpu and cpu: the driver hides it"),
])
def test_shared_silicon_is_said_at_the_top(
        run: Run, parse: Any, same: bool | None, reason: str, text: str) -> None:
    (c,) = run.comparisons
    page = parse(render(replace(run, comparisons=(
        replace(c, same_silicon=same, same_silicon_reason=reason),))))
    (note,) = (e for e in page.all("p", "callout") if "silicon" in e.text)
    assert note.text == text
    assert ("warn" in note.attrs["class"]) == (same is not False)


@pytest.mark.parametrize(("status", "reason", "text"), [
    ("running", "", "This run has not ended, or was killed: the page shows what it had written by "
     "then."),
    ("interrupted", "stopped from the keyboard", "This run was interrupted (stopped from the "
     "keyboard); the page shows what it had measured by then."),
    ("failed", "OutOfMemory: 4 GiB", "This run failed: OutOfMemory: 4 GiB"),
])
def test_an_unfinished_run_renders_and_says_so(
        run: Run, parse: Any, status: Any, reason: str, text: str) -> None:
    ended = None if status == "running" else 5
    info = replace(run.info, status=status, status_reason=reason, duration_ns=ended)
    page = parse(render(replace(run, info=info)))
    assert page.all("p", "warn")[0].text == text
    assert page.all("p", "facts")[0].text.startswith(status)


def test_an_empty_run_renders_and_says_so(info: RunInfo, parse: Any) -> None:
    page = parse(render(Run(info=info)))
    assert [e.text for e in page.all("p", "none")] == [
        "This run holds no results.", "This run recorded no machine.",
        "This run used no OpenCL device.", "This run recorded no software versions."]
    assert [e.text for e in page.all("h2")] == [
        "What was learnt", "Where it ran", "How to read the figures"]


def test_unknown_figures_are_listed_with_their_reason(run: Run, parse: Any) -> None:
    page = parse(render(run))
    (note,) = page.all("div", "callout")
    assert note.text == "Not known:torch: torch is not installed"


def test_a_figure_of_which_nothing_is_known(run: Run, parse: Any) -> None:
    none = tuple(replace(r, value=None, value_reason="no sensor", spread=None)
                 for r in run.results[:3])
    page = parse(render(replace(run, results=none)))
    assert page.all("div", "log") == page.all("div", "linear") == []
    assert page.all("div", "callout")[0].text == "Not known:naive: no sensor"


def test_published_values_of_a_study_that_measured_nothing_are_shown(run: Run, parse: Any) -> None:
    page = parse(render(replace(run, results=(), published=tuple(
        replace(p, study="backprop") for p in run.published))))
    assert "Study: backprop" in [e.text for e in page.all("h2")]


def test_hostile_text_stays_text(hostile: Run, parse: Any) -> None:
    html = render(hostile)
    page = parse(html)
    assert page.all("img") == []
    assert [e.attrs for e in page.all("script")] == [{}, {"type": "application/json"}]
    assert page.all("script")[0].text == script()
    assert len(page.all("style")) == 1
    assert not [a for e in page.elements for a in e.attrs if a.startswith("on")]
    assert "\x00" not in html and "\u202e" not in html
    shown = HOSTILE.replace("\x00", "\ufffd").replace("\u202e", "\ufffd")
    assert page.all("h1")[0].text == shown
    for name in ("software", "devices", "places", "steps", "memory", "results", "published",
                 "verdicts"):
        assert len(getattr(hostile, name)) > 0
    assert html.count("&lt;script&gt;") > 100


def test_the_page_needs_no_network_and_forbids_it(run: Run, parse: Any) -> None:
    html = render(run)
    page = parse(html)
    assert not {e.tag for e in page.elements} & {"link", "iframe", "object", "image"}
    assert not [e for e in page.elements if e.attrs.keys() & {"src", "xlink:href"}]
    assert all(e.attrs["href"].startswith("#") for e in page.elements if "href" in e.attrs)
    assert "url(" not in html and "@import" not in html and "http" not in html.replace(
        "http-equiv", "")
    policy = next(e for e in page.all("meta") if "http-equiv" in e.attrs).attrs["content"]
    digest = b64encode(sha256(page.all("script")[0].text.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'")


def test_light_and_dark_define_the_same_colours(run: Run) -> None:
    light, dark = re.findall(r":root\{(--[^}]*)\}", render(run))
    names = [set(re.findall(r"(--\w+):", block)) for block in (light, dark)]
    assert names[0] == names[1]
    used = set(re.findall(r"var\((--\w+)\)", render(run))) - {"--s"}
    assert used <= names[0]


def test_equal_runs_give_equal_pages(run: Run) -> None:
    assert render(run) == render(replace(run))


def test_the_page_is_written_whole_and_replaces_an_older_one(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "pages" / "one.html"
    assert write_page(run, path) == path
    write_page(replace(run, results=()), path)
    assert path.read_text(encoding="utf-8") == render(replace(run, results=()))
    assert list(path.parent.iterdir()) == [path]


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[None]:
    """For the test's time a user without rights here, also when root runs the tests."""
    tmp_path.chmod(0o500)
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(was)
        tmp_path.chmod(0o700)


def test_a_folder_without_permission(run: Run, tmp_path: Path, stranger: None) -> None:
    with pytest.raises(StorageError) as caught:
        write_page(run, tmp_path / "one.html")
    assert str(caught.value) == (
        f"page {tmp_path / 'one.html'}: cannot be written: Permission denied\n"
        "  try: make room, or choose a folder you may write to")


def test_a_full_disk_keeps_the_older_page(
        run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_page(run, tmp_path / "one.html")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("handtorch.report.whole.os.replace", full)
    with pytest.raises(StorageError) as caught:
        write_page(replace(run, results=()), path)
    assert str(caught.value) == (
        f"page {path}: cannot be written: No space left on device\n"
        "  try: make room, or choose a folder you may write to")
    assert path.read_text(encoding="utf-8") == render(run)
    assert list(tmp_path.iterdir()) == [path]


def test_of_many_verdicts_those_that_nothing_decides_are_folded(run: Run, parse: Any) -> None:
    (yes,) = run.verdicts
    open_ = replace(yes, holds=None, holds_reason="no sensor")
    other = replace(open_, holds_reason="too busy")
    page = parse(render(replace(run, verdicts=(*[open_] * 8, yes, other))))
    folded = [e.text for e in page.all("li", "open") if "details." in e.inside]
    assert [text.partition("Level")[0] for text in folded] == [
        "sgemm: 8 cannot be judgedno sensor", "sgemm: cannot be judged"]    # a reason is said once
    assert "9 questions that cannot be judged here, and why" in [
        e.text for e in page.all("summary")]
