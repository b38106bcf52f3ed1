"""Files made to hurt: one good file, changed in many ways that a seed tells apart.

As a program (`python hostile.py FILE.ht FOLDER FIRST COUNT`) it tries them in a process with little
memory, and prints how each kind ended; the first that ends otherwise than it may is shown and fails
it."""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from handtorch.api.load import load
from handtorch.api.step import TrainStep
from handtorch.dtypes import dtype
from handtorch.errors import HandTorchError
from handtorch.store.ht_file import read_ht

# Most that reading a file of this size may take: its arrays, its text parsed, and some air.
MOST_BYTES = 8 << 20
Change = Callable[[np.random.Generator, bytes], bytes]

# What a random place of a description may become.
WEIRD: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 7, 64, 2**31, 2**31 - 1, 2**63, 10**30, 0.5, 1e308, -0.0,
    "", "x", "f32", "i32", "bool", "relu", "pointwise", "1;} __kernel void k(){} //", "a" * 5000,
    "\0", "../../x", [], [[]], [0], [1, 1], [0] * 100, [2**31 - 1, 2**31 - 1], {}, {"float": "nan"},
    {"float": "inf"}, {"a": {"a": {}}}]


def truncated(rng: np.random.Generator, data: bytes) -> bytes:
    return data[:rng.integers(0, len(data))]


def grown(rng: np.random.Generator, data: bytes) -> bytes:
    return data + rng.bytes(int(rng.integers(1, 100)))


def flipped(rng: np.random.Generator, data: bytes) -> bytes:
    """One to three bits, most of them in the header."""
    raw = bytearray(data)
    header = 8 + int.from_bytes(data[:8], "little")
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, header if rng.random() < 0.8 else len(raw)))
        raw[at] ^= 1 << int(rng.integers(0, 8))
    return bytes(raw)


def spliced(rng: np.random.Generator, data: bytes) -> bytes:
    """A piece of it somewhere else."""
    a, b, at = sorted(int(n) for n in rng.integers(0, len(data), 3))
    return data[:at] + data[a:b] + data[at:] if rng.random() < 0.5 else data[:a] + data[b:]


def noise(rng: np.random.Generator, data: bytes) -> bytes:
    """Random bytes behind a length that is far too large, or fits."""
    body = rng.bytes(int(rng.integers(0, 300)))
    return int(rng.choice([len(body), 2**63 - 1, 2**32, 0])).to_bytes(8, "little") + body


def sealed_anew(data: bytes, change: Callable[[Any, dict[str, str]], None],
                spell: Callable[[str], str] = str) -> bytes:
    """As a forger would: the description changed, and a seal that is right for it."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    notes = header["__metadata__"]
    notes.pop("handtorch.sha256")
    told = json.loads(notes["description"])
    change(told, notes)
    notes["description"] = spell(json.dumps(told))
    body = data[8 + length:]
    seal = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    seal.update(body)
    notes["handtorch.sha256"] = seal.hexdigest()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def misspelt(rng: np.random.Generator, data: bytes) -> bytes:
    """Bits of the description's own text flipped, and a seal that is right for it."""
    def spell(text: str) -> str:
        letters = list(text)
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(0, len(letters)))
            letters[at] = chr(ord(letters[at]) ^ 1 << int(rng.integers(0, 7)))
        return "".join(letters)
    return sealed_anew(data, lambda *_: None, spell)


