"""The self-test of a driver: every kernel of the catalog on small random data against NumPy.

Mobile drivers miscompile; a device is trusted only after this. The verdict is kept per device,
driver and kernel source, so it is given again whenever one of them changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from handtorch import knobs
from handtorch.errors import HandTorchError, KernelError
from handtorch.kernels.case import Array, Case
from handtorch.kernels.catalog import all_cases
from handtorch.kernels.render import render
from handtorch.runtime.opencl.bare import BareSteps
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.store.atomic import write_atomically

STATES = ("passed", "failed", "not run")


@dataclass(frozen=True)
class SelfTest:
    """`detail` names what went wrong, a line each; empty where nothing did."""

    state: str
    detail: tuple[str, ...] = ()
    cases: int = 0


def run_case(on: OpenCLContext, case: Case, program: Any = None) -> dict[int, Array]:
    """The case's launches on buffers of their own; gives what was expected, by value id."""
    values = {o.value.id: o.value for s in case.steps for o in s.operands}
    bare = BareSteps(on, case.steps, case.given, program)
    try:
        bare.enqueue()
        bare.finish()
        return {key: bare.read(values[key]) for key in case.expected}
    finally:
        bare.close()


def verdict(found: FoundDevice, run: bool = True,
            progress: Callable[[int, int], None] = lambda done, of: None) -> SelfTest:
    """The verdict kept for this device and driver; made now if there is none and `run` is set."""
    path = _path(found)
    kept = _read(path)
    if kept is not None or not run:
        return kept or SelfTest("not run")
    made = run_all(OpenCLContext(found), tuple(all_cases()), progress)
    try:
        write_atomically(path, json.dumps(asdict(made)).encode())
    except OSError as e:
        made = SelfTest(made.state, (*made.detail, f"verdict not kept: {path.parent}: "
                                                   f"{e.strerror}"), made.cases)
    return made


def run_all(on: OpenCLContext, cases: tuple[Case, ...],
            progress: Callable[[int, int], None] = lambda done, of: None) -> SelfTest:
    """Every case; a kernel that does not compile or launch is a failed case, not the end."""
    wrong: list[str] = []
    progress(0, len(cases))
    program = _together(on, cases)
    for number, case in enumerate(cases, 1):
        if said := _complaint(on, case, program):
            wrong.append(said)
        progress(number, len(cases))
    return SelfTest("failed" if wrong else "passed", tuple(wrong), len(cases))


def _together(on: OpenCLContext, cases: tuple[Case, ...]) -> Any:
    """All kernels as one program, so that a compiler's start is paid once.

    None if one of them does not compile: alone, each case gets its own blame."""
    try:
        return on.build(render(s for c in cases for s in c.steps))
    except KernelError:
        return None


def _complaint(on: OpenCLContext, case: Case, program: Any) -> str:
    try:
        error = case.error(run_case(on, case, program))
    except (HandTorchError, on.cl.Error) as e:
        return f"{case.name}: {str(e).splitlines()[0]}"
    return "" if error <= 1 else f"{case.name}: off by {error:.3g} times the tolerance"


def _path(found: FoundDevice) -> Path:
    return knobs.cache_folder() / "selftest" / f"{found.spec.key}-{_kernels_key(all_cases())}.json"


def _kernels_key(cases: Iterable[Case]) -> str:
    """Changes with any kernel's text and with what is checked."""
    told = tuple(cases)
    text = render(s for c in told for s in c.steps) + "\n".join(c.name for c in told)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _read(path: Path) -> SelfTest | None:
    """A kept verdict, or None for a file that is missing or not whole."""
    try:
        told: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    match told:
        case {"state": "passed" | "failed" as state, "detail": [*detail], "cases": int(cases)} if (
                all(isinstance(line, str) for line in detail)):
            return SelfTest(state, tuple(detail), cases)
    return None
