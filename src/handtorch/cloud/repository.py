"""The models of a server: which are offered, which are loaded, and how they come and go.

Names come from whoever started the server. What a client says is looked up among them and is never
part of a path: there is no way from a request to the file system."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from handtorch.cloud.batching import Batcher, BatchLimits
from handtorch.cloud.engines import Engine, open_engine
from handtorch.cloud.models import Loaded, Offer
from handtorch.cloud.recipes import TORCHVISION, Recipe, fitted
from handtorch.cloud.refused import Refused
from handtorch.cloud.replicas import at_once, open_replicas
from handtorch.errors import BadInput, HandTorchError

READY, LOADING, UNLOADING, UNAVAILABLE = "READY", "LOADING", "UNLOADING", "UNAVAILABLE"


@dataclass
class _Shelf:
    """One version: what it is offered as, and what it is now."""

    offer: Offer
    state: str = UNAVAILABLE
    reason: str = ""
    loaded: Loaded | None = None


class Repository:
    """Used on the event loop only."""

    def __init__(self, offers: Sequence[Offer], limits: BatchLimits) -> None:
        self._limits = limits
        self._shelves: dict[str, dict[str, _Shelf]] = {}
        for offer in offers:
            self._shelves.setdefault(offer.name, {})[offer.version] = _Shelf(offer)

    def versions(self, name: str) -> tuple[str, ...]:
        return tuple(v for v, shelf in self._named(name).items() if shelf.state == READY)

    def get(self, name: str, version: str = "") -> Loaded:
        """The version asked for, or the highest that is ready; whatever else is refused."""
        shelves = self._named(name)
        if version and version not in shelves:
            raise Refused(404, f"no version {version[:40]!r} of {name}",
                          why=f"there is {', '.join(shelves)}")
        of = [shelves[version]] if version else reversed(shelves.values())
        for shelf in of:
            if shelf.loaded is not None and shelf.state == READY:
                return shelf.loaded
        raise Refused(503, f"{name} is not loaded", fix=f"POST /v2/repository/models/{name}/load",
                      headers={"Retry-After": "1"})

    def loaded(self) -> Iterable[Loaded]:
        return [s.loaded for s in self._all() if s.loaded is not None]

    def index(self) -> list[dict[str, Any]]:
        return [{"name": s.offer.name, "version": s.offer.version, "state": s.state,
                 "reason": s.reason} for s in self._all()]

    async def load(self, name: str) -> None:
        """All versions of a model are ready; those that were stay as they are."""
        for shelf in self._named(name).values():
            if shelf.state in (LOADING, UNLOADING):
                raise _busy(shelf)
        for shelf in self._named(name).values():
            if shelf.state != READY:
                await self._load(shelf)

    async def _load(self, shelf: _Shelf) -> None:
        offer, loop = shelf.offer, asyncio.get_running_loop()
        # The threads themselves come as they are needed: one, but for replicas.
        most = 1 if offer.replicas is None else at_once(offer.replicas)
        threads = ThreadPoolExecutor(most, f"{offer.name} {offer.version}")
        shelf.state, shelf.reason = LOADING, ""
        try:
            engine = await loop.run_in_executor(threads, _opened, offer, self._limits.rows)
            recipe = recipe_for(offer, engine)
        except HandTorchError as e:
            threads.shutdown(wait=False)
            shelf.state, shelf.reason = UNAVAILABLE, e.what
            raise
        shelf.loaded = Loaded(offer, engine, recipe, Batcher(
            engine.run, self._limits, threads, engine.at_once), threads)
        shelf.state = READY

    async def unload(self, name: str) -> None:
        """No version takes requests any more; those that were accepted are answered first."""
        for shelf in self._named(name).values():
            if shelf.state == LOADING:
                raise _busy(shelf)
            if shelf.state == READY and shelf.loaded is not None:
                shelf.state = UNLOADING
                while shelf.loaded.users:
                    await asyncio.sleep(0.01)
                threads, engine = shelf.loaded.threads, shelf.loaded.engine
                shelf.loaded = None
                await asyncio.get_running_loop().run_in_executor(threads, engine.close)
                threads.shutdown(wait=False)
                shelf.state, shelf.reason = UNAVAILABLE, "unloaded"

    async def unload_all(self) -> None:
        for name in self._shelves:
            await self.unload(name)

    def _named(self, name: str) -> dict[str, _Shelf]:
        if name not in self._shelves:
            raise Refused(404, f"no model {name[:80]!r}")
        return self._shelves[name]

    def _all(self) -> list[_Shelf]:
        return [shelf for shelves in self._shelves.values() for shelf in shelves.values()]


def _opened(offer: Offer, rows: int) -> Engine:
    if offer.replicas is None:
        return open_engine(offer.source, offer.engine, offer.device, rows)
    return open_replicas(offer, offer.replicas, rows)


def _busy(shelf: _Shelf) -> Refused:
    return Refused(409, f"{shelf.offer.name} is {shelf.state.lower()} right now",
                   headers={"Retry-After": "1"})


def recipe_for(offer: Offer, engine: Engine) -> Recipe | None:
    """How a picture becomes this model's input; None where it takes no picture."""
    (port, *more), (out, *others) = engine.inputs, engine.outputs
    if more or others or len(port.shape) != 3 or port.shape[0] != 3 or port.dtype != "float32":
        if offer.recipe is not None:
            raise BadInput(f"a recipe for {offer.name}", why="its input is no picture")
        return None
    if offer.labels and out.shape != (len(offer.labels),):
        raise BadInput(f"{len(offer.labels)} labels for {offer.name}",
                       why=f"its output is {list(out.shape)}",
                       fix="the labels that belong to these weights")
    return fitted(offer.recipe or TORCHVISION, *port.shape[1:])
