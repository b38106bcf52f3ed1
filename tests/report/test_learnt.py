"""Sentences from rows; the rows are called as the studies call them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handtorch.record import Published, Result, Run, RunInfo, Verdict
from handtorch.report.learnt import BUSY, MOST, busy, learnt
from handtorch.report.page import render
from handtorch.report.spell import esc
from handtorch.studies import backprop_findings as backprop
from handtorch.studies import daily, digits, recognize_findings, rnn, rnn_load, sgemm
from handtorch.studies import rnn_findings as findings
from handtorch.studies import training_rows as training
from handtorch.studies.rnn_strategies import TITLES, E


def row(study: str, name: str, subject: str, value: float | None, x: float | None = None,
        **more: Any) -> Result:
    why = more.pop("why", "")
    return Result(study=study, name=name, subject=subject, value=value,
                  value_reason="" if value is not None else why, unit="x",
                  better="neither", repeats=0 if value is None else 1,
                  x_name="" if x is None else "x", x_value=x,
                  provenance=more.pop("provenance", "measured"), **more)


def rows() -> Iterator[Result]:
    """As a quick run writes them, one of each that a sentence is made of."""
    yield row(digits.NAME, "accuracy", digits.OURS, 0.964)
    yield row(digits.NAME, "accuracy", digits.THEIRS, 0.961)
    yield row(digits.NAME, "PyTorch / captured step", digits.SUBJECT, 3.83)
    for n, naive, chosen in ((256, 2.0, 90.0), (512, 1.9, 126.0)):
        yield row(sgemm.NAME, "rate", "naive", naive, n)
        yield row(sgemm.NAME, "rate", sgemm.CHOSEN, chosen, n)
    yield row(sgemm.NAME, "rate", "naive", None, 1024, why="too slow")
    yield row(sgemm.NAME, "rate", sgemm.CHOSEN, 141.0, 1024)
    yield row(sgemm.NAME, "chosen kernel / better BLAS", sgemm.CHOSEN, 0.92, 512)
    for model, moved, ratio in ((1, 33.6, 4.1), (4, 41.9, 1.7)):
        yield row(backprop.NAME, backprop.MOVED, backprop.TUNED, moved, model)
        yield row(backprop.NAME, "times as fast as torch CPU", backprop.RESIDENT, ratio, model)
    yield row(findings.NAME, "time of a window, 2 layers", TITLES[E], 0.4521, 32)
    yield row(findings.NAME, "times as fast as one CPU thread, 2 layers", TITLES[E], 31.8, 32)
    yield row(findings.NAME, findings.COARSE_RATIO, "coarse units, 12 x 10", 5.04)
    for band, wins in (("no", 1.0), ("low", 1.0), ("medium", None), ("high", 0.0)):
        yield row(rnn_load.NAME, rnn_load.WINS, f"{band} load", wins, why="a tie")
    for model, ratio in (("CharCNN (narrow)", 2.26), ("DQN (narrow)", 3.49)):
        yield row("training", training.RATIO, model, ratio, 4)
        yield row("training", f"{training.PARITY}, step 1", model, 1.9e-07, 4)
        yield row("training", "joules of a step", model, None, 4, why="no sensor of power here")
    for batch, gain in ((4, 52.0), (64, 31.8)):
        for day in (0, 17):
            yield row(daily.NAME, f"{daily.HELD_OUT}, digits", f"batch {batch}",
                      38.0 + (gain if day else 0.0), day)
    for mode, ms, phone in ((recognize_findings.DEVICE_CL, 75.0, 4301.0),
                            (recognize_findings.DEVICE_CPU, 97.6, 3645.0),
                            (recognize_findings.CLOUD_CPU, 86.7, 2023.5),
                            (recognize_findings.CLOUD_CL, 91.8, 2591.0)):
        yield row("recognize", "inference", f"squeezenet, {mode}", ms)
        yield row("recognize", "inference on the paper's phone", f"squeezenet, {mode}", phone,
                  provenance="simulated")
    yield row("recognize", "regret of auto", "squeezenet, s", -1.2, provenance="simulated")
    yield row("recognize", "regret of auto", "squeezenet, J", 0.04, provenance="simulated")


@pytest.fixture
def quick(run: Run) -> Run:
    return replace(run, results=tuple(rows()), verdicts=(), published=(
        Published(study=backprop.NAME, name=backprop.MOVED, subject="phones", value=91, unit="%",
                  source="the paper"),))


WHOLE = """\
gpu is Adreno 640, 2 compute units, on the host's own cores, 4 GiB, driver 512.0, passed its \
self-test.
A captured PyTorch step learns digits to 96.4%, PyTorch itself to 96.1%; it is 3.83 times as fast \
as PyTorch.
Matrix products reach 126 GFLOPS (n = 512), 66.3 times the naive kernel's 1.9, 0.92 times as \
fast as the CPU's BLAS.
Op by op, copies are 34 to 42 % of kernels and copies (published for phones: 91 %); kept on the \
device a step is 1.7 to 4.1 times as fast as torch's.
An LSTM of 2 x 32 takes 0.452 ms a window, 31.8 times as fast as one CPU thread, MobiRNN's way \
5.04 times.
Which place runs an LSTM sooner: under no and low load the device; under medium load not known; \
under high load the CPU.
CharCNN and DQN (narrow) train 2.3 to 3.5 times as fast as in torch, first losses within 2e-07 of \
torch's.
What a step draws is not known: no sensor of power here.
17 days of learning on the device changed accuracy on unseen digits by +31.8 to +52.0 points.
A picture is recognised in 75 ms here, in 87 ms by a cloud on the same cores; on the paper's phone \
(simulated) 3,645 and 2,024.
Choosing device or cloud by itself takes 98.8 % of the time and 100.0 % of the energy of the best \
place (simulated)."""


def test_every_sentence(quick: Run) -> None:
    assert "\n".join(learnt(quick, most=99)) == WHOLE


def test_ten_at_most_and_the_least_telling_go_first(quick: Run) -> None:
    found = learnt(quick)
    assert len(found) == MOST == 10
    left_out = set(WHOLE.splitlines()) - set(found)
    assert {line.split()[0] for line in left_out} == {"Which"}


def test_beside_other_programs_it_says_so_and_the_doubt_is_among_the_ten(quick: Run) -> None:
    doubt = findings.doubt_of(0.12)
    spoilt = replace(quick, verdicts=(
        Verdict(study="rnn", question="?", answer="Perhaps.", holds=None, holds_reason=doubt),
        Verdict(study="digits", question="?", answer="other programs used 30% of this machine's "
                "cores meanwhile, so nothing is said of speed", holds=True)))
    found = learnt(spoilt)
    assert len(found) == MOST
    assert found[-1] == ("Other programs used up to 30 % of the cores during rnn and digits: no "
                         "speeds are compared there; run it again on a quiet machine.")
    assert found[1] == "A captured PyTorch step learns digits to 96.4%, PyTorch itself to 96.1%."
    marked = [line.split()[1] for line in found if "(beside other programs)" in line]
    assert marked == ["LSTM"]


def test_no_ratio_of_times_is_told_where_no_study_judged_its_times(quick: Run) -> None:
    doubt = findings.doubt_of(0.81)
    spoilt = replace(quick, verdicts=tuple(
        Verdict(study=name, question="?", answer="Perhaps.", holds=None, holds_reason=doubt)
        for name in ("digits", "sgemm", "backprop", "rnn", "training", "recognize")))
    told = learnt(spoilt, 99)
    assert not [line for line in told if re.search(r"\btimes\b|as fast|simulated", line)]
    assert all("(beside other programs)" in line for line in told
               if re.search(r"sooner|copies| ms", line))
    assert "Matrix products reach 126 GFLOPS (n = 512) (beside other programs)." in told


def test_a_ratio_within_its_spread_is_no_number(quick: Run) -> None:
    rows = [replace(r, spread=0.1, repeats=3) if r.name.startswith("chosen kernel") else r
            for r in quick.results]
    line = next(one for one in learnt(replace(quick, results=tuple(rows))) if "Matrix" in one)
    assert line.endswith(", as fast, within its spread, as the CPU's BLAS.")


def test_loads_under_which_nothing_was_told_are_one_sentence(quick: Run) -> None:
    rows = [replace(r, value=None, value_reason="not held", repeats=0)
            if r.name == rnn_load.WINS else r for r in quick.results]
    assert "Which place runs an LSTM sooner could not be told under any load." in learnt(
        replace(quick, results=tuple(rows)), 99)


def test_a_busy_machine_is_known_by_the_words_that_studies_use(run: Run) -> None:
    """Each place that writes the words must be understood here."""
    sources = Path(rnn.__file__).parent.glob("*.py")
    said = [line for path in sources for line in path.read_text().splitlines()
            if "other programs used {" in line]
    assert len(said) >= 7
    assert BUSY.search(findings.doubt_of(0.42)) and busy(run) == {}


def test_measured_power_is_told(quick: Run) -> None:
    kept = [r for r in quick.results if not r.name.startswith("joules")]
    known = row("training", "joules of a step, gpu_power", "ResNet50", 2.5, 16)
    line = next(one for one in learnt(replace(quick, results=(*kept, known))) if " J" in one)
    assert line == "A step of ResNet50 at batch 16 takes 2.5 J on gpu_power."


@pytest.mark.parametrize("left", ["digits", "sgemm", "backprop", "rnn", "training", "daily",
                                  "recognize"])
def test_what_was_not_studied_is_not_told(quick: Run, left: str) -> None:
    found = learnt(replace(quick, results=tuple(r for r in quick.results if r.study != left)), 99)
    assert set(found) < set(WHOLE.splitlines()) and 8 <= len(found) <= 10


def test_unknown_rows_make_no_number(quick: Run) -> None:
    unknown = tuple(replace(r, value=None, value_reason="broken", repeats=0, spread=None)
                    for r in quick.results)
    assert [line.split()[0] for line in learnt(replace(quick, results=unknown), 99)] == [
        "gpu", "Which", "What"]


def test_a_comparison_with_peers(quick: Run) -> None:
    name = "handtorch is so many times as fast"
    ratios = [row("bench", name, f"case {i}", 1.0 + i, place="cpu") for i in range(3)]
    assert learnt(replace(quick, results=tuple(ratios)))[1] == (
        "HandTorch is 1 to 3 times as fast as cpu (median 2), 3 cases.")
    busy = Verdict(study="bench", question="?", answer="Perhaps.", holds=None,
                   holds_reason="other programs used 23% of the machine meanwhile")
    told = learnt(replace(quick, results=tuple(ratios), verdicts=(busy,)))
    assert [line.split()[0] for line in told] == ["gpu", "Other"]


def test_an_empty_run_teaches_nothing(info: RunInfo) -> None:
    assert learnt(Run(info=info)) == ()


def test_the_page_says_the_same_and_marks_what_no_study_judged(quick: Run) -> None:
    page = render(quick)
    assert all(f"<li>{esc(line)}</li>" in page for line in learnt(quick))
    assert "no speed is judged by it" not in page
    spoilt = replace(quick, verdicts=(Verdict(
        study="rnn", question="?", answer="Perhaps.", holds=None,
        holds_reason=findings.doubt_of(0.12)),))
    assert render(spoilt).count("Other programs used 12 % of this machine's cores while this was "
                                "timed: no speed is judged by it") == 1
