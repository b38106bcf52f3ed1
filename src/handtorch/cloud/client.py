"""Recognition elsewhere: one connection to a server of the inference protocol."""

from __future__ import annotations

import http.client
import json
import select
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from handtorch.cloud.headers import read_header
from handtorch.cloud.http_link import HttpLink
from handtorch.cloud.on_device import NO_NAMES, UNTRAINED
from handtorch.cloud.picture_file import read_picture
from handtorch.cloud.pictures import decode, encode, reduced
from handtorch.cloud.protocol import (
    HEAD_LENGTH,
    TIMING,
    Message,
    Request,
    Response,
    Tensor,
    Wanted,
    decode_response,
    encode_request,
)
from handtorch.cloud.recipes import RECIPES, TOP, Label, Recipe, fitted, top
from handtorch.cloud.recognised import Recognised, Steps
from handtorch.errors import BadInput, HandTorchError
from handtorch.meters.used import Span, resident_bytes

ORIGINAL = "original"
SENT = {"png": "PNG", "jpeg": "JPEG"}
SENDING = (*SENT, ORIGINAL)
TIMEOUT_S = 60.0
MOST_ANSWER_BYTES = 16 << 20


class Connection:
    """HTTP/1.1 to one server, kept open from request to request. Nothing is sent twice."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError as e:
            raise BadInput(f"--url {url}", why=str(e)) from e
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInput(f"--url {url}", why="it names no server", fix="http://HOST:PORT")
        self.url, self._tls = url, parts.scheme == "https"
        self._base = parts.path.rstrip("/")
        self._http = HttpLink(parts.hostname, port, TIMEOUT_S,
                              ssl.create_default_context() if self._tls else None)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def get(self, path: str) -> Any:
        """The JSON at this path."""
        with _told(self.url):
            self._http.request("GET", self._base + path, headers=self._headers)
            answer = self._http.getresponse()
            text = answer.read(MOST_ANSWER_BYTES)
        if answer.status != 200:
            raise _refused(path, answer.status, text)
        with _understood(self.url):
            return json.loads(text) if text else None

    def send(self, path: str, message: Message) -> None:
        """The whole of it is the socket's afterwards; that is not yet the server's."""
        http_ = self._http
        with _told(self.url):
            http_.putrequest("POST", self._base + path)
            for name, value in {**message.headers(), **self._headers,
                                "Content-Length": str(len(message.body))}.items():
                http_.putheader(name, value)
            http_.endheaders(message.body)

    def wait(self) -> None:
        """The answer has begun to come. Through TLS that is seen only once its head is read."""
        if not self._tls and not select.select([self._http.sock], [], [], TIMEOUT_S)[0]:
            raise HandTorchError(f"{self.url} did not answer", why=f"within {TIMEOUT_S:g} s")

    def answer(self, path: str) -> Response:
        with _told(self.url):
            answer = self._http.getresponse()
            body = answer.read(MOST_ANSWER_BYTES + 1)
        if answer.status != 200:
            raise _refused(path, answer.status, body)
        head = answer.headers.get(HEAD_LENGTH)
        with _understood(self.url):
            return decode_response(body, None if head is None else int(head))

    def cut(self) -> None:
        """Whoever waits for an answer or a connection, in another thread, learns at once that
        there is none."""
        self._http.cut()

    def close(self) -> None:
        """The next request opens it again."""
        self._http.close()


class _told:
    """What goes wrong with a connection, as an error for the user."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError | http.client.HTTPException):
            raise HandTorchError(f"no answer from {self._url}",
                                 why=f"{type(error).__name__}: {error}",
                                 fix="is the server running? `handtorch serve` prints its address"
                                 ) from error


