"""Study `training`: the suite of the training paper on this device and in torch, beside it.

After "Performance Analysis and Characterization of Training Deep Learning Models on Mobile Devices"
(2019): sixteen models, each at several batches, on torch's CPU and on the device. Whether a batch
fits is decided from its plan before anything runs. Every cell is a process of its own
(training_child.py) around a step that another process captured (training_prepare.py); what is
measured is kept in a folder beside the run file, from which an interrupted run goes on.

    training_cells          what is known of a cell     training_observations  the twelve
    training_run            all of them in turn         training_memory        of a process
    training_rows, _tables  run file, terminal          training_published     what is printed
"""

from __future__ import annotations

from dataclasses import replace

from handtorch.api.budget import as_bytes
from handtorch.baseline.parity import LATER, STEP1, losses_agree
from handtorch.errors import BadInput
from handtorch.record import Verdict
from handtorch.studies.kept import Kept
from handtorch.studies.study import Setting
from handtorch.studies.training_cells import DEVICE, SUITE, TORCH, Kind, Side, form_of
from handtorch.studies.training_memory import WITHIN, off
from handtorch.studies.training_observations import OBSERVATIONS, Finding, Seen, judged
from handtorch.studies.training_published import NAME, published
from handtorch.studies.training_rows import pairs, parity, rows_of
from handtorch.studies.training_run import Asked, Measured, Runner
from handtorch.studies.training_tables import (
    cell_table,
    memory_text,
    observations_text,
    table_ii,
)
from handtorch.studies.training_watch import Length

__all__ = ["OPTIONS", "QUESTION", "RESUMES", "run"]

QUESTION = "Which models can be trained on this device, how fast, and in how much memory?"
PARITY = "Do the first losses on the device agree with torch's?"
RESIDENT = "Is the memory of the process what was planned, and a stated constant?"
OPTIONS = ("models", "batches", "memory", "image", "sides")
RESUMES = True
BATCHES, QUICK_BATCHES = (1, 4, 8, 16, 32, 64), (4, 16)
QUICK_MODELS = ("CharCNN", "DQN")           # quick to capture
MEMORY = "8GiB"                             # what the paper's board has
IMAGES = (32, 224)
DAILY = "daily"                             # the study whose days observation 12 is about


def run(at: Setting) -> str:
    """Measure what is not kept yet, then tell all of it."""
    asked = asked_of(at)
    at.record.add(*published())
    kept = Kept(at.kept, asked.setting(), lambda text: at.progress(f"{NAME}: {text}"), asked.spec)
    found = Runner(asked, kept, at.progress).run()
    at.record.add(*rows_of(found, at.place))
    by_day: Seen = at.found.get(DAILY, Seen())      # where `daily` ran before, in this run
    seen = replace(by_day, cells=tuple(found.cells), plans=tuple(found.plans),
                   same_silicon=at.device.spec.kind == "cpu")
    findings = judged(seen)
    mixed = list(kept.verdict(NAME))
    verdicts = [*verdicts_of(found), *observed(findings)]
    at.record.add(*verdicts, *mixed)
    told = "".join(f"{v.question}\n{v.answer}\n" for v in (*verdicts[:2], *mixed))
    return "\n".join((table_ii(found, asked.memory_bytes), cell_table(found, at.place, seen.others),
                      told, observations_text(findings)))


def asked_of(at: Setting) -> Asked:
    """The options as a plan of cells; refuses what there is not."""
    image = _image(at.options.get("image", ""))
    models = _listed(at.options.get("models", "")) or (QUICK_MODELS if at.quick else SUITE)
    if unknown := [m for m in models if m not in SUITE]:
        raise BadInput(f"--models {unknown[0]}", why=f"the suite has {', '.join(SUITE)}",
                       fix="--models DenseNet40_12,ResNet50")
    batches = _listed(at.options.get("batches", ""))
    if wrong := [b for b in batches if not (b.isdecimal() and 1 <= int(b) <= 4096)]:
        raise BadInput(f"--batches {wrong[0]}", why="a batch has 1 to 4096 samples",
                       fix="--batches 4,16")
    numbers = tuple(sorted({int(b) for b in batches}))
    # The quick form of a model is narrow; a model or a size that was asked for is not.
    small = at.quick and not at.options.get("image")
    asked = Asked(tuple(Kind(m, form_of(m, image), small) for m in models),
                  numbers or (QUICK_BATCHES if at.quick else BATCHES), _sides(at),
                  at.place, at.device.spec, as_bytes(at.options.get("memory") or MEMORY))
    # Most of a small cell is the start of its process: the quick form has as few as will do.
    return asked if not at.quick else replace(
        asked, length=Length(seconds=0.7), feasible=(), compared=asked.batches[:1], empty=False)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _image(text: str) -> int:
    if text and text not in map(str, IMAGES):
        raise BadInput(f"--image {text}", why="models are in two forms, for 32 and for 224 pixels",
                       fix="--image 32")
    return int(text or 32)


def _sides(at: Setting) -> tuple[Side, ...]:
    sides = at.options.get("sides", "")
    return tuple(s for s in (TORCH, DEVICE) if not sides or s in sides.split(","))


def verdicts_of(found: Measured) -> tuple[Verdict, Verdict]:
    """Loss parity, and memory of the processes."""
    compared = {ours.title: parity(ours, theirs) for ours, theirs in pairs(found.cells)}
    bad = [title for title, offs in compared.items() if not losses_agree(offs)]
    worst = [max(column) for column in zip(*compared.values(), strict=True)]
    told = "No cell was measured on both sides." if not compared else (
        f"Relative differences of the losses at most {', '.join(f'{w:.1g}' for w in worst)} on "
        f"steps 1, 2 and 3, over {len(compared)} cells (allowed {STEP1:g}, then {LATER:g})"
        + (f"; more in {', '.join(bad)}." if bad else "."))
    same = Verdict(study=NAME, question=PARITY, holds=not bad if compared else None, answer=told,
                   holds_reason="" if compared else "one side only, or nothing was measured")
    offs = [] if found.bare is None else [
        o for c in found.cells if (o := off(c, found.bare)) is not None]
    memory = Verdict(study=NAME, question=RESIDENT, answer=memory_text(found).strip() or "Nothing "
                     "was measured on the device.",
                     holds=all(abs(o) <= WITHIN for o in offs) if offs else None,
                     holds_reason="" if offs else "no process was measured on the device")
    return same, memory


def observed(findings: list[Finding]) -> list[Verdict]:
    return [Verdict(study=NAME, question=f"Observation {n}: {statement}?", holds=f.holds,
                    answer=f.figures, holds_reason=f.reason)
            for n, ((statement, _), f) in enumerate(zip(OBSERVATIONS, findings, strict=True), 1)]