def places(told: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    inner = told.items() if isinstance(told, dict) else (
        enumerate(told) if isinstance(told, list) else ())
    for key, one in inner:
        found += places(one, (*path, key))
    return found


def tampered(rng: np.random.Generator, data: bytes) -> bytes:
    """Up to three places of the description become something else, vanish, double or swap."""
    def change(told: Any, _: dict[str, str]) -> None:
        for _ in range(rng.integers(1, 4)):
            there = places(told)
            path = there[int(rng.integers(0, len(there)))]
            at = told
            for key in path[:-1]:
                at = at[key]
            match int(rng.integers(0, 4)):
                case 0 if isinstance(at, dict):
                    del at[path[-1]]
                case 1 if isinstance(at, list):
                    at.insert(path[-1], at[int(rng.integers(0, len(at)))])
                case 2 if isinstance(at, list):
                    other = int(rng.integers(0, len(at)))
                    at[path[-1]], at[other] = at[other], at[path[-1]]
                case _:
                    at[path[-1]] = WEIRD[int(rng.integers(0, len(WEIRD)))]
    return sealed_anew(data, change)


def newer(rng: np.random.Generator, data: bytes) -> bytes:
    versions = ["1", "2", "3", "99", "0", "-1", "1.5", "", "x", "9" * 400, "\u0661", "1 "]
    def change(_: Any, notes: dict[str, str]) -> None:
        others = [v for v in versions if v != notes["format_version"]]
        notes["format_version"] = others[int(rng.integers(0, len(others)))]
        if rng.random() < 0.2:
            notes["format"] = "another"
    return sealed_anew(data, change)


def huge(rng: np.random.Generator, data: bytes) -> bytes:
    """Claims of size that the file does not have: values, shapes of ops, counts."""
    def change(told: Any, _: dict[str, str]) -> None:
        graph = told["train" if rng.random() < 0.5 else "infer"]["graph"]
        value = graph["values"][int(rng.integers(0, len(graph["values"])))]
        sizes = rng.choice([2**15, 2**16, 2**31 - 1, 2**62], rng.integers(1, 5))
        value[2] = [int(n) for n in sizes]
        if rng.random() < 0.3:
            graph["nodes"] = graph["nodes"] * int(rng.choice([2, 1000]))
    return sealed_anew(data, change)


KINDS: tuple[Change, ...] = (truncated, grown, flipped, spliced, noise, misspelt, tampered,
                             tampered, tampered, newer, huge)


def case(seed: int, data: bytes) -> tuple[str, bytes]:
    change = KINDS[seed % len(KINDS)]
    return change.__name__, change(np.random.default_rng(seed), data)


def read(path: Path) -> str:
    """"loads", or the class of our own error, which names the file; anything else is raised."""
    try:
        read_ht(path)
    except HandTorchError as e:
        assert str(path) in str(e) and len(str(e)) < 1000, e
        return type(e).__name__
    return "loads"


def used(path: Path) -> str:
    """What passed all checks is compiled, makes one step and infers; errors of ours may end it."""
    try:
        step = load(path, "ref", check_finite=False)
        for run in (step, step.inference()) if isinstance(step, TrainStep) else (step,):
            run(*(np.zeros(p.value.shape, dtype(p.value.dtype).numpy)
                  for p in run._session.graph.inputs))
    except HandTorchError as e:
        return f"loads,{type(e).__name__}"
    return "loads"


def tried(base: Path, folder: Path, first: int, count: int) -> Counter[tuple[str, str]]:
    """Every case ends as it may, and none takes more memory than a file of its size needs."""
    data, ended = base.read_bytes(), Counter[tuple[str, str]]()
    path = folder / "case.ht"
    for seed in range(first, first + count):
        kind, changed = case(seed, data)
        path.write_bytes(changed)
        if traced := seed % 4 == 0:                  # it takes three times as long
            tracemalloc.start()
        try:
            said = read(path)
            most = tracemalloc.get_traced_memory()[1] if traced else 0
            tracemalloc.stop()
            if said == "loads":
                said = used(path)
        except BaseException:
            sys.stderr.write(f"seed {seed}, {kind}\n")
            raise
        assert most < MOST_BYTES + 30 * len(changed), f"seed {seed}, {kind}: {most} bytes"
        ended[kind, said] += 1
    return ended


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    for (of, how), times in sorted(tried(
            Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:])).items()):
        print(of, how, times)