@contextmanager
def _understood(url: str) -> Iterator[None]:
    """Another server than ours may answer in another form."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as e:
        raise BadInput(f"the answer of {url} cannot be understood",
                       why=f"{type(e).__name__}: {e}", fix="`handtorch serve`") from e


def _refused(path: str, status: int, body: bytes) -> HandTorchError:
    try:
        why = str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        why = body[:200].decode("utf-8", "replace")
    return BadInput(f"the server refused {path} with {status}", why=why)


class InCloud:
    """Recognises pictures with a model that a server has loaded.

    `sending` is how a picture travels: `png` small and exact, `jpeg` smaller and nearly so,
    `original` as it is."""

    def __init__(self, url: str, model: str, *, labels: tuple[str, ...] = (), sending: str = "png",
                 token: str | None = None) -> None:
        self._link = Connection(url, token)
        self._at = f"/v2/models/{quote(model, safe='')}"
        self._mine, self._sending = labels, sending
        told = self._link.get(self._at)
        with _understood(url):
            self._output = str(told["outputs"][0]["name"])
            about = told.get("parameters", {})
            picture = about.get("picture")
            if picture is None:
                raise BadInput(f"{model} at {url} takes no pictures", fix="another --model")
            self._picture = str(picture["name"])
            self.engine, self.place = str(about.get("engine", "")), str(about.get("place", ""))
            self.trained = bool(about.get("trained", True))
            self._named = bool(about.get("labels"))
            self.recipe = _recipe(picture)

    def load(self) -> None:
        """Nothing: the server has done it."""

    def close(self) -> None:
        self._link.close()

    def cut(self) -> None:
        self._link.cut()

    def rtt_ms(self, times: int = 5) -> float:
        """The least time of a request that asks for nothing."""
        taken = []
        for _ in range(times):
            begin_ns = time.perf_counter_ns()
            self._link.get("/v2/health/live")
            taken.append((time.perf_counter_ns() - begin_ns) / 1e6)
        return min(taken)

    def __call__(self, path: Path, sending: str | None = None) -> Recognised:
        """`sending` is how this one travels, if not as the others."""
        sending = sending or self._sending
        steps, begin_ns, cpu_ns = Steps(), time.perf_counter_ns(), time.process_time_ns()
        with steps.of("rescale"):
            data = read_picture(path)
            header = read_header(data)
            sent = data if sending == ORIGINAL else encode(
                reduced(decode(data), self.recipe), SENT[sending])
        with steps.of("upload"):
            self._link.send(f"{self._at}/infer", self._asked(sent))
        self._link.wait()
        with steps.of("download"):
            answer = self._link.answer(self._at)
        no_labels = self._why_not()
        with _understood(self._link.url):
            labels = () if no_labels else self._labels(answer)
            all_ms = _with_theirs(steps.ms(), answer)
        span = Span(begin_ns, time.perf_counter_ns(), time.process_time_ns() - cpu_ns, None,
                    resident_bytes())
        return Recognised(path.name, header.width, header.height, len(data), len(sent), labels,
                          no_labels, all_ms, span)

    def _asked(self, sent: bytes) -> Message:
        """Our own labels take all scores; else the server's best five."""
        wanted = Wanted(self._output) if self._mine else Wanted(self._output, classes=TOP)
        return encode_request(Request((Tensor.strings(self._picture, [sent]),), (wanted,)))

    def _why_not(self) -> str:
        return UNTRAINED if not self.trained else "" if self._mine or self._named else NO_NAMES

    def _labels(self, answer: Response) -> tuple[Label, ...]:
        values = answer.outputs[0].values
        if not isinstance(values, tuple):
            return top(values[0], self._mine)
        found = [text.decode("utf-8", "replace").split(":", 2) for text in values]
        return tuple(Label(int(index), name, None) for _, index, name in found)


def _with_theirs(ours: Mapping[str, float], answer: Response) -> dict[str, float]:
    """The server's steps beside our own; it must tell them."""
    told = answer.parameters.get(TIMING)
    if not isinstance(told, dict):
        raise BadInput("the server does not tell its times",
                       why=f"its answer has no parameter {TIMING}", fix="`handtorch serve`")
    theirs = {name: float(ms) for name, ms in told.items()}
    return {**ours, "upload": max(ours["upload"], theirs["receive"]),
            **{step: theirs[step] for step in ("decode", "queue", "compute", "send")}}


def _recipe(told: Mapping[str, Any]) -> Recipe:
    """The server's, as far as rescaling goes."""
    name, crop = str(told["recipe"]), told["crop"]
    recipe = RECIPES.get(name) or next(iter(RECIPES.values()))
    return fitted(recipe, int(crop[0]), int(crop[1]))
