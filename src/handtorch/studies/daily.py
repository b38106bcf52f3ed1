"""Study `daily`: a model that was trained on a server goes on learning on the device, day by day.

After the training paper's Fig. 10: DenseNet40, 64 new images a day for 17 days, three batch sizes;
there the training accuracy went from 60.65 % to 61.32 %. Here also the accuracy on images that are
never learnt from, three seeds (which images come on which day), and what a batch size costs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from statistics import mean, median
from typing import Any

import numpy as np

from handtorch.api.budget import device_bytes
from handtorch.api.inference import Inference
from handtorch.api.make import inference, train_step
from handtorch.api.state import write_states
from handtorch.api.step import TrainStep
from handtorch.baseline.fair import middle_half
from handtorch.baseline.pretrain import loss_fn, optimizer_of
from handtorch.kernels.case import Array
from handtorch.record import Published, Result, Verdict
from handtorch.studies.daily_scene import DAYS, PER_DAY, Scene, scene_of, schooled
from handtorch.studies.kept import Kept
from handtorch.studies.study import Setting
from handtorch.studies.training_observations import Day, Seen, accuracy_grows
from handtorch.studies.training_tables import lines

__all__ = ["QUESTION", "RESUMES", "run"]

NAME = "daily"
QUESTION = "Does a model get better on the device by 64 new images a day?"
COSTS = "Do small batches save memory without costing accuracy?"
RESUMES = True
SEEDS = (0, 1, 2)
LIMIT_S = 28 * 60.0                         # what is not begun by then is left out
TRAINING, HELD_OUT, MEMORY = "training accuracy", "held-out accuracy", "memory of a step"
_PAPER = "Liu, Liu, Du and Li, training on a Jetson TX2, 2019, observation 12 and Fig. 10"


def run(at: Setting) -> str:
    """Every series that is not kept yet; then accuracies by day, and what batch size costs."""
    begin, scene = time.monotonic(), scene_of(at.quick)
    at.progress(f"{NAME}: {scene.name}, school in torch")
    model, school, weights = schooled(scene, lambda text: at.progress(f"{NAME}: {text}"))
    kept = Kept(at.kept, {"device": at.place, "driver": at.device.spec.driver,
                          "scene": scene.name, "weights": weights, "rate": scene.rate},
                lambda text: at.progress(f"{NAME}: {text}"), at.device.spec)
    days, held, late = _measured(at, scene, model, kept, begin)
    at.record.add(*_published(), *rows_of(scene, days, held, at.place))
    at.found[NAME] = Seen(days=tuple(days), scene=scene.name)
    found = accuracy_grows(Seen(days=tuple(days)))
    verdicts = [Verdict(study=NAME, question=QUESTION, answer=found.figures, holds=found.holds,
                        holds_reason=found.reason), costs(days, held), *kept.verdict(NAME)]
    at.record.add(*verdicts)
    note = f" ({scene.note})" if scene.note else ""
    told = "".join(f"{v.question}\n{v.answer}\n" for v in verdicts)
    return (f"{scene.name}{note}; school: {school}\n{table(days, held)}{told}"
            + (f"Left out, since {LIMIT_S / 60:.0f} minutes were over: {', '.join(late)}.\n"
               if late else ""))


def _measured(at: Setting, scene: Scene, model: Any, kept: Kept, begin: float
              ) -> tuple[list[Day], dict[int, int], list[str]]:
    """Days, bytes by batch, and the series for which there was no time."""
    days: list[Day] = []
    held: dict[int, int] = {}
    late: list[str] = []
    infer: Inference | None = None
    for batch in scene.batches:
        keys = {seed: f"daily-b{batch}-seed{seed}" for seed in SEEDS}
        told = {seed: kept.get(key) for seed, key in keys.items()}
        step = None
        for seed, key in keys.items():
            if told[seed] is None:
                if time.monotonic() - begin > LIMIT_S:
                    late.append(f"batch {batch} seed {seed}")
                    continue
                at.progress(f"{NAME}: batch {batch}, seed {seed}")
                if infer is None:
                    infer = inference(model, example=(scene.old[0][:scene.eval_batch],),
                                      device=at.place)
                if step is None:
                    step, start = _step(scene, model, batch, at.place)
                step.load_state_dict(start)
                found = series(scene, step, infer, batch, seed)
                told[seed] = {"days": [asdict(d) for d in found],
                              "bytes": device_bytes(step.program.plan)}
                kept.put(key, told[seed])
            days += [Day(**d) for d in told[seed]["days"]]
            held[batch] = told[seed]["bytes"]
        if step is not None:
            step.close()
    return days, held, late


def _step(scene: Scene, model: Any, batch: int, place: str) -> tuple[TrainStep, dict[str, Array]]:
    x, y = scene.new
    model.train()
    step = train_step(model, loss_fn, optimizer_of(model, scene.rate),
                      example=(x[:batch], y[:batch]), device=place)
    return step, step.state_dict()


def series(scene: Scene, step: TrainStep, infer: Inference, batch: int, seed: int) -> list[Day]:
    """Day 0 is before the first image; each day its images are learnt from once."""
    rng = np.random.default_rng(seed)
    coming = rng.permutation(len(scene.new[0]))[:DAYS * PER_DAY]
    training = _training_sample(scene, coming, rng)
    some = tuple(a[:scene.checked[1]] for a in scene.held)
    found = []
    for day in range(DAYS + 1):
        if day:
            rows = coming[(day - 1) * PER_DAY:day * PER_DAY]
            for at in range(0, PER_DAY, batch):
                mine = rows[at:at + batch]
                step(scene.new[0][mine], scene.new[1][mine])
        names = [s.name for s in infer.session.program.graph.states
                 if s.role in ("parameter", "buffer")]
        write_states(infer.session, step.session.read(names))
        found.append(Day(batch, seed, day, share_right(infer, *training, scene.eval_batch),
                         share_right(infer, some[0], some[1], scene.eval_batch)))
    return found


def _training_sample(scene: Scene, coming: Array, rng: np.random.Generator
                     ) -> tuple[Array, Array]:
    """What training accuracy is taken on: half of it from school, half of the days' images, those
    still to come included, so that it is the same every day."""
    half = scene.checked[0] // 2
    old, new = rng.permutation(len(scene.old[0]))[:half], rng.permutation(coming)[:half]
    return (np.concatenate([scene.old[0][old], scene.new[0][new]]),
            np.concatenate([scene.old[1][old], scene.new[1][new]]))


def share_right(infer: Inference, x: Array, y: Array, batch: int) -> float:
    """Of all images; the last batch is filled up with the first ones, which are not counted."""
    right = 0
    for at in range(0, len(x), batch):
        rows = np.arange(at, at + batch)
        scores = infer(x[rows % len(x)])
        known = rows < len(x)
        right += int((scores.argmax(1)[known] == y[rows[known]]).sum())
    return right / len(x)


def rows_of(scene: Scene, days: Sequence[Day], held: dict[int, int], place: str
            ) -> Iterator[Result]:
    """By day the median over the seeds; by batch the bytes that a step holds."""
    for name in (TRAINING, HELD_OUT):
        for batch in held:
            for day in range(DAYS + 1):
                values = [100 * _share(d, name) for d in days if (d.batch, d.day) == (batch, day)]
                yield Result(study=NAME, name=f"{name}, {scene.name}", subject=f"batch {batch}",
                             place=place, x_name="day", x_value=day, value=median(values),
                             unit="%", better="higher", repeats=len(values),
                             spread=middle_half(values) if len(values) > 1 else None,
                             provenance="measured")
    for batch, nbytes in held.items():
        yield Result(study=NAME, name=MEMORY, subject=scene.name, place=place, x_name="batch",
                     x_value=batch, value=nbytes / 1e6, unit="MB", better="lower", repeats=1,
                     provenance="measured")


def _share(day: Day, name: str) -> float:
    return day.training if name == TRAINING else day.held_out


def _published() -> Iterator[Published]:
    for day, value in ((0, 60.65), (DAYS, 61.32)):
        yield Published(study=NAME, name=TRAINING, subject="DenseNet40, three batch sizes, TX2",
                        x_name="day", x_value=day, value=value, unit="%", source=_PAPER)


def gains(days: Sequence[Day], batch: int, name: str) -> list[float]:
    """By seed, what the days added."""
    found = []
    for seed in dict.fromkeys(d.seed for d in days):
        mine = sorted((d for d in days if (d.batch, d.seed) == (batch, seed)), key=lambda d: d.day)
        if len(mine) > 1:
            found.append(_share(mine[-1], name) - _share(mine[0], name))
    return found


def costs(days: Sequence[Day], held: dict[int, int]) -> Verdict:
    """The smallest batch against the largest: held-out accuracy by seed, and bytes."""
    small, large = min(held, default=0), max(held, default=0)
    a, b = gains(days, small, HELD_OUT), gains(days, large, HELD_OUT)
    if small == large or not a or len(a) != len(b):
        return Verdict(study=NAME, question=COSTS, holds=None, answer="Not measured.",
                       holds_reason="two batch sizes with the same seeds are needed")
    worse = [y - x for x, y in zip(a, b, strict=True)]
    spread = max(worse) - min(worse)
    return Verdict(
        study=NAME, question=COSTS, holds=mean(worse) <= spread and held[small] < held[large],
        answer=f"Batch {small} holds {held[small]:,} bytes, batch {large} {held[large]:,}; after "
               f"{DAYS} days held-out accuracy changed by {100 * mean(a):+.2f} and "
               f"{100 * mean(b):+.2f} points (means of {len(a)} seeds, whose differences span "
               f"{100 * spread:.2f} points).")


def table(days: Sequence[Day], held: dict[int, int]) -> str:
    """Days down; training and held-out accuracy across, mean and range over the seeds."""
    head = ["day"] + [f"{word} b{b}" for b in held for word in ("training", "held out")]
    rows = [head]
    for day in range(DAYS + 1):
        cells = []
        for batch in held:
            for name in (TRAINING, HELD_OUT):
                values = [100 * _share(d, name) for d in days if (d.batch, d.day) == (batch, day)]
                cells.append(f"{mean(values):.1f} +-{(max(values) - min(values)) / 2:.1f}")
        rows.append([str(day), *cells])
    rows.append(["bytes", *(c for b in held for c in (f"{held[b]:,}", ""))])
    return f"Accuracy in %, mean of the seeds and half their range\n{lines(rows)}"
