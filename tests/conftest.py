"""What tests share: the devices of this machine, its tools, the optional data, random numbers.

`HANDTORCH_REQUIRE=pocl,intel,oclgrind,clang,chromium` names what this run must not do without: a
test that needs one of these then fails where it would otherwise be skipped. Continuous integration
sets it.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from handtorch.runtime.opencl.discover import FoundDevice

ROOT = Path(__file__).resolve().parents[1]
TOOLS = {
    "oclgrind": ("oclgrind",),
    "clang": ("clang", *(f"clang-{version}" for version in range(22, 12, -1))),
    "chromium": ("chromedriver",),              # Debian's brings the browser along
}
MARK_OF_FIXTURE = {"opencl_device": "opencl", "oclgrind": "oclgrind", "clang": "clang"}


# The same examples on every run: a change is not blamed for what it did not touch. To look for new
# ones: make test ARGS="--hypothesis-profile=default". Nor by the clock: how long an example takes
# is decided by what else the machine does.
settings.register_profile("fixed", derandomize=True, deadline=None,
                          suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fixed")


@dataclass(frozen=True)
class Absent:
    """Stands in the list of devices for one that is not there."""

    name: str
    reason: str


def pytest_configure(config: pytest.Config) -> None:
    """Afterwards the caller's own settings do not reach the tests.

    The cache is a folder of the repository, kept from run to run: an empty one would make every
    run compile every kernel again.
    """
    for name in ("HANDTORCH_DEVICE", "HANDTORCH_DUMP", "HANDTORCH_RUNS"):
        os.environ.pop(name, None)
    # Hundreds of processes are started: none shall compile our own modules anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ["HANDTORCH_CACHE"] = str(ROOT / ".cache" / "handtorch-tests")
    # A copy of the process loads torch's tracer anew for each step: 0.7 s, for some thousand steps.
    os.environ["HANDTORCH_CAPTURE"] = "here"


@pytest.hookimpl(tryfirst=True)  # before `-m` is applied
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for fixture, mark in MARK_OF_FIXTURE.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(mark)
    again = [item for item in items if _is_repeated(item)]
    if again:
        config.hook.pytest_deselected(items=again)
    items[:] = [item for item in items if not _is_repeated(item)]
    _spread(items)
    if getattr(config.option, "loadgroup", False):      # a file is one, unless it says otherwise
        for item in items:
            if item.get_closest_marker("xdist_group") is None:
                item.add_marker(pytest.mark.xdist_group(str(item.path.relative_to(ROOT))))
    # Files that compile kernels first: the end of a run, where cores wait for one another, is then
    # made of short ones.
    heavy = Counter(item.path for item in items if item.get_closest_marker("opencl"))
    items.sort(key=lambda item: -heavy[item.path])


def _given(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _of_ref(item: pytest.Item) -> bool:
    """Whether it is the reference's turn in a test of both the reference and a device."""
    return "ref" in (_given(item).get("device"), _given(item).get("place"))


def _is_repeated(item: pytest.Item) -> bool:
    """Whether the reference's turn comes on another than the first device: it would be the same."""
    return _of_ref(item) and _given(item).get("opencl_device") in devices()[1:]


