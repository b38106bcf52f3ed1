from __future__ import annotations

import io
import os
import re

import pytest

from handtorch.cli import progress
from handtorch.cli.progress import Count, Course, Pace, spoken

EXPECTED = {"one": 10.0, "two": 30.0, "three": 60.0}


class Clock:
    """Time as the test wants it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_at_the_foretold_pace() -> None:
    pace = Pace(list(EXPECTED), EXPECTED)
    assert pace.look("one", 0.0) == (0.0, 100.0)
    pace.finished("one", 10.0)
    assert pace.look("two", 15.0) == (0.25, 75.0)


def test_a_slower_machine_is_noticed() -> None:
    pace = Pace(list(EXPECTED), EXPECTED)
    pace.finished("one", 35.0)                  # (35 + 15) / (10 + 15): twice as slow
    share, left_s = pace.look("two", 0.0)
    assert (share, left_s) == (0.1, 180.0)


def test_a_study_that_takes_too_long_never_says_it_is_done() -> None:
    pace = Pace(["one"], EXPECTED)
    shares = [pace.look("one", seconds)[0] for seconds in (5.0, 10.0, 100.0, 10000.0)]
    assert shares == sorted(shares, key=lambda s: s or 0.0) and (shares[-1] or 0.0) <= 0.97
    left = pace.look("one", 100.0)[1]
    assert left is not None and 0 < left < 10


def test_shares_grow_and_the_rest_shrinks_over_a_whole_run() -> None:
    pace, before = Pace(list(EXPECTED), EXPECTED), -1.0
    for name, seconds in EXPECTED.items():
        for at in (0.0, seconds / 2, seconds):
            share, _ = pace.look(name, at)
            assert share is not None and share >= before
            before = share
        pace.finished(name, seconds)
    assert before > 0.97


def test_without_figures_the_time_left_is_unknown() -> None:
    pace = Pace(["one", "other"], EXPECTED)
    assert pace.look("one", 3.0) == (0.0, None)
    pace.finished("one", 3.0)
    assert pace.look("other", 3.0) == (0.5, None)
    assert Pace(["other"], EXPECTED).look("other", 1.0) == (None, None)


def test_lines_where_there_is_no_terminal(clock: Clock) -> None:
    err, heard = io.StringIO(), []
    with Course(list(EXPECTED), EXPECTED, err,
                said=lambda text, share, left: heard.append((text, share, left))) as course:
        course.begin("one")
        course("one: first")
        clock.now = 10.0
        course.begin("two")
        course("two: first")
    assert err.getvalue() == ("0 %, about 2 min left: one: first\n"
                              "10 %, about 2 min left: two: first\n")
    assert heard == [("one: first", 0.0, 100.0), ("two: first", 0.1, 90.0)]


def test_plain_lines_where_nothing_is_foretold(clock: Clock) -> None:
    err = io.StringIO()
    with Course(["other"], EXPECTED, err) as course:
        course.begin("other")
        course("working")
    assert err.getvalue() == "working\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal_is_drawn_over_itself(
        clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.shutil, "get_terminal_size", lambda: os.terminal_size((60, 24)))
    err = Terminal()
    with Course(list(EXPECTED), EXPECTED, err) as course:
        course.begin("one")
        course("one: first, with a text that is far too long for such a narrow terminal")
        clock.now = 50.0
        course("one: second")
    drawn = err.getvalue()
    assert drawn.endswith("\n") and drawn.count("\n") == 1
    first, *_ = bars = [bar.rstrip("\n") for bar in drawn.split("\r")[1:]]
    assert first == "0 %, about 2 min left: one: first, with a text that is f..."
    assert all(len(bar) == 59 for bar in bars)
    assert re.match(r"\[##? +\] \d+ %, about \d+ min left: one: second +$", bars[-1])


def test_the_bar_goes_on_while_a_study_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_REDRAW_S", 0.01)
    err = Terminal()
    with Course(["one"], {"one": 1.0}, err) as course:
        course.begin("one")
        course("working")
        while err.getvalue().count("\r") < 4:
            pass                                # ends as soon as the thread has drawn
    assert err.getvalue().count("working") >= 4


def test_a_text_that_does_not_fit_takes_the_place_of_the_bar() -> None:
    text = "training: CharCNN, batch 16, on intel"
    assert progress.fitted(0.5, 60.0, text, 90) == \
        f"[{'#' * 10}{' ' * 10}] 50 %, about 60 s left: {text}"
    assert progress.fitted(0.5, 60.0, text, 79) == f"[#####     ] 50 %, about 60 s left: {text}"
    assert progress.fitted(0.5, 60.0, text, 65) == f"50 %, about 60 s left: {text}"
    assert progress.fitted(0.5, 60.0, f"{text}; one more hour", 65) == \
        f"50 %, about 60 s left: {text}"
    assert progress.fitted(0.5, 60.0, text, 40) == "50 %, about 60 s left: training: Char..."


@pytest.mark.parametrize(("seconds", "said"), [
    (0.4, "5 s"), (47.0, "45 s"), (89.0, "90 s"), (95.0, "2 min"), (3540.0, "59 min"),
    (4200.0, "1 h 10 min")])
def test_no_finer_than_it_can_be_known(seconds: float, said: str) -> None:
    assert spoken(seconds) == said


def test_so_many_of_so_many_with_the_time_left(clock: Clock) -> None:
    err = io.StringIO()
    with Count("timing", err) as said:
        for done in range(5):
            said(done, 4)
            clock.now += 4.0
    assert err.getvalue().splitlines() == [
        "timing: 0 of 4", "50 %, about 10 s left: timing: 2 of 4",
        "timing: 4 of 4"]


def test_on_a_terminal_it_is_one_line_that_ends(clock: Clock) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True
    err = Terminal()
    with Count("timing", err) as said:
        said(0, 2)
        said(2, 2)
    assert err.getvalue().count("\n") == 1 and err.getvalue().endswith("\n")
    assert err.getvalue().count("\r") == 2
    assert "[####################] timing: 2 of 2" in err.getvalue()
    with Count("timing", silent := Terminal()):
        pass
    assert silent.getvalue() == ""
