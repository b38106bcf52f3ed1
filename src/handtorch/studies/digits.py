"""Study `digits`: a PyTorch step captured, compiled and resident, on the smallest real data.

The first thing a newcomer sees work. A perceptron learns 8x8 digits on the device and in PyTorch
from the same start with the same batches; then both steps are timed in alternating blocks."""

from __future__ import annotations

from statistics import median
from typing import Any

from handtorch.api.inference import Inference
from handtorch.api.make import inference, train_step
from handtorch.api.step import TrainStep
from handtorch.baseline.fair import (
    MOST_OTHERS,
    Plan,
    Timing,
    Work,
    interleave,
    middle_half,
    moment,
    share_of_others,
)
from handtorch.baseline.training import accuracy, step_work, train
from handtorch.profile.memory import held
from handtorch.record import Clock, Launch, Memory, Result, Step, Verdict
from handtorch.runtime.opencl.resident import RING
from handtorch.studies.study import HOST, Setting
from handtorch.zoo.digits import BATCH, Digits, digits_training, load_digits

QUESTION = "Does a captured PyTorch training step learn on this device what PyTorch learns?"
NAME = "digits"
SUBJECT = f"perceptron 64-64-10, batch {BATCH}"
OURS, THEIRS = "captured step", "PyTorch eager"
CLOCK = "OpenCL device"
EPOCHS, QUICK_EPOCHS = 20, 8
WANTED = 0.95
ALLOWED_GAP = 0.005


def run(at: Setting) -> str:
    """Train both, compare accuracy, time both, and keep one step's launches."""
    digits = load_digits()
    epochs = QUICK_EPOCHS if at.quick else EPOCHS
    (model, loss_fn, optimizer), (twin, _, other) = digits_training(), digits_training()
    example = next(digits.batches(0))
    at.progress(f"{NAME}: capturing and compiling")
    step = train_step(model, loss_fn, optimizer, example=example, device=at.device.label)
    at.progress(f"{NAME}: {epochs} epochs on {at.device.label}, then in PyTorch")
    ours = [float(loss) for e in range(epochs) for loss in
            list(step.epoch(digits.train_x, digits.train_y, seed=e))]
    theirs = [loss for e in range(epochs) for loss in
              train(twin, loss_fn, other, digits.batches(e))]
    step.sync_to(model)
    infer = inference(model, example=(digits.test_x,), device=at.device.label)
    reached = _accuracy(infer, digits), accuracy(twin, digits.test_x, digits.test_y)
    at.record.add(*_curve(ours, OURS, at.place), *_curve(theirs, THEIRS, HOST),
                  *(_single("accuracy", s, p, a, "", "higher") for s, p, a in
                    ((OURS, at.place, reached[0]), (THEIRS, HOST, reached[1]))))
    _record_step(at, step, example)
    at.progress(f"{NAME}: timing the step against PyTorch")
    begin = moment()
    times = interleave({OURS: _queued(step, example),
                        THEIRS: step_work(twin, loss_fn, other, *example)},
                       Plan(rounds=3 if at.quick else 7))
    at.record.add(*_timings(times, at.place))
    verdict = _judge(reached, times, share_of_others(begin))
    at.record.add(verdict)
    text = f"{step!r}\n\n{verdict.question}\n{verdict.answer}\n"
    step.close()
    infer.close()
    return text


def _queued(step: TrainStep, example: tuple[Any, Any]) -> Work:
    def work(count: int) -> None:
        for _ in range(count):
            step(*example)
        step.resident.finish()
    return work


def _accuracy(infer: Inference, digits: Digits) -> float:
    scores = infer(digits.test_x)
    assert not isinstance(scores, tuple)
    return float((scores.argmax(1) == digits.test_y).mean())


def _single(name: str, subject: str, place: str, value: float, unit: str, better: Any,
            **more: Any) -> Result:
    return Result(study=NAME, name=name, subject=subject, place=place, value=value, unit=unit,
                  better=better, repeats=1, provenance="measured", **more)


def _curve(losses: list[float], subject: str, place: str) -> list[Result]:
    """Every tenth loss is enough to see it fall."""
    return [_single("loss", subject, place, loss, "", "lower", x_name="step", x_value=i)
            for i, loss in enumerate(losses) if i % 10 == 0]


def _timings(times: dict[str, Timing], place: str) -> list[Result]:
    rows = [Result(study=NAME, name="step time", subject=side,
                   place=place if side == OURS else HOST,
                   value=t.median_s * 1e6, unit="us", better="lower", repeats=t.runs,
                   spread=middle_half(t.seconds) * 1e6, provenance="measured")
            for side, t in times.items()]
    ratio = _ratios(times)
    return [*rows, Result(study=NAME, name="PyTorch / captured step", subject=SUBJECT,
                          value=median(ratio), unit="x", better="higher", repeats=len(ratio),
                          spread=middle_half(ratio), provenance="measured")]


def _ratios(times: dict[str, Timing]) -> list[float]:
    return [b / a for a, b in zip(times[OURS].seconds, times[THEIRS].seconds, strict=True)]


def _record_step(at: Setting, step: TrainStep, example: tuple[Any, Any]) -> None:
    """One timed step with all its launches, and the planned memory by role."""
    program = step.program
    times = step(*example, timed=True).ticket.launch_times()
    at.record.add(
        Clock(name=CLOCK, offset_ns=None, error_ns=None, provenance="measured",
              offset_reason="not yet related to the host's clock"),
        Step(id=0, place=at.place, subject=SUBJECT, number=0, kind="training", clock=CLOCK,
             start_ns=times[0].start_ns, end_ns=times[-1].end_ns, provenance="measured"))
    for i, (launch, t) in enumerate(zip(program.steps, times, strict=True)):
        node = program.node_of(launch)
        at.record.add(Launch(
            step=0, number=i, kernel=launch.kernel, op=node.op, layer=node.layer,
            phase=node.phase, source_line=str(node.where or ""), clock=CLOCK,
            queued_ns=t.queued_ns, submit_ns=t.submit_ns, start_ns=t.start_ns, end_ns=t.end_ns,
            flops=launch.flops, moved_bytes=launch.bytes, provenance="measured"))
    at.record.add(*(Memory(place=at.place, subject=SUBJECT, moment="peak", role=role, bytes=n,
                           provenance="measured")
                    for role, n in held(program, RING).peak.items() if n))


def _judge(reached: tuple[float, float], times: dict[str, Timing], others: float | None
           ) -> Verdict:
    """About what was learned; of speed it speaks only where the machine was quiet."""
    ours, theirs = reached
    ratio = median(_ratios(times))
    speed = f"{ratio:.1f} times as fast as" if ratio >= 1 else f"{1 / ratio:.1f} times slower than"
    said = f"a step is {speed} PyTorch eager"
    if others is not None and others > MOST_OTHERS:
        said = (f"other programs used {others:.0%} of this machine's cores meanwhile, so nothing "
                "is said of speed")
    return Verdict(
        study=NAME, question=QUESTION, holds=ours >= WANTED and ours >= theirs - ALLOWED_GAP,
        answer=f"The captured step reaches {ours:.1%} on unseen digits, PyTorch {theirs:.1%} from "
               f"the same start; {said}.")
