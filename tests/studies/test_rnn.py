"""The study `rnn`: a tiny real run on every device, and its refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from handtorch.baseline.fair import Plan
from handtorch.errors import KernelError
from handtorch.record import Run, RunWriter, read_run
from handtorch.report import render
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.studies import rnn
from handtorch.studies.rnn import check_agreement, drawn, judge_learned, judge_scores, nets
from handtorch.studies.rnn_findings import COARSE_RATIO, FINE_RATIO, MULTI_RATIO, OURS_RATIO
from handtorch.studies.rnn_learning import Learned
from handtorch.studies.rnn_strategies import A1, TITLES, C, D, E, Strategy
from handtorch.studies.study import HOST, Setting, record_setting
from handtorch.zoo.har_data import Windows, generated_windows

pytestmark = pytest.mark.spread


def run_on(device: FoundDevice, path: Path) -> tuple[str, Run]:
    with RunWriter.create(path, "test") as record:
        record_setting(record, device)
        text = rnn.run(Setting(device, record, quick=True, progress=lambda _: None))
    return text, read_run(path)


def test_a_run_without_data(opencl_device: FoundDevice, tmp_path: Path,
                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_SHARED", str(tmp_path))
    monkeypatch.setattr(rnn, "QUICK_NETS", ((1, 8), (2, 32)))
    monkeypatch.setattr(rnn, "QUICK", Plan(rounds=2, block_s=0.001))
    monkeypatch.setattr(rnn, "PARTS", (rnn.timing, rnn.recognition))    # loads: test_rnn_load.py
    text, run = run_on(opencl_device, tmp_path / "run.htr")
    times = {(r.name, r.subject, r.x_value) for r in run.results
             if r.name.startswith("time of a window")}
    assert times == {("time of a window, 2 layers", title, 32) for title in TITLES.values()} | {
        ("time of a window, 1 layer", title, 8) for title in (TITLES[k] for k in rnn.SWEPT)}
    for r in run.results:
        assert r.value is not None and r.provenance == "measured"
        assert (r.place == HOST) == (r.subject in [TITLES[k] for k in ("a1", "a2", "b2")])
    for name in (FINE_RATIO, COARSE_RATIO, MULTI_RATIO):
        (ratio,) = [r for r in run.results if r.name == name]
        assert [p for p in run.published if p.name == name], name
        assert ratio.repeats == 2
    assert len([r for r in run.results if r.name == OURS_RATIO]) == 2
    launches = {r.subject: r.value for r in run.results if r.name == "launches per cell"}
    assert launches["fine units"] == pytest.approx(17 + 3 / 256)
    assert launches["coarse units, 12 x 10"] == pytest.approx(260 / 256)
    assert [v.question for v in run.verdicts] == [rnn.QUESTION, rnn.OURS_QUESTION, rnn.SAME]
    assert run.verdicts[2].holds is None
    assert "rnn, on generated windows" in text
    assert all(v.answer in text for v in run.verdicts)
    assert COARSE_RATIO in render(run)


@pytest.mark.slow
def test_the_authors_network(shared: Path, opencl_device: FoundDevice, tmp_path: Path,
                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_SHARED", str(shared))
    monkeypatch.setattr(rnn, "PARTS", (rnn.recognition, rnn.learning))
    text, run = run_on(opencl_device, tmp_path / "run.htr")
    (verdict,) = run.verdicts
    assert verdict.holds is True and verdict.answer in text
    assert verdict.answer.startswith("All 8 strategies give the same class for 100 of the "
                                     "authors' windows, ")
    shares = {r.subject: r.value for r in run.results}
    assert set(shares) == {title for key, title in TITLES.items() if key != C}
    assert len(set(shares.values())) == 1 and min(shares.values()) > 90


class Fixed:
    """Scores that are always the same."""

    def __init__(self, *scores: float) -> None:
        self._scores = np.array([scores], "f4")

    def scores(self, windows: object) -> object:
        return self._scores

    def close(self) -> None: ...


def test_a_strategy_with_other_scores_is_not_timed() -> None:
    right, wrong = Strategy(A1, Fixed(1, -2)), Strategy(E, Fixed(1, -2.0001))
    check_agreement("2 x 32", {A1: right, D: right}, np.zeros(1))
    with pytest.raises(KernelError) as refused:
        check_agreement("2 x 32", {A1: right, E: wrong}, np.zeros(1))
    assert str(refused.value) == (
        "rnn: 2 x 32, ours: a score differs from that of NumPy, one thread by 5e-05 of the "
        "largest, allowed is 1e-05\n  try: `handtorch devices` runs the device's self-test")


def test_other_classes_are_told_of() -> None:
    windows = Windows("windows", np.zeros((2, 1, 1)), np.array([0, 1]))
    same = np.array([[1.0, 0.0], [1.0, 0.0]])
    verdict = judge_scores({A1: same, E: np.array([[1.0, 0.0], [0.0, 1.0]])}, windows)
    assert verdict.holds is False
    assert verdict.answer == ("Classes differ from those of NumPy, one thread: ours in 1 for 2 of "
                              "windows, 50.0% of them the right one; scores differ by 1 of the "
                              "largest at most.")


def test_learning_that_was_cut_short_is_not_judged() -> None:
    cut = judge_learned(Learned("r", 0, (0.5,), 16, 240.0))
    assert (cut.holds, cut.holds_reason) == (None, "240 s were over after 1 of 16 epochs")
    assert judge_learned(Learned("r", 0, (0.5, 0.6), 2, 9.0)).holds is False
    assert judge_learned(Learned("r", 0, (0.5, 0.91), 16, 240.0)).holds is True


def test_the_sweep_is_the_papers_and_windows_are_drawn_once() -> None:
    assert nets(False) == [(n, h) for n in (1, 2, 3) for h in (32, 64, 128, 256)]
    assert set(nets(True)) < set(nets(False))
    windows = generated_windows(20)
    some = drawn(windows, 7)
    assert (len(some.y), len({x.tobytes() for x in some.x})) == (7, 7)
    np.testing.assert_array_equal(some.x, drawn(windows, 7).x)
