"""Study `backprop`: a training step op by op, as the paper ran it, and resident, as we do.

After "Enabling On-Device Smartphone GPU based Training: Lessons Learned" (2022), Fig. 4 and section
IV-C: there every operation's operands went to the GPU and its results came back, 91 % of the time
was data movement, and the GPU lost whatever its kernels. Models 1 to 4, batch 32, random inputs:

    torch CPU                   eager, the yardstick
    op by op, naive kernels     the paper's way (`backprop_one_op`)
    op by op, tuned kernels     the same, with the launches our lowering picks
    resident step               `train_step`: one program, nothing crosses but batch and loss

The paper timed the backward pass; these are whole steps. All four must agree on the losses before
any of them is timed. Then Model4 learns real pictures with the resident step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from handtorch.api.make import train_step
from handtorch.api.step import TrainStep
from handtorch.baseline.fair import Plan, Work, interleave, moment, settle, share_of_others
from handtorch.baseline.training import step_work, train
from handtorch.capture.step import Captured, capture_train_step
from handtorch.errors import KernelError
from handtorch.graph.node import Graph
from handtorch.kernels.case import Array
from handtorch.kernels.render import render
from handtorch.pipeline import with_tuned
from handtorch.record import Result, Verdict
from handtorch.runtime.opencl.executor import OpenCLExecutor
from handtorch.studies.backprop_accounting import Observed
from handtorch.studies.backprop_findings import (
    BATCH,
    NAIVE,
    NAME,
    QUESTION,
    RESIDENT,
    TORCH,
    TUNED,
    Point,
    depth_results,
    judge,
    published,
    results,
    table,
)
from handtorch.studies.backprop_one_op import OneOpAtATime, Op, lower_ops, unfused
from handtorch.studies.backprop_pictures import Learned, learn, load_pictures, started
from handtorch.studies.study import HOST, Setting
from handtorch.zoo.registry import MODELS

__all__ = ["QUESTION", "run"]

LEARNS = "Does Model4 learn with the resident step what it learns in PyTorch?"
NUMBERS = (1, 2, 3, 4)
FULL, QUICK = Plan(rounds=9), Plan(rounds=3, block_s=0.040)
OBSERVED, QUICK_OBSERVED = 50, 15           # steps seen from inside, each side
WARM = 5                                    # and those before them
BURST = 10                                  # resident steps seen together: they overlap
AGREE_STEPS, AGREE_WITHIN = 5, 1e-4


@dataclass(frozen=True)
class Case:
    """One model, ready on all sides, each with weights of its own from the same start."""

    number: int
    batch: tuple[Array, Array]
    twin: tuple[Any, Any, Any]              # model, loss and optimizer of torch
    ops: Mapping[str, OneOpAtATime]
    step: TrainStep

    def close(self) -> None:
        for one in self.ops.values():
            one.close()
        self.step.close()


def run(at: Setting) -> str:
    """Measure model by model, then learn; what was measured before an interruption is kept."""
    at.record.add(*published())
    at.progress(f"{NAME}: capturing and compiling {len(NUMBERS)} models")
    cases = _prepared(OpenCLExecutor(at.device), at.place)
    points: list[Point] = []
    try:
        begin = moment()
        for case in cases:
            at.progress(f"{NAME}: Model{case.number}")
            check_agreement(case)
            points.append(_measured(case, at.quick))
            at.record.add(*results(points[-1], at.place))
            at.record.flush()
        others = share_of_others(begin)
    finally:
        for case in cases:
            case.close()
    pictures = load_pictures(at.quick)
    at.progress(f"{NAME}: learning {pictures.name}")
    learned = learn(pictures, at.place)
    verdict = judge(points, at.device, others)
    at.record.add(*depth_results(points, at.place), *_accuracies(learned, at.place), verdict,
                  Verdict(study=NAME, question=LEARNS, answer=learned.text, holds=learned.reached))
    doubt = f"Not judged: {verdict.holds_reason}.\n" if verdict.holds is None else ""
    return (f"{table(points, others)}\n{verdict.question}\n{verdict.answer}\n{doubt}"
            f"\n{LEARNS}\n{learned.text}\n")


def _prepared(on: OpenCLExecutor, place: str) -> list[Case]:
    """Every model captured; the ops of all of them in one program, so that it compiles once."""
    found: list[tuple[int, Any, Captured, Graph, dict[str, tuple[Op, ...]]]] = []
    spec = with_tuned(on.spec)              # the same kernels as the resident step's
    for number in NUMBERS:
        entry, model = MODELS[f"Model{number}"], started(f"Model{number}")
        assert entry.loss is not None
        batch = entry.batch(BATCH)
        captured = capture_train_step(model, entry.loss, entry.optimizers(model)[0], batch)
        graph = unfused(captured.graph)
        ops = {side: lower_ops(graph, spec, naive=side == NAIVE) for side in (NAIVE, TUNED)}
        found.append((number, model, captured, graph, ops))
    program = on.build(render([s for *_, ops in found for some in ops.values() for op in some
                               for s in op.steps]))
    cases = []
    for number, model, captured, graph, ops in found:
        entry, twin = MODELS[f"Model{number}"], deepcopy(model)
        x, y = (tensor.numpy() for tensor in entry.batch(BATCH))
        cases.append(Case(
            number, (x, y), (twin, entry.loss, entry.optimizers(twin)[0]),
            {side: OneOpAtATime(on, graph, some, captured.states, program)
             for side, some in ops.items()},
            train_step(model, entry.loss, entry.optimizers(model)[0], example=(x, y),
                       device=place)))
    return cases


def check_agreement(case: Case) -> None:
    """Refuse to time a side whose first losses are not torch's."""
    x, y = case.batch
    expected = train(*case.twin, [(x, y)] * AGREE_STEPS)
    sides = {name: [float(one(x, y)[0]) for _ in expected] for name, one in case.ops.items()}
    sides[RESIDENT] = [float(case.step(x, y)) for _ in expected]
    for name, losses in sides.items():
        worst = float(np.max(np.abs(np.subtract(losses, expected))))
        if not worst <= AGREE_WITHIN:
            raise KernelError(
                f"{NAME}: Model{case.number}, {name}",
                why=f"a loss of the first {AGREE_STEPS} steps differs from torch's by "
                    f"{worst:.2g}, allowed is {AGREE_WITHIN:g}",
                fix="`handtorch devices` runs the device's self-test")


