"""A server from its start to its end: the socket, the loop, loading, signals, draining."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import uvicorn

from handtorch.cloud.addresses import family, in_url, is_loopback
from handtorch.cloud.answering import Parts
from handtorch.cloud.app import State, make_app
from handtorch.cloud.batching import BatchLimits
from handtorch.cloud.body import Budget
from handtorch.cloud.connection import Guard
from handtorch.cloud.decoders import Decoders
from handtorch.cloud.limits import Limits
from handtorch.cloud.metrics import Metrics
from handtorch.cloud.models import Offer
from handtorch.cloud.repository import Repository
from handtorch.errors import BadInput, HandTorchError

# A client that was told to close may have sent its next request before it heard so.
_LAST_REQUESTS_S = 0.3
_OWN_FILES = 128            # descriptors besides those of connections


@dataclass(frozen=True)
class Settings:
    """`offers` are all that may ever be loaded; `cold` leaves that to clients."""

    offers: tuple[Offer, ...]
    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    cold: bool = False
    limits: Limits = field(default_factory=Limits)
    wait_s: float = 0.002
    version: str = ""


def serve(settings: Settings, announce: Callable[[str], None], warn: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then answer what was accepted, and return.

    `announce` gets the address once every model is ready; `warn` what is dangerous."""
    check_safety(settings, warn)
    settings = _with_descriptors(settings)
    with _bound(settings) as listening:
        scheme = "http" if settings.certificate is None else "https"
        url = f"{scheme}://{in_url(settings.host)}:{listening.getsockname()[1]}"
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_served(settings, listening, lambda: announce(url)))


async def _served(settings: Settings, listening: socket.socket, ready: Callable[[], None]) -> None:
    limits = settings.limits
    repository = Repository(settings.offers, BatchLimits(limits.rows, settings.wait_s,
                                                         limits.queued_samples))
    decoders, state = Decoders(min(2, os.cpu_count() or 1), limits), State()
    parts = Parts(repository, decoders, limits, Budget(limits.all_bodies_bytes), Metrics())
    server = _Server(_config(settings, make_app(parts, state, settings.token, settings.version)),
                     state)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        if not settings.cold:
            for name in dict.fromkeys(offer.name for offer in settings.offers):
                await repository.load(name)
            if any(m.recipe is not None for m in repository.loaded()):
                await decoders.start()
        state.ready = True
        if not server.should_exit:
            ready()
    finally:
        if not state.ready:
            server.should_exit = True
        await serving
        await repository.unload_all()
        decoders.close()


def _config(settings: Settings, app: Callable[..., object]) -> uvicorn.Config:
    limits = settings.limits
    guard = type("Guard", (Guard,), {"limits": limits})
    return uvicorn.Config(
        app, http=guard, ws="none", lifespan="off", interface="asgi3", log_config=None,
        log_level="error", access_log=False, server_header=False, proxy_headers=False,
        timeout_keep_alive=int(limits.keep_alive_s),
        timeout_graceful_shutdown=int(limits.drain_s),
        ssl_certfile=settings.certificate, ssl_keyfile=settings.key)


class _Server(uvicorn.Server):
    """Ends in order: SIGTERM is a wish, not an error, so the process may end with 0."""

    def __init__(self, config: uvicorn.Config, state: State) -> None:
        super().__init__(config)
        self._state = state

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {s: signal.signal(s, self.handle_exit) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """No new connection; who has one hears with the next answer that it is the last."""
        self._state.draining = True
        for server in self.servers:
            server.close()
        await asyncio.sleep(_LAST_REQUESTS_S)
        await super().shutdown(sockets)


def check_safety(settings: Settings, warn: Callable[[str], None]) -> None:
    """Refuses what strangers could use, warns of what they could read."""
    if (settings.certificate is None) != (settings.key is None):
        raise BadInput("TLS with half of what it needs", fix="both --certificate and --key")
    if settings.token is not None and (len(settings.token) < 16 or not settings.token.isascii()
                                       or not settings.token.isprintable()):
        raise BadInput("the token", why="fewer than 16 characters, or others than printable ASCII",
                       fix="python -c 'import secrets; print(secrets.token_urlsafe())'")
    if is_loopback(settings.host):
        return
    if settings.token is None:
        raise BadInput(f"--host {settings.host} without a token",
                       why="whoever reaches this machine could use the server",
                       fix="HANDTORCH_TOKEN=..., or --token-file FILE, or --host 127.0.0.1")
    if settings.certificate is None:
        warn(f"WARNING: {settings.host} is not this machine alone, and there is no TLS: pictures "
             "and the token can be read on the way. Use --certificate and --key.")


def _with_descriptors(settings: Settings) -> Settings:
    """As many connections as the system lets us have files open."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    want = settings.limits.connections + _OWN_FILES
    have = want if most == resource.RLIM_INFINITY else min(want, most)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < have:
        resource.setrlimit(resource.RLIMIT_NOFILE, (have, most))
    limits = replace(settings.limits, connections=max(1, max(have, soft) - _OWN_FILES)
                     if have < want else settings.limits.connections)
    return replace(settings, limits=limits)


def _bound(settings: Settings) -> socket.socket:
    try:
        if settings.certificate is not None and settings.key is not None:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.certificate,
                                                                    settings.key)
        return socket.create_server((settings.host, settings.port), family=family(settings.host),
                                    backlog=2048)
    except ssl.SSLError as e:
        raise BadInput(f"{settings.certificate} and {settings.key} do not make TLS",
                       why=e.reason or str(e)) from e
    except (OSError, OverflowError) as e:
        raise HandTorchError(f"the server cannot listen on {settings.host}:{settings.port}",
                             why=_reason(e),
                             fix="another --host or --port; 0 takes a free one") from e


def _reason(error: OSError | OverflowError) -> str:
    """In the system's words: Python adds the address, which was said already."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if number is not None and number > 0 else str(error)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed: it answers a request in two thirds of the time."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
