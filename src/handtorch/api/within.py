"""A step captured so that it fits: made again first, then in micro-batches, else refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from handtorch.api.budget import Clock, Fitted, Fitting, Sized, alive, device_bytes
from handtorch.api.parts import in_parts
from handtorch.errors import BadInput, CannotCapture, OutOfMemory
from handtorch.passes.accumulate import MicroBatched
from handtorch.runtime.device import Executor
from handtorch.runtime.opencl.clock import Said, launch_times_ns
from handtorch.runtime.opencl.executor import OpenCLExecutor

Capture = Callable[[Sequence[Any]], Any]


def clock_of(executor: Executor, said: Said = lambda done, of: None) -> Clock | None:
    """Only a device has times of its own; `said` is told how far their taking is."""
    return partial(launch_times_ns, executor, said=said) if isinstance(
        executor, OpenCLExecutor) else None


def captured_within(capture: Capture, example: Sequence[Any], parts: int, memory_bytes: int,
                    executor: Executor) -> tuple[Any, MicroBatched | None, Fitted]:
    """The step, in as few micro-batches as fit (`parts` or more), and its program.

    Micro-batches are the last resort: they change the order of sums and the random numbers."""
    clock = clock_of(executor)
    captured, made = _captured(capture, example, parts)
    whole = Fitting(captured.graph if made is None else made.graph, executor.spec, clock)
    found = whole.within(memory_bytes)
    if found is not None:
        return captured, made, found
    why = ""
    for more in _divisors(example, parts):
        try:
            captured, made = _captured(capture, example, more)
        except (CannotCapture, BadInput) as refused:
            why = f"; micro-batches are refused: {refused.what}"
            break
        assert made is not None
        small = Fitting(made.graph, executor.spec, clock)
        slower = more / parts * small.tape.time_ns / whole.tape.time_ns     # both estimated
        found = small.within(memory_bytes)
        if found is not None:
            return captured, made, replace(found, slow_down=slower * found.slow_down,
                                           whole_bytes=device_bytes(whole.whole.plan), parts=more)
    raise _refusal(whole, capture, example, memory_bytes, executor, why)


def _captured(capture: Capture, example: Sequence[Any], parts: int
              ) -> tuple[Any, MicroBatched | None]:
    return (capture(example), None) if parts == 1 else in_parts(capture, example, parts)


def _rows(example: Sequence[Any]) -> int:
    """The length of the first axis of all inputs; 0 where they have none in common."""
    first = {tuple(x.shape[:1]) for x in example if hasattr(x, "shape")}
    return int(next(iter(first))[0]) if len(first) == 1 and () not in first else 0


def _divisors(example: Sequence[Any], parts: int) -> list[int]:
    rows = _rows(example)
    return [k for k in range(parts + 1, rows + 1) if rows % k == 0 and k % parts == 0]


def _refusal(whole: Fitting, capture: Capture, example: Sequence[Any], memory_bytes: int,
             executor: Executor, why: str) -> OutOfMemory:
    rows = _rows(example)
    fix = "more memory, or a smaller model"
    if rows > 1:
        sized = Sized(lambda n: capture([x[:n] for x in example]).graph, rows, rows - 1)
        fits = sized.largest(memory_bytes, executor.spec)
        fix = (f"a batch of {fits} rows instead of {rows}, the largest that fits" if fits else
               f"not even a batch of one row fits: {fix}")
    return does_not_fit(whole, memory_bytes, why, fix=fix)


def does_not_fit(whole: Fitting, memory_bytes: int, why: str = "", *, fix: str) -> OutOfMemory:
    """What a step needs at least, and what of it is alive then."""
    least = whole.least()
    return OutOfMemory(
        f"a step within {memory_bytes:,} bytes",
        why=f"it holds {device_bytes(whole.whole.plan):,}, and {least.held_bytes:,} with all made "
            f"again that helps, of which {least.program.plan.lasting_bytes:,} last between steps; "
            f"alive at that peak: {alive(least.program)}{why}",
        fix=fix)
