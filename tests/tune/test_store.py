"""The file of results: whole, ours and of this device, or refused; resumed where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handtorch.errors import BadInput, StorageError
from handtorch.graph.device_spec import GENERIC
from handtorch.kernels.gemm_tiles import Product
from handtorch.kernels.results import kernels_key
from handtorch.kernels.variant import as_variant
from handtorch.tune.store import Results, Trial, offered

SPEC = replace(GENERIC, name="Acme One", driver="7.1")
SQUARE, TURNED = Product(64, 64, 64), Product(8, 16, 32, tb=True)
FAST, SLOW = as_variant("register KU4 NV1 R4 V4 WGX8 WGY8"), as_variant(
    "packed KU4 NV1 R4 V4 WGX8 WGY8")
DOT = as_variant("dot R1 V4 WGX1 WGY1")


def some(path: Path) -> Results:
    results = Results(path, SPEC)
    results.add(SQUARE, FAST, Trial("right", "", (5, 4, 6)))
    results.add(SQUARE, SLOW, Trial("crashed", "its process ended with SIGSEGV"))
    results.add(TURNED, DOT, Trial("right", "", (9,)))
    results.choose(SQUARE, FAST)
    results.save()
    return results


def test_written_and_read_again(tmp_path: Path) -> None:
    before = some(tmp_path / "tuned" / "a.json")
    after = Results.open(before.path, SPEC)
    assert (after.trials, after.best, after.spec) == (before.trials, before.best, before.spec)
    assert after.to_bytes() == before.to_bytes() == before.path.read_bytes()
    assert after.spec.tuned == (("64x64x64 nn", str(FAST)),)
    assert after.spec.avoid == (str(SLOW),)
    assert list(before.path.parent.iterdir()) == [before.path]      # nothing half-written beside


def test_no_file_is_no_results(tmp_path: Path) -> None:
    results = Results.open(tmp_path / "none.json", SPEC)
    assert not results.trials and results.spec == SPEC


def test_a_failure_takes_the_variant_from_every_product(tmp_path: Path) -> None:
    results = some(tmp_path / "a.json")
    results.add(TURNED, FAST, Trial("wrong", "off by 3 times the tolerance"))
    assert results.best == {} and results.right(SQUARE) == {}
    assert results.spec.avoid == (str(SLOW), str(FAST))
    assert [(p, v) for p, v, _ in results.failures()] == [(SQUARE, SLOW), (TURNED, FAST)]


@pytest.mark.parametrize("state", ["no room", "too slow"])
def test_a_product_too_large_is_no_fault_of_the_variant(tmp_path: Path, state: str) -> None:
    results = some(tmp_path / "a.json")
    results.add(TURNED, FAST, Trial(state, "a buffer of 1 B"))
    assert results.best == {SQUARE: FAST} and FAST in results.right(SQUARE)


def test_rounds_add_up_and_a_time_is_the_lower_quartile() -> None:
    trial = Trial("right", "", (9, 8, 3)).and_then(Trial("right", "", (7, 4)))
    assert trial == Trial("right", "", (9, 8, 3, 7, 4), rounds=2)
    assert trial.time_ns == 4
    assert Trial("right", "", (5,)).time_ns == 5
    failed = Trial("wrong", "off")
    assert trial.and_then(failed) == failed


def test_what_ends_the_search_twice_is_not_tried_again(tmp_path: Path) -> None:
    """As a phone does that starts anew when its GPU hangs."""
    path = tmp_path / "a.json"
    for _ in range(2):
        assert Results.open(path, SPEC).begin(SQUARE, FAST)         # and then the machine dies
    results = Results.open(path, SPEC)
    assert not results.begin(SQUARE, FAST)
    assert results.trials[SQUARE, FAST] == Trial("crashed", "the search ended twice while it ran")
    assert results.spec.avoid == (str(FAST),)


def test_what_was_stopped_on_purpose_is_not_blamed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for _ in range(4):
        results = Results.open(path, SPEC)
        assert results.begin(SQUARE, FAST)
        results.finish()
    assert not Results.open(path, SPEC).trials


def refusal(path: Path, read: Callable[..., Any] = Results.open) -> str:
    with pytest.raises(BadInput) as caught:
        read(path, SPEC)
    return str(caught.value)


def changed(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


AGAIN = "\n  try: export it again, or `handtorch tune --fresh` here"


@pytest.mark.parametrize(("values", "said"), [
    ({"format": "other"}, "these are no tuned results of handtorch\n"
                          "  try: a file that `handtorch tune --export FILE` wrote"),
    ({"version": 2}, "its version is 2, this handtorch knows up to 1\n  try: update handtorch"),
    ({"version": True}, "its version is True" + AGAIN),
    ({"version": 0}, "its version is 0" + AGAIN),
    ({"kernels": "abc"}, f"made for kernels 'abc', these are '{kernels_key()}'\n"
                         "  try: the same version of handtorch, or `handtorch tune` here"),
    ({"device": {"name": "Acme Two", "driver": "7.1"}},
     "it is of 'Acme Two', driver '7.1'; this is 'Acme One', driver '7.1'\n"
     "  try: --device, if you have that one; else `handtorch tune` here"),
    ({"device": 3}, "it is of None, driver None; this is 'Acme One', driver '7.1'\n"
                    "  try: --device, if you have that one; else `handtorch tune` here"),
    ({"best": []}, "it lacks best or avoid" + AGAIN),
    ({"avoid": {}}, "it lacks best or avoid" + AGAIN),
    ({"best": {"64x64": str(FAST)}},
     "shape '64x64': it is no product, no batch of products and no convolution" + AGAIN),
    ({"best": {"64x64x64 nn": "register R99"}},
     "variant 'register R99': no kernel can be built with that" + AGAIN),
    ({"best": {"64x64x64 nn": 5}}, "variant '5': no kernel can be built with that" + AGAIN),
    ({"best": {"64x3x64 nn": str(FAST)}}, f"{FAST} cannot compute 64x3x64 nn here" + AGAIN),
    ({"avoid": ["dot"]}, "variant 'dot': no kernel can be built with that" + AGAIN),
])
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, values: dict[str, Any],
                                               said: str) -> None:
    path = some(tmp_path / "a.json").path
    changed(path, **values)
    assert refusal(path) == f"tuned results {path}: {said}"
    assert refusal(path, offered) == f"{path}: {said}"


TRIAL = {"problem": "64x64x64 nn", "variant": str(FAST), "state": "right", "why": "",
         "times_ns": [3], "rounds": 1}


@pytest.mark.parametrize("values", [
    {"trials": None}, {"trials": [3]}, {"trials": [{**TRIAL, "state": "great"}]},
    {"trials": [{**TRIAL, "times_ns": []}]}, {"trials": [{**TRIAL, "times_ns": [-1]}]},
    {"trials": [{**TRIAL, "times_ns": [True]}]}, {"trials": [{**TRIAL, "times_ns": [1.5]}]},
    {"trials": [{**TRIAL, "rounds": 0}]}, {"trials": [{**TRIAL, "variant": "x"}]},
    {"running": 3}, {"running": ["a", "b", 1]},
])
def test_trials_that_we_did_not_write_are_refused(tmp_path: Path, values: dict[str, Any]) -> None:
    path = some(tmp_path / "a.json").path
    changed(path, trials=[TRIAL])
    Results.open(path, SPEC)
    changed(path, **values)
    assert refusal(path) == (f"tuned results {path}: its trials are not as this program writes "
                             f"them{AGAIN}")


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[" * 100_000, b"\x80\x04N."])
def test_what_is_no_json_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    assert refusal(path) == f"tuned results {path}: it is cut short or no JSON at all{AGAIN}"


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_file_cut_off_anywhere_is_refused(tmp_path_factory: pytest.TempPathFactory,
                                            data: st.DataObject) -> None:
    path = some(tmp_path_factory.mktemp("cut") / "a.json").path
    whole = path.read_bytes()
    end = data.draw(st.integers(0, len(whole.rstrip()) - 1))
    path.write_bytes(whole[:end])
    assert refusal(path) == f"tuned results {path}: it is cut short or no JSON at all{AGAIN}"


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    results = Results(tmp_path / "file" / "tuned" / "a.json", SPEC)
    with pytest.raises(StorageError) as caught:
        results.save()
    assert str(caught.value) == (
        f"tuned results cannot be kept in {results.path}: Not a directory\n"
        "  try: set HANDTORCH_CACHE to a folder that can be written")


def test_an_offer_is_what_was_chosen_and_what_failed(tmp_path: Path) -> None:
    path = some(tmp_path / "a.json").path
    assert offered(path, SPEC) == ({SQUARE: FAST}, (str(SLOW),))
    with pytest.raises(StorageError) as caught:
        offered(tmp_path / "none", SPEC)
    assert str(caught.value) == f"{tmp_path}/none cannot be read: No such file or directory"
