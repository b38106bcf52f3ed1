"""Chromium without a window, told what to do over a pipe: its DevTools protocol, and no library."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

WAIT_S = 60.0
_START = """
import fcntl, os, sys
given = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 20) for number in sys.argv[1:3]]
for number, handle in enumerate(given, 3):
    os.dup2(handle, number)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """Messages are JSON and end with a zero byte; it reads file 3 and writes file 4."""

    def __init__(self, program: str, profile: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                   "--disable-dev-shm-usage", "--remote-debugging-pipe", "--window-size=1280,900",
                   f"--user-data-dir={profile}", "about:blank"]
        self._child = subprocess.Popen(
            [sys.executable, "-c", _START, str(theirs_in), str(theirs_out), *command],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self._number, self._rest = 0, b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._child.terminate()
        self._child.wait(WAIT_S)
        os.close(self._in)
        os.close(self._out)

    def ask(self, method: str, session: str = "", **given: Any) -> dict[str, Any]:
        """The answer; what comes before it is kept as events."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": given,
                 **({"sessionId": session} if session else {})}
        os.write(self._out, json.dumps(asked).encode() + b"\0")
        until = time.monotonic() + WAIT_S
        while True:
            told = self._message(until)
            if told.get("id") == self._number:
                assert "error" not in told, f"{method}: {told['error']}"
                return dict(told["result"])
            self.events.append(told)

    def open(self, url: str) -> Tab:
        target = self.ask("Target.createTarget", url="about:blank")
        session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        tab = Tab(self, session["sessionId"])
        for room in ("Runtime", "Log", "Page"):
            self.ask(f"{room}.enable", tab.session)
        self.ask("Page.navigate", tab.session, url=url)
        return tab

    def _message(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"chromium has not answered for {WAIT_S:.0f} s"
            data = os.read(self._in, 1 << 16)
            assert data, "chromium has ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(line))


class Tab:
    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self.session = browser, session

    def value(self, code: str) -> Any:
        told = self._browser.ask("Runtime.evaluate", self.session, expression=code,
                                 returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def until(self, code: str) -> None:
        """Wait for it to be true."""
        end = time.monotonic() + WAIT_S
        while self.value(f"try {{ Boolean({code}) }} catch (e) {{ false }}") is not True:
            assert time.monotonic() < end, f"{code} did not come true: {self.value(_TEXT)}"
            time.sleep(0.05)

    def shot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        told = self._browser.ask("Page.captureScreenshot", self.session, format="png")
        path.write_bytes(base64.b64decode(told["data"]))

    @property
    def errors(self) -> list[str]:
        """What the console would show in red, and exceptions nobody caught."""
        found = []
        for event in self._browser.events:
            given = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(given["exceptionDetails"].get("text")))
            entry = given.get("entry", {})
            if event.get("method") == "Log.entryAdded" and entry.get("level") == "error":
                found.append(entry["text"])
        return found


_TEXT = "document.body ? document.body.innerText : ''"