def _spread(items: list[pytest.Item]) -> None:
    """Tests marked `spread` go to the devices in turn, in each file; the other turns are slow."""
    seen = Counter[tuple[Path, str]]()
    for item in items:
        on = _given(item).get("opencl_device")
        if (on is None or item.get_closest_marker("spread") is None or _of_ref(item)
                or any(map(item.get_closest_marker, ("slow", "timed"))) or on not in devices()):
            continue
        turn = seen[item.path, on.label]
        seen[item.path, on.label] += 1
        if devices()[turn % len(devices())] != on:
            item.add_marker("slow")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A machine that is slower than expected ends in time, and says what it did not reach."""
    until_s = float(os.environ.get("HANDTORCH_SLOW_UNTIL") or "inf")
    if time.time() > until_s and item.get_closest_marker("slow"):
        pytest.skip("not reached: the time given to slow tests is over")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "opencl_device" not in metafunc.fixturenames:
        return
    places: list[FoundDevice | Absent] = [*devices()]
    ids = [device.short for device in devices()]
    for name in absent(required()):
        if name not in TOOLS:
            places.append(Absent(name, f"no device {name}; found: {', '.join(ids) or 'none'}"))
    if not places:
        places.append(Absent("none", "no OpenCL device on this machine"))
    ids += [place.name for place in places if isinstance(place, Absent)]
    metafunc.parametrize("opencl_device", places, indirect=True, ids=ids, scope="session")


@functools.cache
def devices() -> tuple[FoundDevice, ...]:
    """The devices a user could be given; simulators and emulators have tests of their own."""
    from handtorch.runtime.opencl.discover import find_devices

    return tuple(device for device in find_devices() if device.facts.by_default)


def required() -> list[str]:
    return [name for name in os.environ.get("HANDTORCH_REQUIRE", "").split(",") if name]


def tool(name: str) -> str | None:
    return next(filter(None, map(shutil.which, TOOLS[name])), None)


def absent(names: Iterable[str]) -> list[str]:
    """Those of the names that are neither a tool nor an OpenCL device of this machine."""
    names = list(names)
    there = {name for name in TOOLS if tool(name)}
    if not TOOLS.keys() >= set(names):  # only then is it worth waking every driver
        there |= {device.short for device in devices()}
    return [name for name in names if name not in there]


def _do_without(name: str, reason: str) -> NoReturn:
    if name in required():
        pytest.fail(f"{reason} (HANDTORCH_REQUIRE names it)", pytrace=False)
    pytest.skip(reason)


def _tool_or_skip(name: str) -> str:
    return tool(name) or _do_without(name, f"{name} is not installed")


@pytest.fixture(scope="session")
def opencl_device(request: pytest.FixtureRequest) -> FoundDevice:
    """Each OpenCL device of this machine in turn; the test is marked `opencl`."""
    place: FoundDevice | Absent = request.param
    if isinstance(place, Absent):
        _do_without(place.name, place.reason)
    return place


@pytest.fixture(scope="session")
def oclgrind() -> str:
    """The Oclgrind program; the test is marked `oclgrind`."""
    return _tool_or_skip("oclgrind")


@pytest.fixture(scope="session")
def clang() -> str:
    """A clang with an OpenCL front end; the test is marked `clang`."""
    return _tool_or_skip("clang")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program that drives a headless Chromium."""
    return _tool_or_skip("chromium")


@pytest.fixture(scope="session")
def missing() -> Callable[[Iterable[str]], list[str]]:
    return absent


@pytest.fixture(scope="session")
def needed() -> list[str]:
    """What HANDTORCH_REQUIRE names."""
    return required()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the optional real data sets: HANDTORCH_SHARED, or `shared` beside us."""
    folder = Path(os.environ.get("HANDTORCH_SHARED") or ROOT.parent / "shared")
    if not (folder / "data").is_dir():
        pytest.skip("the optional data sets are not here; HANDTORCH_SHARED names their folder")
    return folder


@pytest.fixture(scope="session")
def rng() -> Callable[[int], np.random.Generator]:
    """`rng(seed)`: the same numbers on every machine."""
    return np.random.default_rng


@pytest.fixture(scope="session", autouse=True)
def no_children_that_compile() -> None:
    """Where each core has a worker of its own, a process more for each large program is only work;
    tests/runtime/opencl/test_prebuild.py asks for them."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        from handtorch.runtime.opencl import prebuild

        prebuild.WORTH_IT = 1 << 30


@pytest.fixture(autouse=True)
def one_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small nets gain nothing from torch's second thread, and lose much on a busy machine.

    The slow and timed tests choose for themselves: torch as it comes is part of their yardstick."""
    torch = sys.modules.get("torch")
    if torch is None or any(map(request.node.get_closest_marker, ("slow", "timed"))):
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
