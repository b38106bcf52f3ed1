"""Compile a large program by a child process per core.

Compilers of CPU runtimes hold a lock, so threads do not help; processes do. A child compiles its
part and leaves the result in the cache: in ours where the driver hands out binaries, in PoCL's own
where it compiles at the first launch (then the child launches one work-group of each kernel, and
all of a wide launch, for which PoCL compiles it apart)."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from handtorch import knobs
from handtorch.graph.step import Step
from handtorch.kernels.render import render, split, step_instance
from handtorch.plan.plan import Plan
from handtorch.runtime.opencl.build import OPTIONS
from handtorch.runtime.opencl.cache import ProgramCache
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.store.atomic import write_atomically
from handtorch.store.programs import sha256

WORTH_IT = 12                 # kernels; starting a child costs as much as compiling a few


def compile_steps(on: OpenCLContext, steps: Sequence[Step], plan: Plan,
                  built: Mapping[str, bytes] | None = None) -> dict[str, Any]:
    """For each kernel instance of `steps` the compiled program that holds it. Of `built`, trusted
    binaries by the SHA-256 of their source, those are taken that are there for all."""
    if built and (found := _split_as(steps, built)):
        return {step_instance(s): program for part, binary in found
                for program in [on.build(render(part), binary)] for s in part}
    parts = _parts(steps)
    if len(parts) > 1:
        _in_children(on, [p for p in parts if not _is_compiled(on, p)], plan)
    programs: dict[str, Any] = {}
    for part in parts:
        program = on.build(render(part))
        programs |= {step_instance(s): program for s in part}
    return programs


def _parts(steps: Sequence[Step]) -> list[tuple[Step, ...]]:
    cores = len(os.sched_getaffinity(0))
    return split(steps, cores if len({step_instance(s) for s in steps}) >= WORTH_IT else 1)


def _split_as(steps: Sequence[Step], built: Mapping[str, bytes]
              ) -> list[tuple[tuple[Step, ...], bytes]]:
    """The steps in parts that are all in `built`, however many cores its maker had; else none."""
    for count in range(1, len(built) + 1):
        found = []
        for part in split(steps, count):
            if (binary := built.get(sha256(render(part)))) is None:
                break
            found.append((part, binary))
        else:
            return found
    return []


def binaries_of(on: OpenCLContext, steps: Sequence[Step], plan: Plan) -> dict[str, bytes]:
    """The driver's binary of every part of `steps`, by the SHA-256 of its source.

    Where asking for one compiles everything again (PoCL), a child per core does it."""
    parts = _parts(steps)
    if on.found.facts.binaries_cheap:
        compile_steps(on, steps, plan)
        return {sha256(source): on.binary(source) for source in map(render, parts)}
    found = {}
    for child, part in _children(on, parts, plan, binaries=True):
        assert child.stdout is not None
        with child.stdout as pipe:
            binary = pipe.read()
        if child.wait() != 0:               # what is wrong comes out here, where it can be told
            binary = on.binary(render(part))
        found[sha256(render(part))] = binary
    return found


def _in_children(on: OpenCLContext, parts: Sequence[Sequence[Step]], plan: Plan) -> None:
    """Waits for all children. One that fails leaves its part to us, who will say what is wrong."""
    for child, part in _children(on, parts, plan, binaries=False):
        if child.wait() == 0 and on.found.facts.own_kernel_cache:
            _remember(on, part)


def _children(on: OpenCLContext, parts: Sequence[Sequence[Step]], plan: Plan, *, binaries: bool
              ) -> list[tuple[subprocess.Popen[bytes], Sequence[Step]]]:
    """One for each part, at work; with `binaries` each gives its own on its standard output."""
    command = [sys.executable, "-m", "handtorch.runtime.opencl.prebuild_child"]
    out = subprocess.PIPE if binaries else subprocess.DEVNULL
    children = []
    for part in parts:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out,
                                 stderr=subprocess.DEVNULL, env=knobs.environment_for_child())
        assert child.stdin is not None
        with suppress(BrokenPipeError), child.stdin as pipe:       # one that died early
            pipe.write(pickle.dumps((on.found.label, tuple(part), plan, binaries)))
        children.append((child, part))
    return children


def _is_compiled(on: OpenCLContext, part: Sequence[Step]) -> bool:
    source = render(part)
    if on.found.facts.own_kernel_cache:
        return _stamp(on, source).exists()
    return ProgramCache(on.spec, OPTIONS).read(source) is not None


def _stamp(on: OpenCLContext, source: str) -> Path:
    """Says that the runtime's own cache has seen this source; if that cache was emptied since, the
    first launches compile one after another, which is slow but right."""
    name = hashlib.sha256(f"{on.spec.key} {source}".encode()).hexdigest()
    return knobs.cache_folder() / "compiled" / name


def _remember(on: OpenCLContext, part: Sequence[Step]) -> None:
    try:
        write_atomically(_stamp(on, render(part)), b"")
    except OSError:
        return                # the cache warns by itself when it cannot be written


def compile_part(on: OpenCLContext, steps: Sequence[Step], plan: Plan) -> None:
    """What a child does: build, and where the runtime compiles at launch, launch."""
    program = on.build(render(steps))
    if not on.found.facts.own_kernel_cache:
        return
    sizes = [*plan.bank_bytes, plan.staging_out_bytes, plan.staging_in_bytes]
    banks = [on.buffer(n) for n in sizes]           # banks -2 and -1 are staging
    seen, wide_grid = set(), on.found.facts.wide_grid
    for step in steps:
        size = step.global_size if 0 < wide_grid <= max(step.global_size) else step.local_size
        key = (step_instance(step), step.local_size, size == step.local_size)
        if key in seen:
            continue
        seen.add(key)
        kernel = on.cl.Kernel(program, step_instance(step))
        on.set_arguments(kernel, step, [on.where(plan, o.value, banks) for o in step.operands])
        on.cl.enqueue_nd_range_kernel(on.queue, kernel, size, step.local_size)
    on.queue.finish()
