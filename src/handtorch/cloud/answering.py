"""One inference request, from its head to its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from handtorch.cloud.batching import Arrays
from handtorch.cloud.body import Budget, Held, Receive, headers_of, read_body
from handtorch.cloud.decoders import Decoders
from handtorch.cloud.limits import Limits, WireLimits
from handtorch.cloud.metrics import Metrics
from handtorch.cloud.models import Loaded, answered, arrays_of, pictures_of, wanted_of
from handtorch.cloud.protocol import (
    HEAD_LENGTH,
    TIMING,
    Request,
    Response,
    decode_request,
    encode_response,
    listed,
    pack,
    to_json,
)
from handtorch.cloud.refused import ClientGone, Refused
from handtorch.cloud.repository import Repository
from handtorch.cloud.timing import Stamps, rounded, server_timing
from handtorch.errors import BadInput, HandTorchError

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    async def send(self, send: Send) -> None:
        headers = [(b"content-length", str(len(self.body)).encode())]
        headers += [(name.lower().encode("latin-1"), value.encode("latin-1"))
                    for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


@dataclass(frozen=True)
class Parts:
    """What every request of a server shares."""

    repository: Repository
    decoders: Decoders
    limits: Limits
    budget: Budget
    metrics: Metrics


def refusal(error: HandTorchError) -> Reply:
    """What a client is told; never a path or a line of ours."""
    status = error.status if isinstance(error, Refused) else 400 if isinstance(
        error, BadInput) else 500
    headers = error.headers if isinstance(error, Refused) else {}
    text = error.message() if status != 500 else f"{type(error).__name__}: {error.what}"
    return Reply(status, to_json({"error": text}), {"Content-Type": "application/json", **headers})


class Inferring:
    """The endpoint `.../infer`, as an ASGI application."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stamps, parts = Stamps(_told(scope).get("began_ns")), self._parts
        name: str = scope["path_params"]["name"]
        known = ""
        with Held(parts.budget) as held:
            try:
                known = parts.repository.get(name, _version(scope)).offer.name
                reply = await self._reply(scope, receive, stamps, held)
            except HandTorchError as e:
                reply = refusal(e)
            except ClientGone:
                parts.metrics.requests.add(model=known, status="gone")
                await refusal(Refused(400, "the client has left", close=True)).send(send)
                return
            parts.metrics.requests.add(model=known, status=str(reply.status))
            await reply.send(send)

    async def _reply(self, scope: Scope, receive: Receive, stamps: Stamps, held: Held) -> Reply:
        headers, parts = headers_of(scope["headers"]), self._parts
        body = await read_body(headers, receive, parts.limits, held)
        stamps.mark()
        request = decode_request(body, _head_bytes(headers), WireLimits(
            json_bytes=parts.limits.json_bytes, elements_bytes=parts.limits.body_bytes))
        limit_s = parts.limits.request_s
        if request.timeout_us is not None:
            limit_s = min(limit_s, request.timeout_us / 1e6)
        loaded = parts.repository.get(scope["path_params"]["name"], _version(scope))
        try:
            with loaded.used():
                async with asyncio.timeout(limit_s):
                    return await self._computed(loaded, request, _gone(scope), stamps)
        except TimeoutError as e:
            raise Refused(504, "the request ran out of time", why=f"after {limit_s:g} s") from e

    async def _computed(self, loaded: Loaded, request: Request, gone: Callable[[], bool],
                        stamps: Stamps) -> Reply:
        metrics, name = self._parts.metrics, loaded.offer.name
        pictures = pictures_of(loaded, request)
        wanted = wanted_of(loaded, request, pictures is not None)
        inputs = arrays_of(loaded, request) if pictures is None else await self._pictures(
            loaded, pictures)
        stamps.mark()
        done = await loaded.batcher.run(inputs, gone)
        stamps.marked(done.begin_ns, done.end_ns)
        rows = {p.name: o for p, o in zip(loaded.engine.outputs, done.outputs, strict=True)}
        outputs = tuple(answered(loaded, w, rows[w.name]) for w in wanted)
        binary = [w.binary for w in wanted]
        packed = [pack(t) if b else listed(t) for t, b in zip(outputs, binary, strict=True)]
        stamps.mark()
        steps_ms = rounded(stamps.steps_ms())
        for step, ms in steps_ms.items():
            metrics.steps.observe(ms / 1e3, model=name, step=step)
        metrics.batches.observe(done.batch_rows, model=name)
        message = encode_response(
            Response(name, loaded.offer.version, outputs, request.id,
                     {TIMING: steps_ms, "batch_rows": done.batch_rows}), binary, packed)
        return Reply(200, message.body,
                     {**message.headers(), "Server-Timing": server_timing(steps_ms)})

    async def _pictures(self, loaded: Loaded, pictures: tuple[bytes, ...]) -> Arrays:
        recipe, decoders = loaded.recipe, self._parts.decoders
        assert recipe is not None, "looked at before"
        if len(pictures) == 1:
            return (await decoders.input_of(pictures[0], recipe),)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_kept(decoders.input_of(p, recipe))) for p in pictures]
        found = [task.result() for task in tasks]
        for outcome in found:
            if isinstance(outcome, BadInput):
                raise outcome
        return (np.concatenate([f for f in found if not isinstance(f, BadInput)]),)


async def _kept(work: Awaitable[Any]) -> Any:
    """A refusal as a value: one bad picture of several is told as what it is."""
    try:
        return await work
    except BadInput as e:
        return e


def _version(scope: Scope) -> str:
    """Empty where any will do."""
    version: str = scope["path_params"].get("version", "")
    return version


def _head_bytes(headers: Mapping[str, str]) -> int | None:
    text = headers.get(HEAD_LENGTH.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise BadInput(HEAD_LENGTH, why="no number")
    return int(text)


def _gone(scope: Scope) -> Callable[[], bool]:
    """Tells whether the client has left; a server that cannot know thinks it is still there."""
    gone: Callable[[], bool] = _told(scope).get("gone", lambda: False)
    return gone


def _told(scope: Scope) -> Mapping[str, Any]:
    """What the connection knows of this request, if it is ours."""
    told: Mapping[str, Any] = scope.get("extensions", {}).get("handtorch", {})
    return told
