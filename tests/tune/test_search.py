"""The search on real devices: verified, interrupted, resumed, limited, handed over."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handtorch.errors import KernelError
from handtorch.graph.device_spec import DeviceSpec
from handtorch.kernels.conv_tiles import ConvPass
from handtorch.kernels.gemm_tiles import Product, table_variant, tuning_for
from handtorch.kernels.variant import Variant, as_variant
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.tune import search
from handtorch.tune.search import MARGIN, Progress, Search, take_over
from handtorch.tune.store import Results, Trial
from handtorch.tune.trial import OutOfTime, Worker
from tests.tune.deadly_child import CRASH, WRONG, WRONG_EPILOGUE, WRONG_UPDATE
from tests.tune.test_trial import CONV, DEADLY, conv_tile, tile

pytestmark = pytest.mark.spread

PRODUCTS = (Product(16, 16, 16), Product(8, 16, 24))


class Watched(Worker):
    """Notes what it was asked to time."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.asked: list[tuple[Product, Variant]] = []

    def attempt(self, product: Product, variant: Variant, **how: Any) -> Trial:
        if how.get("timed", True):
            self.asked.append((product, variant))
        return super().attempt(product, variant, **how)


@pytest.fixture
def worker(opencl_device: FoundDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    if opencl_device.spec.kind != "cpu":
        pytest.skip("would hang a real GPU")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    with closing(Watched(opencl_device.label, DEADLY)) as made:
        yield made


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`only(variants)`: these are all the candidates there are; those that failed drop out."""
    def use(*variants: Variant) -> None:
        def few(product: Product, spec: DeviceSpec, *, full: bool) -> tuple[Variant, ...]:
            return tuple(v for v in variants if v.built not in spec.avoid)
        monkeypatch.setattr(search, "candidates", few)
        for family in (Product, ConvPass):
            monkeypatch.setattr(family, "table_variant", lambda problem, spec: variants[0])
    return use


def tuned(results: Results, worker: Worker, products: Sequence[Product] = PRODUCTS,
          **how: Any) -> bool:
    return Search(results, worker, products, **how).run()


def test_what_fails_is_never_chosen_and_the_rest_goes_on(
        opencl_device: FoundDevice, worker: Watched, only: Callable[..., None],
        tmp_path: Path) -> None:
    only(tile(CRASH), tile(WRONG), tile(4), tile(6))
    results = Results(tmp_path / "a.json", opencl_device.spec)
    assert tuned(results, worker)
    assert set(results.best) == set(PRODUCTS) and set(results.best.values()) <= {tile(4), tile(6)}
    assert {v: t.state for _, v, t in results.failures()} == {tile(CRASH): "crashed",
                                                              tile(WRONG): "wrong"}
    assert results.spec.avoid == (str(tile(CRASH)), str(tile(WRONG)))
    # What failed for one product is not tried for the next.
    assert (PRODUCTS[1], tile(CRASH)) not in results.trials
    assert Results.open(results.path, opencl_device.spec).best == results.best


def test_a_convolution_that_fails_is_never_chosen_nor_taken_over(
        opencl_device: FoundDevice, worker: Watched, only: Callable[..., None],
        tmp_path: Path) -> None:
    only(conv_tile(CRASH), conv_tile(WRONG), conv_tile(WRONG_EPILOGUE), conv_tile(4), conv_tile(6))
    results = Results(tmp_path / "a.json", opencl_device.spec)
    assert tuned(results, worker, (CONV,))
    assert results.best[CONV] in (conv_tile(4), conv_tile(6))
    failed = {v: t.state for _, v, t in results.failures()}
    assert failed.pop(conv_tile(CRASH)) == "crashed" and failed.pop(conv_tile(WRONG)) == "wrong"
    assert set(failed) <= {conv_tile(WRONG_EPILOGUE)}           # found out if it was the fastest
    kept = Results.open(results.path, opencl_device.spec)
    assert kept.best == results.best and conv_tile(CRASH).built in kept.spec.avoid
    theirs = Results(tmp_path / "b.json", opencl_device.spec)
    assert take_over(theirs, worker, {CONV: conv_tile(WRONG_EPILOGUE)}, ()) == [CONV]
    assert take_over(theirs, worker, {CONV: conv_tile(4)}, ()) == []
    assert theirs.best == {CONV: conv_tile(4)} and theirs.trials[CONV, conv_tile(4)].rounds == 1


@pytest.mark.parametrize("rows", [WRONG_EPILOGUE, WRONG_UPDATE])
def test_the_best_must_be_right_in_all_its_work(
        opencl_device: FoundDevice, worker: Watched, only: Callable[..., None],
        tmp_path: Path, rows: int) -> None:
    only(tile(rows))
    results = Results(tmp_path / "a.json", opencl_device.spec)
    assert tuned(results, worker, PRODUCTS[:1])
    assert results.best == {} and results.spec.avoid == (str(tile(rows)),)


def test_interrupted_and_resumed_nothing_is_done_twice(
        opencl_device: FoundDevice, worker: Watched, only: Callable[..., None],
        tmp_path: Path) -> None:
    only(tile(4), tile(6), tile(8))
    path = tmp_path / "a.json"

    def stop(at: Progress) -> None:
        if at.trial and at.done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned(Results(path, opencl_device.spec), worker, progress=stop)
    first, results = len(worker.asked), Results.open(path, opencl_device.spec)
    assert len(results.trials) == 4 and set(results.best) == {PRODUCTS[0]}
    assert tuned(results, worker)
    assert set(results.best) == set(PRODUCTS)
    again = worker.asked[first:]
    assert {p for p, _ in again} == {PRODUCTS[1]}               # the first product was done
    assert all(t.rounds == 3 for t in results.trials.values())  # three of three are finalists
    assert len(worker.asked) == sum(t.rounds for t in results.trials.values())
    third = len(worker.asked)
    assert tuned(Results.open(path, opencl_device.spec), worker)
    assert len(worker.asked) == third                           # all is known: nothing is tried


def test_progress_counts_to_the_end(opencl_device: FoundDevice, worker: Watched,
                                    only: Callable[..., None], tmp_path: Path) -> None:
    only(tile(4), tile(6))
    seen: list[Progress] = []
    assert tuned(Results(tmp_path / "a.json", opencl_device.spec), worker, progress=seen.append)
    assert (seen[0].done, seen[0].of, seen[0].trial) == (0, 4, None)
    assert (seen[-1].done, seen[-1].of, seen[-1].problem) == (4, 4, PRODUCTS[1])
    assert [p.done for p in seen] == sorted(p.done for p in seen)


def test_the_time_limit_ends_it_and_keeps_what_there_is(
        opencl_device: FoundDevice, worker: Watched, only: Callable[..., None],
        tmp_path: Path) -> None:
    only(tile(4))
    results = Results(tmp_path / "a.json", opencl_device.spec)
    assert not tuned(results, worker, until_s=time.monotonic() - 1)
    assert not results.trials and results.path.exists()


class Scripted(Worker):
    """Answers from a table of times, no device: for the arithmetic of the choice."""

    def __init__(self, **times: int) -> None:
        super().__init__("nowhere", ("false",))
        self.times, self.stops = times, dict[str, int | None]()

    def attempt(self, product: Product, variant: Variant, *, stop_ns: int | None = None,
                work: str = "plain", timed: bool = True, until_s: float | None = None
                ) -> Trial:
        rows = f"R{dict(variant.defines)['R']}"
        self.stops.setdefault(rows, stop_ns)
        if self.times[rows] < 0:
            raise OutOfTime
        return Trial("right", "", (self.times[rows],) if timed else ())


@pytest.mark.parametrize(("times", "best"), [
    ({"R4": 100, "R6": 50, "R8": 70}, 6), ({"R4": 100, "R6": 99, "R8": 98}, 4),
    ({"R4": 100, "R6": 100, "R8": 96}, 8)])
def test_the_fastest_wins_but_the_table_keeps_what_is_hardly_beaten(
        only: Callable[..., None], opencl_device: FoundDevice, tmp_path: Path,
        times: dict[str, int], best: int) -> None:
    assert MARGIN == 0.03
    only(tile(4), tile(6), tile(8))
    results, worker = Results(tmp_path / "a.json", opencl_device.spec), Scripted(**times)
    assert tuned(results, worker, PRODUCTS[:1])
    assert results.best == {PRODUCTS[0]: tile(best)}
    assert worker.stops["R4"] is None and worker.stops["R6"] == 300     # far slower than R4


def test_a_full_search_that_is_ended_has_chosen_the_best_so_far(
        opencl_device: FoundDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    near, rest = (tile(4), tile(6)), (tile(8), tile(10), tile(12))

    def staged(product: Product, spec: DeviceSpec, *, full: bool) -> tuple[Variant, ...]:
        return (*near, *rest) if full else near
    monkeypatch.setattr(search, "candidates", staged)
    monkeypatch.setattr(Product, "table_variant", lambda product, spec: near[0])
    results = Results(tmp_path / "a.json", opencl_device.spec)
    times = {"R4": 100, "R6": 90, "R8": 95, "R10": -1, "R12": 10}
    assert not tuned(results, Scripted(**times), PRODUCTS[:1], full=True)
    assert results.best == {PRODUCTS[0]: tile(6)}               # after stage 1
    times |= {"R10": 50, "R12": -1}
    assert not tuned(results, Scripted(**times), PRODUCTS[:1], full=True)
    assert results.best == {PRODUCTS[0]: tile(10)}              # at once
    times |= {"R12": 10}
    assert tuned(results, Scripted(**times), PRODUCTS[:1], full=True)
    assert results.best == {PRODUCTS[0]: tile(12)}


def test_a_limit_in_the_middle_is_no_failure(only: Callable[..., None], tmp_path: Path,
                                             opencl_device: FoundDevice) -> None:
    only(tile(4), tile(6))
    results = Results(tmp_path / "a.json", opencl_device.spec)
    assert not tuned(results, Scripted(R4=5, R6=-1), PRODUCTS[:1])
    assert list(results.trials) == [(PRODUCTS[0], tile(4))] and not results.spec.avoid
    assert json.loads(results.path.read_text())["running"] is None


def test_what_is_handed_over_is_tried_first(opencl_device: FoundDevice, worker: Watched,
                                            tmp_path: Path) -> None:
    results = Results(tmp_path / "a.json", opencl_device.spec)
    offer = {PRODUCTS[0]: tile(4), PRODUCTS[1]: tile(WRONG)}
    failed_there = as_variant("register KU2 NV1 R4 V4 WGX1 WGY1")
    assert take_over(results, worker, offer, (str(failed_there),)) == [PRODUCTS[1]]
    assert results.best == {PRODUCTS[0]: tile(4)}
    assert set(results.spec.avoid) == {str(failed_there), str(tile(WRONG))}
    assert Results.open(results.path, opencl_device.spec).best == results.best


def test_what_is_handed_over_must_be_right_in_all_its_work(
        opencl_device: FoundDevice, worker: Watched, tmp_path: Path) -> None:
    results = Results(tmp_path / "a.json", opencl_device.spec)
    assert take_over(results, worker, {PRODUCTS[0]: tile(WRONG_EPILOGUE)}, ()) == [PRODUCTS[0]]
    assert results.best == {}


def test_what_is_slower_than_our_own_is_not_taken(opencl_device: FoundDevice, tmp_path: Path
                                                  ) -> None:
    results = Results(tmp_path / "a.json", opencl_device.spec)
    worker = Scripted(R4=50, R6=70, R8=30)
    assert take_over(results, worker, {PRODUCTS[0]: tile(4)}, ()) == []
    assert take_over(results, worker, {PRODUCTS[0]: tile(6)}, ()) == []
    assert results.best == {PRODUCTS[0]: tile(4)}
    assert take_over(results, worker, {PRODUCTS[0]: tile(8)}, ()) == []
    assert results.best == {PRODUCTS[0]: tile(8)}


def test_failures_that_would_leave_no_tile_are_not_taken(opencl_device: FoundDevice,
                                                         tmp_path: Path) -> None:
    spec = opencl_device.spec
    tiles = [Variant("register", t.defines).built for t in tuning_for(spec).tiles]
    results = Results(tmp_path / "a.json", spec)
    with pytest.raises(KernelError) as caught:
        take_over(results, Scripted(), {}, tiles)
    assert str(caught.value) == (
        f"no tile of gemm_register for every shape is right on {spec.name}: {len(tiles)} variants "
        f"failed with driver {spec.driver}\n  try: another driver or device; `handtorch tune "
        "--fresh` if these failures had another cause")
    assert not results.path.exists()


def test_without_changes_the_tables_choice_is_among_the_candidates(
        opencl_device: FoundDevice) -> None:
    spec = replace(opencl_device.spec, avoid=())
    assert search.candidates(PRODUCTS[0], spec)[0] == table_variant(PRODUCTS[0], spec)