def _measured(case: Case, quick: bool) -> Point:
    """Whole steps in alternating blocks, then steps of ours with all their events."""
    x, y = case.batch
    sides: dict[str, Work] = {TORCH: step_work(*case.twin, x, y)}
    sides |= {name: _one_after_another(one, x, y) for name, one in case.ops.items()}
    sides[RESIDENT] = _queued(case.step, x, y)
    times = interleave(sides, QUICK if quick else FULL)
    inside: dict[str, Callable[[], Observed]] = {
        name: partial(one.observe, x, y) for name, one in case.ops.items()}
    inside[RESIDENT] = partial(observe_resident, case.step, x, y)
    moved = {name: one.moved_bytes for name, one in case.ops.items()}
    return Point(case.number, times,
                 {name: _observed(look, quick) for name, look in inside.items()},
                 {**moved, RESIDENT: case.step.program.bytes_crossing()})


def _one_after_another(one: OneOpAtATime, x: Array, y: Array) -> Work:
    def work(count: int) -> None:
        for _ in range(count):
            one(x, y)
    return work


def _queued(step: TrainStep, x: Array, y: Array) -> Work:
    def work(count: int) -> None:
        for _ in range(count):
            step(x, y)
        step.resident.finish()
    return work


def _observed(look: Callable[[], Observed], quick: bool) -> tuple[Observed, ...]:
    settle()
    for _ in range(WARM):
        look()
    return tuple(look() for _ in range(QUICK_OBSERVED if quick else OBSERVED))


def observe_resident(step: TrainStep, x: Array, y: Array) -> Observed:
    """A burst of steps as a user queues them, waited for once."""
    step.resident.finish()
    start_ns = time.perf_counter_ns()
    tickets = [step(x, y, timed=True).ticket for _ in range(BURST)]
    step.resident.finish()
    wall_ns = time.perf_counter_ns() - start_ns
    moves = [ticket.movement() for ticket in tickets]
    return Observed(wall_ns, tuple(t for ticket in tickets for t in ticket.launch_times()),
                    tuple(c for move in moves for c in move.commands),
                    sum(move.copy_ns for move in moves), BURST)


def _accuracies(learned: Learned, place: str) -> list[Result]:
    name = f"accuracy of Model4 on {learned.pictures.name}"
    return [Result(study=NAME, name=name, subject=side, place=where, x_name="epoch", x_value=i,
                   value=100 * share, unit="%", better="higher", repeats=1, provenance="measured")
            for side, where, shares in ((RESIDENT, place, learned.ours),
                                        (TORCH, HOST, learned.theirs))
            for i, share in enumerate(shares, 1)]
