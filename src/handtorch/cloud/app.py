"""The server's surface: Open Inference Protocol v2, the repository extension, and metrics."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from handtorch.cloud.answering import Inferring, Parts, Reply, Scope, Send, refusal
from handtorch.cloud.body import Held, Receive, headers_of, read_body
from handtorch.cloud.metrics import Gauge
from handtorch.cloud.models import config, metadata
from handtorch.cloud.protocol import read_json, to_json
from handtorch.cloud.refused import ClientGone, Refused
from handtorch.errors import BadInput, HandTorchError

EXTENSIONS = ("binary_tensor_data", "classification", "model_configuration", "model_repository",
              "handtorch_picture", "handtorch_timing")
OPEN = frozenset({"/v2/health/live", "/v2/health/ready"})
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Endpoint = Callable[[Request], Awaitable[Response]]


class State:
    """What health tells."""

    ready = False
    draining = False


class Guarded:
    """Every request passes here first: its token before its body, and its last answer."""

    def __init__(self, app: App, token: str | None, state: State) -> None:
        self._app, self._state = app, state
        self._token = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        receive, send = _hung_up(receive, send)
        if self._state.draining:
            send = _closing(send)
        if self._token is not None and scope["path"] not in OPEN:
            given = next((v for n, v in scope["headers"] if n == b"authorization"), b"")
            if not hmac.compare_digest(given, self._token):
                await refusal(Refused(401, "no token, or not the right one", headers={
                    "WWW-Authenticate": "Bearer"}, close=True)).send(send)
                return
        await self._app(scope, receive, send)


def _hung_up(receive: Receive, send: Send) -> tuple[Receive, Send]:
    """A client that hangs up is one that has disconnected. Of several requests on one connection
    uvicorn tells only the last one; for the others uvloop says that the handler of the connection
    is closed. They are told here, or uvicorn would complain that they were never answered."""
    def disconnect(error: RuntimeError) -> None:
        if "handler is closed" not in str(error):
            raise error
        if (request := getattr(send, "__self__", None)) is not None:
            request.disconnected = True

    async def received() -> Any:
        try:
            return await receive()
        except RuntimeError as error:
            disconnect(error)
            return {"type": "http.disconnect"}

    async def sent(message: Any) -> None:
        try:
            await send(message)
        except RuntimeError as error:
            disconnect(error)
    return received, sent


def _closing(send: Send) -> Send:
    """The client hears that this connection takes no further request."""
    async def closing(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)
    return closing


def make_app(parts: Parts, state: State, token: str | None, version: str) -> App:
    """The whole application."""
    pages = _Pages(parts, state, version)
    infer = Inferring(parts)
    parts.metrics.gauges += _gauges(parts)
    model = "/v2/models/{name}"
    table: list[tuple[str, Endpoint, str]] = [
        ("/v2/health/live", pages.live, "GET"), ("/v2/health/ready", pages.ready, "GET"),
        ("/v2", pages.server, "GET"), ("/metrics", pages.metrics, "GET"),
        ("/v2/repository/index", pages.index, "POST"),
        ("/v2/repository/models/{name}/load", pages.load, "POST"),
        ("/v2/repository/models/{name}/unload", pages.unload, "POST")]
    for of in (model, model + "/versions/{version}"):
        table += [(of, pages.model, "GET"), (f"{of}/ready", pages.model_ready, "GET"),
                  (f"{of}/config", pages.config, "GET")]
    routes = [Route(path, endpoint, methods=[method]) for path, endpoint, method in table]
    routes += [Route(f"{of}/infer", infer, methods=["POST"])
               for of in (model, model + "/versions/{version}")]
    app = Starlette(routes=routes, exception_handlers={
        HTTPException: _http_error, HandTorchError: _refused, ClientGone: _gone})
    app.router.redirect_slashes = False         # a redirect would repeat what the client said
    return Guarded(app, token, state)


class _Pages:
    """Everything but inference."""

    def __init__(self, parts: Parts, state: State, version: str) -> None:
        self._parts, self._state, self._version = parts, state, version

    async def live(self, request: Request) -> Response:
        return Response()

    async def ready(self, request: Request) -> Response:
        return Response(status_code=200 if self._state.ready and not self._state.draining else 503)

    async def server(self, request: Request) -> Response:
        return _json({"name": "handtorch", "version": self._version,
                      "extensions": list(EXTENSIONS)})

    async def metrics(self, request: Request) -> Response:
        return PlainTextResponse(self._parts.metrics.text(),
                                 media_type="text/plain; version=0.0.4")

    async def model(self, request: Request) -> Response:
        name, version = _asked(request)
        repository = self._parts.repository
        return _json(metadata(repository.get(name, version), repository.versions(name)))

    async def model_ready(self, request: Request) -> Response:
        self._parts.repository.get(*_asked(request))
        return Response()

    async def config(self, request: Request) -> Response:
        return _json(config(self._parts.repository.get(*_asked(request))))

    async def index(self, request: Request) -> Response:
        told = await self._told(request)
        return _json([entry for entry in self._parts.repository.index()
                      if entry["state"] == "READY" or told.get("ready") is not True])

    async def load(self, request: Request) -> Response:
        told = await self._told(request)
        if told.get("parameters"):
            raise BadInput("parameters for loading", why="what a model is made of is said when "
                           "the server is started, and nowhere else")
        await self._parts.repository.load(request.path_params["name"])
        return Response()

    async def unload(self, request: Request) -> Response:
        await self._told(request)
        await self._parts.repository.unload(request.path_params["name"])
        return Response()

    async def _told(self, request: Request) -> dict[str, Any]:
        """The JSON object that a command brings; an empty body is an empty one."""
        parts = self._parts
        with Held(parts.budget) as held:
            body = await read_body(headers_of(request.scope["headers"]), request.receive,
                                   parts.limits, held)
            told = read_json(body, parts.limits.json_bytes) if body else {}
        if not isinstance(told, dict):
            raise BadInput("the body", why="no JSON object")
        return told


def _asked(request: Request) -> tuple[str, str]:
    return request.path_params["name"], request.path_params.get("version", "")


def _json(value: object) -> Response:
    return Response(to_json(value), media_type="application/json")


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _as_response(Reply(error.status_code, json.dumps({"error": error.detail}).encode(),
                              {"Content-Type": "application/json", **(error.headers or {})}))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HandTorchError)
    return _as_response(refusal(error))


async def _gone(request: Request, error: Exception) -> Response:
    return _as_response(refusal(Refused(400, "the client has left", close=True)))


def _as_response(reply: Reply) -> Response:
    return Response(reply.body, reply.status, dict(reply.headers))


def _gauges(parts: Parts) -> list[Gauge]:
    return [
        Gauge("handtorch_queued_samples", "Samples that wait for their batch.", lambda: {
            (("model", m.offer.name), ("version", m.offer.version)): m.batcher.queued
            for m in parts.repository.loaded()}),
        Gauge("handtorch_body_bytes", "Bytes of requests in memory.",
              lambda: {(): parts.budget.used_bytes}),
        Gauge("handtorch_decoder_deaths_total", "Processes that a picture has killed.",
              lambda: {(): parts.decoders.deaths}, "counter")]
