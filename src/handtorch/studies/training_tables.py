"""The study `training` for a terminal: Table II, the cells, memory, and the observations."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from handtorch.studies.training_cells import DEVICE, TORCH, Cell, Kind
from handtorch.studies.training_memory import (
    PER_KERNEL_BYTES,
    PER_LAUNCH_BYTES,
    WITHIN,
    constant_bytes,
    off,
)
from handtorch.studies.training_observations import OBSERVATIONS, Finding
from handtorch.studies.training_published import TABLE_II, disagrees
from handtorch.studies.training_rows import parity
from handtorch.studies.training_run import Measured
from handtorch.studies.unjudged import mark, marked


def table_ii(found: Measured, memory_bytes: int) -> str:
    """As the paper prints it, with our own counts and what fits here beside it."""
    rows = [["model", "parameters", "printed", "Mflop fwd", "printed", "trained", "fits up to",
             "with budget", ""]]
    seen: set[Kind] = set()
    for plan in found.plans:
        if plan.kind in seen or plan.kind.model not in TABLE_II:
            continue
        seen.add(plan.kind)
        line = TABLE_II[plan.kind.model]
        note = "" if plan.kind.small else disagrees(plan.kind.model, plan.parameters)
        plain, budget = found.largest.get(plan.kind, (None, None))
        rows.append([plan.kind.title, f"{plan.parameters:,}", _millions(line.parameters),
                     f"{plan.forward_flops / 1e6:,.0f}", _millions(line.flops),
                     "yes" if line.trained else "no", _batch(plain), _batch(budget), note])
    return (f"Table II; what was planned within {memory_bytes:,} bytes; `printed` and "
            f"`trained` are the paper's, on a Jetson TX2 with 8 GB\n{lines(rows)}")


def cell_table(found: Measured, place: str, others: float | None = None) -> str:
    """Cells down: torch, ours, their ratio, use, memory, and the differences of the losses."""
    rows = [["model", "batch", "torch/s", f"{place}/s", "ratio", "steps", "device", "cores",
             "planned MB", "resident MB", "off", "loss 1", "loss 2", "loss 3", "others"]]
    by = {(c.kind, c.batch, c.side): c for c in found.cells}
    for kind, batch in dict.fromkeys((c.kind, c.batch) for c in found.cells):
        ours, theirs = by.get((kind, batch, DEVICE)), by.get((kind, batch, TORCH))
        rows.append([kind.title, str(batch), _rate(theirs), _rate(ours),
                     _ratio(ours, theirs, mark(others)),
                     *_of_ours(ours, found), *_losses(ours, theirs),
                     _share(None if ours is None else ours.others)])
    told = [f"  {c.title}, {'torch' if c.side == TORCH else place}: {c.state}: {c.reason}\n"
            for c in found.cells if not c.measured]
    sources = ", ".join(sorted({"generated" if c.source == "generated" else "real"
                                for c in found.cells if c.measured}))
    return (f"Samples a second on torch (host CPU) and on {place}, first three steps left out; "
            f"data {sources or 'none'}; no dropout\n{lines(rows)}{marked(others)}"
            f"{''.join(told)}")


def memory_text(found: Measured) -> str:
    """How well planned peaks and the stated constants tell the memory of the processes."""
    if found.bare is None:
        return "No process without a model was measured: resident memory is not judged.\n"
    offs = {c.title: o for c in found.cells if (o := off(c, found.bare)) is not None}
    if not offs:
        return ""
    good = sum(abs(o) <= WITHIN for o in offs.values())
    worst = max(offs, key=lambda t: abs(offs[t]))
    return (f"Resident memory is the planned peak, the batches, {constant_bytes(found.bare):,} "
            f"bytes (measured: a process with the driver and next to no step), "
            f"{PER_LAUNCH_BYTES:,} for each launch and {PER_KERNEL_BYTES:,} for each kernel: "
            f"within {WITHIN:.0%} in {good} of {len(offs)} cells, worst {worst} "
            f"({offs[worst]:+.1%}).\n")


def observations_text(found: Sequence[Finding]) -> str:
    """Those that are judged, each with its figures; of the others the numbers, by their reason."""
    told, open_ = "", dict[str, list[str]]()
    for number, ((statement, _), one) in enumerate(zip(OBSERVATIONS, found, strict=True), 1):
        if one.holds is None:
            open_.setdefault(one.reason, []).append(str(number))
        else:
            word = "holds" if one.holds else "does not hold"
            told += f"{number:>3}. {statement}: {word}.\n     {one.figures}\n"
    if open_:
        told += (f"{sum(map(len, open_.values()))} of the paper's {len(OBSERVATIONS)} observations "
                 "cannot be judged here:\n")
    return told + "".join(f"  {', '.join(numbers)}: {reason}\n"
                          for reason, numbers in open_.items())


def lines(rows: Sequence[Sequence[str]]) -> str:
    wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "".join("  ".join([row[0].ljust(wide[0]), *(c.rjust(w) for c, w in
                              zip(row[1:], wide[1:], strict=True))]).rstrip() + "\n"
                   for row in rows)


def _millions(number: float | None) -> str:
    return "N/A" if number is None else f"{number / 1e6:,.0f}M"


def _batch(number: int | None) -> str:
    return "-" if number is None else "none" if number == 0 else str(number)


def _rate(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    rate = cell.samples_per_s
    return cell.state if rate is None else f"{rate:.3g}"


def _ratio(ours: Cell | None, theirs: Cell | None, marked_by: str) -> str:
    if ours is None or theirs is None or not ours.step_s or not theirs.step_s:
        return "-"
    return f"{median(theirs.step_s) / median(ours.step_s):.2f}{marked_by}"


def _of_ours(cell: Cell | None, found: Measured) -> list[str]:
    if cell is None or cell.memory is None or cell.memory.planned_bytes is None:
        return ["-"] * 6
    error = None if found.bare is None else off(cell, found.bare)
    return [str(len(cell.step_s)), _share(cell.use.device), _share(cell.use.mean_core),
            f"{cell.memory.planned_bytes / 1e6:,.0f}", f"{cell.memory.peak_bytes / 1e6:,.0f}",
            "-" if error is None else f"{error:+.1%}"]


def _losses(ours: Cell | None, theirs: Cell | None) -> list[str]:
    if ours is None or theirs is None or not ours.measured or not theirs.measured:
        return ["-"] * 3
    return [f"{d:.0e}" for d in parity(ours, theirs)]


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
