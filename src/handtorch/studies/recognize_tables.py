"""The paper's tables as text, each row of ours above the published one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean, median

from handtorch.cloud.scenes import PUBLISHED_KB, SIZES
from handtorch.profile.columns import table
from handtorch.record import Verdict
from handtorch.studies.recognize_findings import CLOUDS, Findings, slowed_ms
from handtorch.studies.recognize_modes import DEVICE_CL, MODES, ModeRun
from handtorch.studies.recognize_published import PAPERS, TABLE_III, TABLE_IV
from handtorch.studies.unjudged import note


def text(found: Findings, verdicts: Sequence[Verdict]) -> str:
    """All tables, then the verdicts."""
    said = [f"{v.question}\n{v.answer}\n" + (f"Not judged: {v.holds_reason}.\n"
                                             if v.holds is None else "") for v in verdicts]
    tables = [_table_iii(found), _by_model(found), _by_size(found), _loading(found)]
    return "\n\n".join([*tables, note(found.others) + "\n".join(said)])


def _table_iii(found: Findings) -> str:
    names = sorted({one.model for one in found.runs})
    rows = []
    for mode in MODES:
        runs = found.mode(mode)
        rows.append((mode, *_means(runs)))
        rows.append((f"  published {PAPERS[mode]}", *(f"{v:g}" for v in TABLE_III[mode])))
    head = ("Table III, means", "load ms", "rescale ms", "upload ms", "compute ms", "CPU %",
            "device %", "power mW", "memory MB")
    return (f"{table(head, rows)}\nover {', '.join(names)}; CPU is of one core, the paper's of "
            "all four; power is estimated from a sheet where no sensor tells it; memory of the "
            "process alone, the paper's of the phone")


def _means(runs: Sequence[ModeRun]) -> Iterator[str]:
    for step in ("load", "rescale", "upload", "compute"):
        yield f"{fmean(value for one in runs for value in one.values(step)):.2f}"
    for key, factor in (("cpu_cores", 100.0), ("device_share", 100.0), ("power_w", 1e3),
                        ("memory_bytes", 1e-6)):
        known = [value for one in runs if (value := one.mean(key)) is not None]
        yield f"{factor * fmean(known):.1f}" if known else "-"


def _by_model(found: Findings) -> str:
    rows = [(one.model, one.mode, f"{one.median('load'):.0f}", f"{one.median('compute'):.1f}",
             f"{one.inference_ms():.1f}", f"{slowed_ms(one):.0f}",
             f"{100 * median(one.unaccounted()):.2f}") for one in found.runs]
    for one in found.as_they_are:
        rows.append((one.model, f"{one.mode}, sent as they are", "0",
                     f"{one.median('compute'):.1f}", f"{one.inference_ms():.1f}", "-",
                     f"{100 * median(one.unaccounted()):.2f}"))
    rows += [(model, f"{DEVICE_CL}, captured and compiled", f"{ms:.0f}", "-", "-", "-", "-")
             for model, ms in found.plain_ms.items()]
    return table(("model", "mode", "load ms", "compute ms", "inference ms",
                  "on the paper's phone ms (simulated)", "in no step %"), rows)


def _by_size(found: Findings) -> str:
    rows = []
    for index, (height, width) in enumerate(SIZES):
        names = {s.path.name for s in found.scenes if s.size == index}
        seen = [p for one in found.runs if one.mode not in CLOUDS for p in one.pictures
                if p["file"] in names]
        if not seen:
            continue
        kbs = sorted({p["file_bytes"] / 1000 for p in seen})
        rows.append((f"{width} x {height}", f"{kbs[0]:.0f}-{kbs[-1]:.0f}",
                     f"{min(PUBLISHED_KB[index])}-{max(PUBLISHED_KB[index])}",
                     f"{median(p['steps_ms']['rescale'] for p in seen):.1f}"))
    return table(("picture", "file KB", "the paper's KB", "rescale ms"), rows)


def _loading(found: Findings) -> str:
    rows, failed = [], ""
    for (model, way, heap), one in found.loadings.items():
        name = f"{model}, {way}" + (f", heap {heap >> 20} MB" if heap else "")
        if one.load is None or one.use is None:
            rows.append((name, "failed", *["-"] * 7))
            failed += f"\n{name}: {one.failed}"
            continue
        rows.append((name, f"{one.answer_ms:.0f}", f"{one.load.ms:.0f}",
                     f"{one.load.collections}", f"{one.load.collecting_ms:.1f}",
                     f"{one.load.longest_pause_ms:.1f}",
                     f"{one.load.minor_faults} + {one.load.major_faults}",
                     f"{one.use.collections}, {one.use.collecting_ms:.1f}",
                     f"{one.heap_bytes / 1e6:.0f}"))
    for (phase, model), (ms, count, taken, pause) in TABLE_IV.items():
        if phase == "load":
            used = TABLE_IV["use", model]
            rows.append((f"  published CNNDroid {model}", "-", f"{ms:.0f}", f"{count:g}",
                         f"{taken:g}", f"{pause:g}", "-", f"{used[1]:g}, {used[2]:g}", "-"))
    return table(("Table IV: loading", "start to ready ms", "load ms", "collections", "their ms",
                  "longest ms", "faults minor + major", "in use: number, ms", "heap MB"), rows
                 ) + failed
