"""`handtorch report --serve`: a folder's runs over HTTP, for this machine alone.

    /                 the list, with boxes to choose      /run/NAME      the page of a run
    /live/NAME        a run that is being written         /compare?run=A&run=B
    /api/runs         the list as JSON                    /events/NAME   news of a run, as they come

It listens on the loopback address and asks for no token. So that a web page from elsewhere cannot
read it through the reader's own browser, a request must name this server as its host, and must not
come from another site. Names of runs are compared with what the folder lists, never made a path."""

from __future__ import annotations

import json
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from handtorch.errors import BadInput, HandTorchError
from handtorch.record import Run, read_run
from handtorch.record.glance import glance
from handtorch.report.folder import Entry, Folder, KeptRows, run_file_of
from handtorch.report.live_page import list_page, live_page, refusal_page

LOOPBACK = "127.0.0.1"
Rendered = Callable[[Run], str]
Compared = Callable[[Sequence[Run], Sequence[str]], str]
_LOOK_S = 0.5               # between two looks at a run that is followed
_BEAT_S = 10.0              # a follower that has left is noticed when something is sent
_MOST_ROWS = 200            # in one message
_MOST_FOLLOWERS = 16
_MOST_COMPARED = 8
_MOST_PAGES = 4             # kept rendered
_OWN_PAGE = ("default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; "
             "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
_REFUSAL = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


class Live(ThreadingHTTPServer):
    """Listens once made; `serve_forever` answers until `end`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, folder: Path, port: int, render: Rendered, compare: Compared,
                 kept: KeptRows = lambda folder: ()) -> None:
        self.folder = Folder(folder, kept)
        self.render, self.compare = render, compare
        self.ended = threading.Event()
        self.followers = threading.BoundedSemaphore(_MOST_FOLLOWERS)
        self._pages: dict[tuple[Any, ...], bytes] = {}
        self._rendering = threading.Lock()      # one at a time: a run may be large
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as e:
            raise BadInput(f"--port {port}", why=getattr(e, "strerror", None) or str(e),
                           fix="another --port; 0 takes a free one") from e

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def hosts(self) -> frozenset[str]:
        names = ("127.0.0.1", "localhost")
        return frozenset(f"{n}:{self.port}" for n in names) | (
            frozenset(names) if self.port == 80 else frozenset())

    def end(self) -> None:
        """Followers are told off, and `serve_forever` returns."""
        self.ended.set()
        self.shutdown()

    def page(self, files: Sequence[Path]) -> bytes:
        """Of one run, or of several side by side; made again only if a file has changed."""
        stats = [path.stat() for path in files]
        key = tuple((p.name, s.st_mtime_ns, s.st_size) for p, s in zip(files, stats, strict=True))
        with self._rendering:
            if key not in self._pages:
                runs = [read_run(path) for path in files]
                made = self.render(runs[0]) if len(runs) == 1 else self.compare(
                    runs, [run_file_of(path.name).removesuffix(".htr") for path in files])
                while len(self._pages) >= _MOST_PAGES:
                    self._pages.pop(next(iter(self._pages)))
                self._pages[key] = made.encode("utf-8", "replace")
            return self._pages[key]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that leaves in the middle is nothing to tell; anything else is."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Live
    server_version, sys_version = "HandTorch", ""
    protocol_version = "HTTP/1.1"
    timeout = 20                            # a request that does not come is not waited for

    def do_GET(self) -> None:
        if why := self._refusal():
            self._text(HTTPStatus.FORBIDDEN, why)
            return
        parts = urlsplit(self.path)
        word, _, rest = parts.path[1:].partition("/")
        name = unquote(rest)
        try:
            if parts.path == "/":
                self._own(lambda nonce: list_page(str(self.server.folder.path), nonce))
            elif parts.path == "/favicon.ico":      # every browser asks for one
                self._send(HTTPStatus.NO_CONTENT, "image/x-icon", b"")
            elif parts.path == "/api/runs":
                self._json({"runs": [_told(e) for e in self.server.folder.entries()]})
            elif parts.path == "/compare":
                self._compare(parse_qs(parts.query, max_num_fields=64).get("run", []))
            elif word == "run":
                self._page(self._files([name]))
            elif word == "live" and self._files([name]):
                self._own(lambda nonce: live_page(name, run_file_of(name), nonce))
            elif word == "events" and self._files([name]):
                self._follow(name)
            else:
                raise _NotThere(parts.path)
        except _NotThere as e:
            self._text(HTTPStatus.NOT_FOUND, f"There is no {e} here.")
        except HandTorchError as e:
            self._text(HTTPStatus.UNPROCESSABLE_ENTITY, str(e))
        except ValueError as e:                 # too many fields
            self._text(HTTPStatus.BAD_REQUEST, str(e))
        except FileNotFoundError:               # ended, and renamed, meanwhile
            self._text(HTTPStatus.NOT_FOUND, "This run has another name now: look at the list.")

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: who reads what is nobody's business."""

    def _refusal(self) -> str:
        """Why this request is not answered: it may come from a page of another site."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0].lower() not in self.server.hosts:
            return f"This server is http://{LOOPBACK}:{self.server.port}/ and no other."
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return "Another site may not ask here."
        return "" if self.path.startswith("/") else "That is no path of this server."

    def _files(self, names: Sequence[str]) -> list[Path]:
        found = []
        for name in names:
            path = self.server.folder.file(name)
            if path is None:
                raise _NotThere(f"run {name[:200]!r}")
            found.append(path)
        return found

    def _compare(self, names: Sequence[str]) -> None:
        names = list(dict.fromkeys(names))
        if not 2 <= len(names) <= _MOST_COMPARED:
            raise BadInput(f"{len(names)} runs to compare", fix=f"choose 2 to {_MOST_COMPARED}")
        self._page(self._files(names))

    def _page(self, files: Sequence[Path]) -> None:
        """A report brings a policy of its own."""
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page(files),
                   {"Content-Security-Policy": "frame-ancestors 'none'"})

    def _own(self, made: Callable[[str], str]) -> None:
        nonce = secrets.token_urlsafe(16)
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", made(nonce).encode(),
                   {"Content-Security-Policy": _OWN_PAGE.format(nonce=nonce)})

    def _json(self, told: Mapping[str, Any]) -> None:
        self._send(HTTPStatus.OK, "application/json", json.dumps(told).encode())

    def _text(self, status: HTTPStatus, text: str) -> None:
        self._send(status, "text/html; charset=utf-8",
                   refusal_page(text).encode("utf-8", "replace"),
                   {"Content-Security-Policy": _REFUSAL})

    def _send(self, status: HTTPStatus, kind: str, body: bytes,
              more: Mapping[str, str] | None = None) -> None:
        self._head(status, kind, {"Content-Length": str(len(body)), **(more or {})})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: HTTPStatus, kind: str, more: Mapping[str, str]) -> None:
        self.send_response(status)
        for key, value in {"Content-Type": kind, "X-Content-Type-Options": "nosniff",
                           "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
                           "Cross-Origin-Resource-Policy": "same-origin", **more}.items():
            self.send_header(key, value)
        self.end_headers()

    # --- a run that is being written

    def _follow(self, name: str) -> None:
        """News as they come, until the run, the reader or the server ends."""
        if not self.server.followers.acquire(blocking=False):
            self._text(HTTPStatus.SERVICE_UNAVAILABLE, "Too many follow runs already.")
            return
        try:
            self.close_connection = True
            self._head(HTTPStatus.OK, "text/event-stream", {"Connection": "close"})
            if self.command != "HEAD":
                self._tell(name)
        finally:
            self.server.followers.release()

    def _tell(self, name: str) -> None:
        seen = _cursor(self.headers.get("Last-Event-ID", ""))
        before, beat = "", time.monotonic()
        while not self.server.ended.is_set():
            told, seen = news(self.server.folder, name, seen)
            if told is None or told["state"] != "running":
                self._event("ended", _ending(self.server.folder, name))
                return
            rows = told["results"] or told["verdicts"]
            stands = json.dumps([told[k] for k in ("result_count", "verdict_count", "kept")]
                                + [told["progress"] and told["progress"]["said_s"]])
            if rows or stands != before:
                self._event("news", told, "-".join(map(str, seen)))
                before, beat = stands, time.monotonic()
            elif time.monotonic() - beat > _BEAT_S:
                self.wfile.write(b": still here\n\n")
                beat = time.monotonic()
            if not rows:
                self.server.ended.wait(_LOOK_S)

    def _event(self, kind: str, told: Mapping[str, Any], number: str = "") -> None:
        marked = f"id: {number}\n" if number else ""
        self.wfile.write(f"event: {kind}\n{marked}data: {json.dumps(told)}\n\n".encode())
        self.wfile.flush()


class _NotThere(Exception):
    """What was asked for is not one of ours."""


def _told(entry: Entry) -> dict[str, Any]:
    return asdict(entry)


def _cursor(text: str) -> tuple[int, int]:
    """How many results and verdicts a reader has that comes back; none if it does not say."""
    first, _, second = text[:40].partition("-")
    known = first.isascii() and first.isdigit() and second.isascii() and second.isdigit()
    return (int(first), int(second)) if known else (0, 0)


def news(folder: Folder, name: str, seen: tuple[int, int]
         ) -> tuple[dict[str, Any] | None, tuple[int, int]]:
    """What a reader that has `seen` so many results and verdicts does not know yet, and what it has
    seen then; None where the run is no longer there under this name."""
    path = folder.file(name)
    if path is None:
        return None, seen
    try:
        found = glance(path, *seen, most=_MOST_ROWS)
    except HandTorchError:
        if folder.file(name) is None:           # it ended while we looked
            return None, seen
        raise
    entry = folder.entry(name)
    said = None if entry.progress is None else {
        **asdict(entry.progress), "age_s": max(0.0, time.time() - entry.progress.said_s)}
    return {"state": entry.state, "progress": said, "result_count": found.result_count,
            "verdict_count": found.verdict_count, "kept": list(folder.kept(name)),
            "results": [asdict(r) for r in found.results],
            "verdicts": [asdict(v) for v in found.verdicts]}, (
        seen[0] + len(found.results), seen[1] + len(found.verdicts))


def _ending(folder: Folder, name: str) -> dict[str, Any]:
    """How it ended: whole, under its own name; or without anybody to finish it."""
    title = run_file_of(name)
    if folder.file(name) is None and folder.file(title) is not None:
        return {"state": folder.entry(title).state, "page": f"/run/{quote(title)}"}
    if name == title:
        return {"state": folder.entry(name).state, "page": f"/run/{quote(name)}"}
    return {"state": "killed", "page": None}
