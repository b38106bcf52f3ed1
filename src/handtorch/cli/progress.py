"""How far several studies are, and how long the rest takes: a bar on a terminal, lines elsewhere.

Time left is what the studies took where they were timed, at the pace of this machine so far."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self, TextIO

Say = Callable[[str, float | None, float | None], None]
_BARS = (20, 10)            # the longer one where there is room
_TRUST_S = 15.0             # of expected time: until so much is over, the pace is taken for 1
_NEARLY = 0.97              # of its expected time, for a study that takes longer than that
_REDRAW_S = 1.0
_LINE_S = 5.0               # between two lines, where there is no terminal


class Pace:
    """`expected_s` names the studies in order; one without a figure makes the time left unknown."""

    def __init__(self, names: Sequence[str], expected_s: Mapping[str, float]) -> None:
        self._names, self._expected = tuple(names), expected_s
        self._done: dict[str, float] = {}
        self.known = all(name in expected_s for name in names)

    def finished(self, name: str, took_s: float) -> None:
        self._done[name] = took_s

    def look(self, name: str, since_s: float) -> tuple[float | None, float | None]:
        """Share done and seconds left, `since_s` after `name` began; None where unknown."""
        if not self.known:
            return (len(self._done) / len(self._names) if len(self._names) > 1 else None), None
        total = sum(self._expected[n] for n in self._names)
        before = sum(self._expected[n] for n in self._done)
        spent = sum(self._done.values()) + _TRUST_S
        current = 0.0 if name in self._done else self._expected[name]
        # One that takes longer than foretold slows the pace before it has ended.
        pace = max(spent / (before + _TRUST_S),
                   (spent + since_s) / (before + current + _TRUST_S))
        done = before + min(since_s / pace, _NEARLY * current)
        return done / total, pace * (total - done)


class Course:
    """Says what the studies say, with the bar. Used as a context: a bar ends with a line end.

    `said` is also given every message, the share and the seconds left."""

    def __init__(self, names: Sequence[str], expected_s: Mapping[str, float],
                 err: TextIO | None = None, said: Say = lambda text, share, left_s: None) -> None:
        self._err = sys.stderr if err is None else err
        self._pace, self._said = Pace(names, expected_s), said
        self._name, self._text, self._began = "", "", time.monotonic()
        self._drawn = self._err.isatty()
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, name: str) -> None:
        """The study before it, if any, has ended."""
        self._finish()
        self._name, self._began = name, time.monotonic()

    def __call__(self, text: str) -> None:
        self._text = text
        share, left_s = self._look()
        self._said(text, share, left_s)
        with self._lock:
            if self._drawn:
                self._draw()
            else:
                self._err.write(f"{_ahead(share, left_s)}{text}\n")
                self._err.flush()

    def __enter__(self) -> Self:
        if self._drawn:                         # one redraw a second; it measures nothing
            self._thread = threading.Thread(target=self._tick, daemon=True, name="handtorch-bar")
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._err.write("\n")
            self._err.flush()

    def _finish(self) -> None:
        if self._name:
            self._pace.finished(self._name, time.monotonic() - self._began)

    def _look(self) -> tuple[float | None, float | None]:
        return self._pace.look(self._name, time.monotonic() - self._began)

    def _tick(self) -> None:
        while not self._ended.wait(_REDRAW_S):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        wide = max(20, shutil.get_terminal_size().columns - 1)
        self._err.write(f"\r{fitted(*self._look(), self._text, wide):<{wide}}")
        self._err.flush()


_FEW_SHARE = 0.1                    # of all that is counted: before it, no time is foretold


class Count:
    """`timing launches: 12 of 40`, with the time left: on a terminal drawn anew on one line with
    the bar, elsewhere a line every few seconds. Used as a context: a bar ends with a line end."""

    def __init__(self, text: str, err: TextIO | None = None) -> None:
        self._text, self._err = text, sys.stderr if err is None else err
        self._drawn, self._open = self._err.isatty(), False
        self._began_s = self._said_s = time.monotonic()

    def __call__(self, done: int, of: int) -> None:
        now_s = time.monotonic()
        if not done:
            self._began_s = now_s
        # The first few are no measure of the others: what runs for the first time is compiled.
        told = _FEW_SHARE * of <= done < of
        left_s = (now_s - self._began_s) / done * (of - done) if done and told else None
        text = f"{self._text}: {done} of {of}"
        if self._drawn:
            wide = max(20, shutil.get_terminal_size().columns - 1)
            self._err.write(f"\r{fitted(done / of, left_s, text, wide):<{wide}}")
            self._open = True
        elif done in (0, of) or now_s > self._said_s + _LINE_S:
            self._err.write(f"{_ahead(done / of, left_s)}{text}\n")
            self._said_s = now_s
        self._err.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._open:
            self._err.write("\n")
            self._err.flush()


def fitted(share: float | None, left_s: float | None, text: str, wide: int) -> str:
    """Bar, time left and text; in too narrow a line the bar goes first, then what follows the last
    semicolon, and then the text's end."""
    line = f"{_ahead(share, left_s)}{text}"
    for cells in _BARS:
        bar = f"[{'#' * round((share or 0.0) * cells):<{cells}}] "
        if len(bar) + len(line) <= wide:
            return bar + line
    line = line if len(line) <= wide else line.rpartition("; ")[0] or line
    return line if len(line) <= wide else f"{line[:wide - 3].rstrip()}..."


def _ahead(share: float | None, left_s: float | None) -> str:
    """`45 %, about 2 min left: `; nothing where nothing is known."""
    if left_s is None or share is None:
        return ""
    return f"{100 * share:.0f} %, about {spoken(left_s)} left: "


def spoken(seconds: float) -> str:
    """`20 s`, `2 min`, `1 h 10 min`; no finer than it can be known."""
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
