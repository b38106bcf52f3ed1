"""Compiled programs are run only if this user's key vouches for them, or at his word."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from handtorch.errors import BadFile, StorageError
from handtorch.graph.device_spec import GENERIC, DeviceSpec
from handtorch.store.ht_file import HtFile, read_ht, write_ht
from handtorch.store.programs import Built, ProgramsLeft, key_file, others_of, usable, vouched
from handtorch.store.sample import SAMPLE, model_file
from tests.store import hostile

OPTIONS = "-cl-std=CL1.2"
BINARIES = {"a" * 64: b"first program" * 20, "b" * 64: b"", "c" * 64: b"\0third"}


@pytest.fixture(autouse=True)
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HANDTORCH_KEY", raising=False)
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path / "cache"))
    return key_file()


@pytest.fixture
def spec() -> DeviceSpec:
    return GENERIC


def test_what_was_saved_here_is_used_here(spec: DeviceSpec, key: Path) -> None:
    given = vouched(spec, OPTIONS, BINARIES)
    assert key.stat().st_mode & 0o777 == 0o600 and len(key.read_bytes()) == 32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert usable(spec, OPTIONS, given, trust=False) == BINARIES
        for other in (replace(spec, driver="newer"), replace(spec, name="another")):
            assert usable(other, OPTIONS, given, trust=True) == {}
            assert others_of(other, OPTIONS, given) == given
        assert usable(spec, "-cl-fast-relaxed-math", given, trust=True) == {}
    assert others_of(spec, OPTIONS, given) == ()
    assert vouched(spec, OPTIONS, BINARIES) == given, "the key stays"


def test_what_a_stranger_saved_is_left_until_the_user_says_so(
        spec: DeviceSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path / "of a stranger"))
    given = vouched(spec, OPTIONS, BINARIES)
    for cache in ("without a key", "with another"):
        monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path / cache))
        if cache == "with another":
            vouched(spec, OPTIONS, {})
        with pytest.warns(ProgramsLeft) as caught:
            assert usable(spec, OPTIONS, given, trust=False) == {}
        assert str(caught[0].message) == (
            "3 compiled program(s) in the file are for this device and were not used: your key "
            "does not vouch for them, and a program can do anything; if you know who made the "
            "file, trust_programs=True or --trust-programs")
        assert usable(spec, OPTIONS, given, trust=True) == BINARIES


def test_machines_that_share_a_key_believe_each_other(
        spec: DeviceSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "fleet.key"
    shared.write_bytes(bytes(range(32)))
    shared.chmod(0o600)
    monkeypatch.setenv("HANDTORCH_KEY", str(shared))
    given = vouched(spec, OPTIONS, BINARIES)
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path / "another machine"))
    assert usable(spec, OPTIONS, given, trust=False) == BINARIES
    assert not (tmp_path / "another machine").exists()


@pytest.mark.parametrize(("mode", "size", "why"), [
    (0o640, 32, "others than its owner may use it (mode 640); chmod 600"),
    (0o602, 32, "others than its owner may use it (mode 602); chmod 600"),
    (0o600, 31, "it has 31 bytes, and 32 are the least")])
def test_a_key_that_is_none_is_not_used(spec: DeviceSpec, key: Path, mode: int, size: int,
                                        why: str) -> None:
    given = vouched(spec, OPTIONS, BINARIES)
    key.write_bytes(key.read_bytes()[:size])
    key.chmod(mode)
    with pytest.warns(ProgramsLeft) as caught:
        assert usable(spec, OPTIONS, given, trust=False) == {}
    assert str(caught[0].message) == f"the key {key} is not used: {why}"
    before = key.read_bytes()
    with pytest.warns(ProgramsLeft), pytest.raises(StorageError) as refused:
        vouched(spec, OPTIONS, BINARIES)                 # never another in its place
    assert refused.value.message() == (
        f"compiled programs cannot be saved: they need a key, and {key} cannot be made: File "
        "exists\n  try: a file of 32 random bytes that only you can read; HANDTORCH_KEY names it")
    assert key.read_bytes() == before


def test_nothing_of_a_vouched_program_can_be_exchanged(spec: DeviceSpec) -> None:
    one, two, three = given = vouched(spec, OPTIONS, BINARIES)
    forged = [replace(one, binary=two.binary), replace(one, mac=two.mac), replace(one, mac=""),
              replace(one, mac=one.mac.upper()), replace(one, mac="\u00e9" * 64),
              replace(one, made_for=two.made_for), replace(one, binary=one.binary + b"x")]
    for wrong in forged:
        with pytest.warns(ProgramsLeft, match="1 compiled program"):
            assert usable(spec, OPTIONS, [wrong, three], trust=False) == {
                three.source: three.binary}
    # The whole of an entry that says it is for another device cannot be moved to this one.
    elsewhere = vouched(replace(spec, driver="other"), OPTIONS, BINARIES)
    moved = [replace(b, made_for=a.made_for) for a, b in zip(given, elsewhere, strict=True)]
    with pytest.warns(ProgramsLeft, match="3 compiled program"):
        assert usable(spec, OPTIONS, moved, trust=False) == {}


def with_programs(path: Path, programs: tuple[Built, ...]) -> HtFile:
    held = replace(read_ht(model_file(SAMPLE)), programs=programs)
    write_ht(path, held)
    return held


def test_a_file_keeps_programs(spec: DeviceSpec, tmp_path: Path) -> None:
    given = vouched(spec, OPTIONS, BINARIES)
    held, plain = with_programs(tmp_path / "a.ht", given), model_file(SAMPLE)
    again = read_ht(tmp_path / "a.ht")
    assert again.programs == given
    assert again.states.keys() == held.states.keys()
    assert b'"format_version":"3"' in (tmp_path / "a.ht").read_bytes()
    assert b'"format_version":"1"' in plain.read_bytes()


@pytest.mark.parametrize(("change", "why"), [
    (lambda told: told.pop("programs"), "the description has no 'programs'"),
    (lambda told: told["programs"][0].update(mac=1),
     "a program's mac is 1, and must be a text of at most 1024 letters"),
    (lambda told: told["programs"][0].update(more=""),
     "a program has 'more', which this version does not know"),
    (lambda told: told["programs"][0].update(tensor="0.weight"),
     "its program '0.weight' is no tensor of bytes"),
    (lambda told: told["programs"][0].update(tensor="handtorch.compiled.1"),
     "it holds 'handtorch.compiled.0', which no graph knows"),
    (lambda told: told["programs"].append(told["programs"][0]),
     "two of its programs are one tensor"),
    (lambda told: told["programs"].pop(),
     "it holds 'handtorch.compiled.2', which no graph knows")])
def test_programs_that_are_not_in_order_are_refused(
        spec: DeviceSpec, tmp_path: Path, change: Callable[[dict[str, object]], object], why: str
        ) -> None:
    path = tmp_path / "a.ht"
    with_programs(path, vouched(spec, OPTIONS, BINARIES))
    path.write_bytes(hostile.sealed_anew(path.read_bytes(), lambda told, _: change(told)))
    with pytest.raises(BadFile) as caught:
        read_ht(path)
    assert caught.value.why == why


@pytest.mark.filterwarnings("ignore::handtorch.store.programs.ProgramsLeft")
@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_forger_gets_a_program_of_his_run(spec: DeviceSpec, tmp_path: Path, count: int) -> None:
    """Whatever is done to a file without the key: what would reach the driver is a program that
    was vouched for, for that very source, or the file is refused."""
    path, used = tmp_path / "case.ht", 0
    with_programs(path, vouched(spec, OPTIONS, BINARIES))
    data = path.read_bytes()
    for seed in range(count):
        path.write_bytes(forged(np.random.default_rng(seed), data) if seed % 2 else
                         hostile.case(seed, data)[1])
        if hostile.read(path) == "loads":
            found = usable(spec, OPTIONS, read_ht(path).programs, trust=False)
            assert found.items() <= BINARIES.items(), f"seed {seed}"
            used += bool(found)
    assert used, "some changes touch no program"


def forged(rng: np.random.Generator, data: bytes) -> bytes:
    """A change to the programs alone, with a right seal: their fields swapped or changed."""
    def change(told: dict[str, list[dict[str, object]]], _: object) -> None:
        one, two = (told["programs"][int(rng.integers(0, 3))] for _ in range(2))
        field = str(rng.choice(list(one)))
        if rng.random() < 0.6:
            one[field], two[field] = two[field], one[field]
        else:
            one[field] = hostile.WEIRD[int(rng.integers(0, len(hostile.WEIRD)))]
    return hostile.sealed_anew(data, change)
