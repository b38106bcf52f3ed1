"""An engine made of replicas: processes of Ray Serve, on this machine or on those of its cluster.

The server in front is the same with or without them: it takes requests, checks and limits them,
decodes pictures and joins batches. Ray starts the replicas, hands each batch to one that is free,
starts another for one that died, and more or fewer of them as the load asks for. A batch whose
replica dies is computed again by another one: a model has no memory of what it computed, so nobody
can tell. `RAY_ADDRESS` names a cluster; without it Ray is started here, for this machine alone."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from handtorch import knobs
from handtorch.cloud.engines import Arrays, Engine, open_engine
from handtorch.cloud.models import Offer, Replicas
from handtorch.errors import BadInput, HandTorchError

_EACH = 2               # batches at a replica: one that it computes, and the one after
_TRIES, _PAUSE_S = 5, 0.2
_READY_S = 180.0        # for the first replica to load its model
_ANSWER_S = 60.0        # for a batch, the wait for a replica included
_MORE_AFTER_S, _FEWER_AFTER_S = 1.0, 30.0


def at_once(replicas: Replicas) -> int:
    """Batches that may be under way."""
    return _EACH * replicas.most


class Replica:
    """What runs in each of the processes; one thread of it owns the engine."""

    def __init__(self, offer: Offer, rows: int) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._engine = self._thread.submit(
            open_engine, offer.source, offer.engine, offer.device, rows).result()

    async def about(self) -> Any:
        engine = self._engine
        return engine.kind, engine.place, engine.inputs, engine.outputs

    async def run(self, arrays: Arrays) -> Arrays | tuple[str, str]:
        """The outputs; or what the engine refuses and why, which would not survive the journey
        as an exception."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._ran, arrays)

    def _ran(self, arrays: Arrays) -> Arrays | tuple[str, str]:
        try:
            return self._engine.run(arrays)
        except HandTorchError as e:
            return e.what, e.why


def open_replicas(offer: Offer, replicas: Replicas, rows: int) -> Engine:
    """Ready when one replica is; the others follow."""
    ray, serve = _libraries()
    _connect(ray, serve, replicas)
    name = f"{offer.name}-{offer.version}"
    options: dict[str, Any] = {"num_replicas": replicas.least}
    if replicas.most > replicas.least:
        options = {"autoscaling_config": {
            "min_replicas": replicas.least, "max_replicas": replicas.most,
            "target_ongoing_requests": 1.0, "upscale_delay_s": _MORE_AFTER_S,
            "downscale_delay_s": _FEWER_AFTER_S, "metrics_interval_s": _MORE_AFTER_S}}
    made = serve.deployment(Replica, name=name, max_ongoing_requests=_EACH,
                            health_check_period_s=1.0, health_check_timeout_s=10.0,
                            ray_actor_options={"num_cpus": 1}, **options)
    handle = serve.run(made.bind(offer, rows), name=name, route_prefix=None)
    calls = _Calls(ray, handle)
    kind, place, inputs, outputs = calls(handle.about, _READY_S)

    def run(arrays: Arrays) -> Arrays:
        found = calls(handle.run, _ANSWER_S, arrays)
        if found and isinstance(found[0], str):
            raise HandTorchError(found[0], why=found[1])
        return tuple(found)
    span = str(replicas.least) if replicas.least == replicas.most else (
        f"{replicas.least} to {replicas.most}")
    return Engine(kind, f"{place}, {span} replicas", inputs, outputs, run,
                  lambda: _close(ray, serve, name), at_once(replicas))


class _Calls:
    """Calls a replica; another one if that dies meanwhile."""

    def __init__(self, ray: Any, handle: Any) -> None:
        self._gone = (ray.exceptions.RayActorError, ray.exceptions.ActorUnavailableError)
        self._late = (TimeoutError, ray.exceptions.GetTimeoutError)
        self._name = handle.deployment_name

    def __call__(self, method: Any, within_s: float, *given: Any) -> Any:
        until_s = time.monotonic() + within_s
        for tried in range(1, _TRIES + 1):
            try:
                return method.remote(*given).result(timeout_s=max(0.1, until_s - time.monotonic()))
            except self._gone as e:
                if tried == _TRIES:
                    raise HandTorchError(f"{self._name} was not computed", why=f"{_TRIES} replicas "
                                         "ended while they did it") from e
                time.sleep(_PAUSE_S)
            except self._late as e:
                raise HandTorchError(f"{self._name} was not computed",
                                     why=f"no replica did it within {within_s:g} s") from e
        raise AssertionError("every try returns or raises")


def _libraries() -> tuple[Any, Any]:
    knobs.set_for_loader("RAY_USAGE_STATS_ENABLED", "0")        # it would tell its makers
    try:
        import ray
        import ray.exceptions
        from ray import serve
    except ImportError as e:
        raise BadInput("--engine ray", why=f"a library is missing ({e})",
                       fix="pip install handtorch[ray]") from e
    return ray, serve


def _connect(ray: Any, serve: Any, replicas: Replicas) -> None:
    """Once in a process. Requests come through our own server: Ray's stays off."""
    if not ray.is_initialized():
        own = {} if knobs.loader_setting("RAY_ADDRESS") else {
            "num_cpus": max(replicas.most, os.cpu_count() or 1), "include_dashboard": False,
            "_node_ip_address": "127.0.0.1"}
        ray.init(log_to_driver=False, logging_level=logging.ERROR, namespace="handtorch", **own)
    serve.start(proxy_location="Disabled", logging_config={"log_level": "ERROR"})


def _close(ray: Any, serve: Any, name: str) -> None:
    serve.delete(name)
    if not serve.status().applications:
        serve.shutdown()
        ray.shutdown()
