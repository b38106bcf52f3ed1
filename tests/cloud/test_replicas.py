"""Replicas under Ray Serve: the same answers, and none lost when one of them is killed.

Ray is no part of the development environment (a gigabyte of processes): without it these skip."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from handtorch.cloud.asking import Asking
from handtorch.cloud.engines import CPU, ZooModel, open_engine
from handtorch.cloud.local_server import LocalServer
from handtorch.cloud.offers import Given, offer_of
from handtorch.cloud.replica_pids import replica_pids
from handtorch.errors import BadInput

MODEL = "SqueezeNet1_1"


def test_replicas_are_counted_and_belong_to_ray() -> None:
    def replicas(engine: str, text: str) -> Any:
        return offer_of("a", "1", MODEL, Given(engine, replicas=text)).replicas
    found = replicas("ray", "1-4")
    assert (found.least, found.most) == (1, 4)
    assert (replicas("ray:opencl", "").least, replicas("ray", "3").most) == (1, 3)
    assert offer_of("a", "1", MODEL, Given("ray:opencl")).engine == "opencl"
    assert offer_of("a", "1", MODEL, Given("ray")).engine == "cpu"
    assert replicas("cpu", "") is None
    for engine, text in (("cpu", "2"), ("ray", "0"), ("ray", "4-2"), ("ray", "65"), ("ray", "x")):
        with pytest.raises(BadInput, match="--replicas"):
            replicas(engine, text)


@pytest.fixture(scope="module")
def served() -> Iterator[LocalServer]:
    pytest.importorskip("ray", reason="ray is not here: pip install handtorch[ray]")
    with LocalServer(["--model", MODEL, "--engine", "ray", "--replicas", "2", "--rows", "1"]
                     ) as server:
        yield server


def test_the_answer_is_that_of_the_engine_alone(served: LocalServer) -> None:
    engine = open_engine(ZooModel(MODEL), CPU)
    x = np.random.default_rng(1).standard_normal((1, *engine.inputs[0].shape)).astype("f4")
    np.testing.assert_array_equal(Asking(served.url, MODEL).scores(x), engine.run((x,))[0])


def test_a_replica_killed_under_load_loses_no_accepted_request(served: LocalServer) -> None:
    """Every request that was sent is answered with 200 and its own numbers."""
    x = np.random.default_rng(2).standard_normal((1, 3, 32, 32)).astype("f4")
    wanted = Asking(served.url, MODEL).scores(x)
    stop, killed = threading.Event(), []

    def client(_: int) -> int:
        asking, count = Asking(served.url, MODEL), 0
        while not stop.is_set():
            np.testing.assert_array_equal(asking.scores(x), wanted)
            count += 1
        return count

    with ThreadPoolExecutor(8) as threads:
        counts = [threads.submit(client, i) for i in range(8)]
        for _ in range(2):
            time.sleep(3)
            if pids := replica_pids(served.pid):
                os.kill(pids[0], signal.SIGKILL)
                killed.append(pids[0])
        time.sleep(5)
        stop.set()
        answered = [c.result() for c in counts]
    assert len(killed) == 2 and killed[0] != killed[1]
    assert all(answered), answered
    assert set(killed).isdisjoint(replica_pids(served.pid)) and replica_pids(served.pid)
