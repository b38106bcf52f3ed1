"""`handtorch tune` on real devices, with few and small candidates."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest

from handtorch import selftest
from handtorch.cli import main as cli
from handtorch.cli import tune as command
from handtorch.graph.device_spec import DeviceSpec
from handtorch.kernels.catalog import all_cases
from handtorch.kernels.gemm_tiles import Product, table_variant
from handtorch.kernels.variant import FORMS, Variant, as_built, as_variant, built_by
from handtorch.pipeline import tuned_file, with_tuned
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.tune import search
from handtorch.tune.families import usual_problems
from handtorch.tune.search import Progress
from handtorch.tune.store import Results, Trial

pytestmark = pytest.mark.spread

ROOT = Path(__file__).resolve().parents[2]
SHAPES = "16x16x16,8x16x24 nt"
PRODUCTS = (Product(16, 16, 16), Product(8, 16, 24, tb=True))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The table's choice and one more are all there is; the cache is empty."""
    def two(product: Product, spec: DeviceSpec, *, full: bool) -> tuple[Variant, ...]:
        return (table_variant(product, spec), as_variant("packed KU1 NV1 R4 V4 WGX1 WGY1"))
    monkeypatch.setattr(search, "candidates", two)
    monkeypatch.setenv("HANDTORCH_CACHE", str(tmp_path / "cache"))


def call(device: FoundDevice, *argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(["tune", "--device", device.label, *argv], out, err)
    return code, out.getvalue(), err.getvalue()


def test_tune_export_and_import(opencl_device: FoundDevice, tmp_path: Path,
                                capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(opencl_device, "--shapes", SHAPES, "--json")
    record = json.loads(out)
    assert code == 0 and record["finished"] and record["device"] == opencl_device.label
    assert [r["problem"] for r in record["problems"]] == ["16x16x16 nn", "8x16x24 nt"]
    assert all(r["time_ns"] > 0 and r["table_time_ns"] > 0 for r in record["problems"])
    assert capsys.readouterr().err == (
        "0/4 tried, 16x16x16 nn\n2/4 tried, 16x16x16 nn\n"
        "2/4 tried, 8x16x24 nt\n4/4 tried, 8x16x24 nt\n")
    kept = Results.open(tuned_file(opencl_device.spec), opencl_device.spec)
    assert set(kept.best) == set(PRODUCTS) and record["file"] == str(kept.path)

    file = tmp_path / "results.json"
    assert call(opencl_device, "--export", str(file)) == (0, f"{file}: 2 shapes\n", "")
    assert file.read_bytes() == kept.path.read_bytes()
    kept.path.unlink()
    code, out, _ = call(opencl_device, "--import", str(file))
    assert code == 0
    assert "16x16x16 nn" in out and out.endswith(f"results in {kept.path}\n")
    again = Results.open(kept.path, opencl_device.spec)
    assert again.best == kept.best
    assert {t.rounds for t in again.trials.values()} == {1}         # tried here, not believed


def test_an_import_that_fails_here_is_not_taken_over(opencl_device: FoundDevice, tmp_path: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = Results(tmp_path / "theirs.json", opencl_device.spec)
    theirs.choose(PRODUCTS[0], as_variant("packed KU1 NV1 R4 V4 WGX1 WGY1"))
    theirs.save()
    monkeypatch.setattr("handtorch.tune.trial.Worker.attempt",
                        lambda *_, **__: Trial("wrong", "off by 9 times the tolerance"))
    code, out, _ = call(opencl_device, "--import", str(theirs.path))
    assert code == cli.EXIT_NOT_DONE
    assert "failed: 16x16x16 nn packed KU1 NV1 R4 V4 WGX1 WGY1: wrong: off by 9" in out
    assert out.endswith("not taken over: 16x16x16 nn\n")
    assert not Results.open(tuned_file(opencl_device.spec), opencl_device.spec).best


def test_a_foreign_file_is_refused_whole(opencl_device: FoundDevice, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[1, 2]")
    code, out, err = call(opencl_device, "--import", str(tmp_path / "x.json"))
    assert (code, out) == (2, "")
    assert err == (f"handtorch: {tmp_path}/x.json: these are no tuned results of handtorch\n"
                   "  try: a file that `handtorch tune --export FILE` wrote\n")
    assert not tuned_file(opencl_device.spec).exists()


def test_there_must_be_something_to_export(opencl_device: FoundDevice, tmp_path: Path) -> None:
    assert call(opencl_device, "--export", str(tmp_path / "x")) == (2, "", (
        "handtorch: nothing to export: nothing was tuned on this device and driver yet\n"
        "  try: `handtorch tune`\n"))
    results = Results(tuned_file(opencl_device.spec), opencl_device.spec)
    results.choose(PRODUCTS[0], as_variant("packed KU1 NV1 R4 V4 WGX1 WGY1"))
    results.save()
    assert call(opencl_device, "--export", "/dev/null/y/x") == (2, "", (
        "handtorch: /dev/null/y/x cannot be written: Not a directory\n"))


def test_a_damaged_cache_is_an_error_until_fresh(opencl_device: FoundDevice) -> None:
    path = tuned_file(opencl_device.spec)
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert call(opencl_device, "--shapes", SHAPES) == (2, "", (
        f"handtorch: tuned results {path}: it is cut short or no JSON at all\n"
        "  try: export it again, or `handtorch tune --fresh` here\n"))
    assert call(opencl_device, "--shapes", "16x16x16", "--fresh")[0] == 0
    assert Results.open(path, opencl_device.spec).best


def test_the_time_limit_is_said_and_is_no_error(opencl_device: FoundDevice) -> None:
    code, out, _ = call(opencl_device, "--shapes", "16x16x16", "--time", "0.001s")
    assert code == 0
    assert out.splitlines()[1].split() == ["16x16x16", "nn", "0", "-", "-", "-", "not", "done"]
    assert out.endswith("stopped after 0.001s; the same command goes on from there\n")
    code, out, _ = call(opencl_device, "--shapes", "16x16x16", "--time", "0.001s", "--json")
    assert json.loads(out)["finished"] is False


@pytest.mark.parametrize(("text", "seconds"), [
    (None, None), ("60s", 60.0), ("90", 90.0), ("5m", 300.0), ("1.5h", 5400.0)])
def test_spans_of_time(text: str | None, seconds: float | None) -> None:
    assert command._seconds(text) == seconds


@pytest.mark.parametrize(("argv", "said"), [
    (("--time", "soon"), "--time soon: it is not a span of time\n  try: 60s, 5m or 2h\n"),
    (("--time", "0s"), "--time 0s: it is not a span of time\n  try: 60s, 5m or 2h\n"),
    (("--shapes", "4x4"), "shape '4x4': it is no product, no batch of products and no "
                          "convolution\n  try: 32x256x784 nt, bmm 8x32x64x16 nt or "
                          "conv 16x32x32x64 128 3x3 p1x1\n"),
    (("Model4", "--batch", "0"),
     "--batch 0: a batch has one row or more\n"),
])
def test_a_bad_request_is_refused(opencl_device: FoundDevice, argv: tuple[str, ...],
                                  said: str) -> None:
    assert call(opencl_device, *argv) == (2, "", f"handtorch: {said}")


def test_a_model_that_is_not_in_the_zoo(opencl_device: FoundDevice) -> None:
    code, _, err = call(opencl_device, "Nonesuch")
    assert code == 2
    assert err.startswith("handtorch: no model 'Nonesuch' in the zoo: there is ")
    assert err.endswith("\n  try: handtorch tune ResNet50\n")


def test_a_model_needs_torch(opencl_device: FoundDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "handtorch.zoo.registry", None)
    code, out, err = call(opencl_device, "Model4")
    assert (code, out) == (2, "")
    assert err.startswith("handtorch: tune Model4: the zoo needs torch (import of ")
    assert err.endswith("\n  try: pip install handtorch[torch]; or FILE.ht; or --shapes\n")


def problems(*argv: str) -> list[str]:
    parser = ArgumentParser()
    command.add_args(parser)
    return [str(p) for p in command._of_model(parser.parse_args(argv))]


def test_all_of_a_models_training_step_is_tuned_the_most_work_first() -> None:
    found = problems("Model4")
    assert set(found) == {"32x256x784 nt", "32x128x256 nt", "32x16x128 nt", "32x128x16 nn",
                          "32x256x128 nn", "16x128x32 tn", "128x256x32 tn", "256x784x32 tn"}
    assert found[0] in ("32x256x784 nt", "256x784x32 tn") and "16x128x32" not in found[0]


def test_all_passes_of_a_models_convolutions_are_found() -> None:
    found = problems("DCGAN", "--batch", "2")
    assert {f"{op} 2x16x16x64 128 4x4 s2x2 p1x1" for op in (
        "conv", "conv_grad_input", "conv_grad_weight")} <= set(found)
    assert len(found) == len(set(found))


def test_a_saved_step_is_tuned_without_torch(tmp_path: Path, opencl_device: FoundDevice) -> None:
    from torch import int64, nn, optim, randn, zeros

    import handtorch as ht
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Flatten(), nn.Linear(128, 5))
    example = randn(2, 3, 4, 4), zeros(2, dtype=int64)
    step = ht.train_step(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.1),
                         example=example, device=opencl_device.label)
    step.save(tmp_path / "a.ht")
    assert {"conv 2x4x4x3 8 3x3 p1x1", "conv_grad_weight 2x4x4x3 8 3x3 p1x1", "2x5x128 nt"} <= set(
        problems(str(tmp_path / "a.ht")))


@pytest.mark.parametrize("kernel", ["gemm_dot", "conv_tile", "conv_weight", "depthwise", "bmm"])
def test_what_the_self_test_found_wrong_is_never_chosen(
        opencl_device: FoundDevice, monkeypatch: pytest.MonkeyPatch, kernel: str) -> None:
    case = next(c for c in all_cases() if any(s.kernel == kernel for s in c.steps))
    wrong = selftest.SelfTest("failed", (f"{case.name}: off by 3 times the tolerance",), 9)
    monkeypatch.setattr(selftest, "verdict", lambda *_, **__: wrong)
    step = next(s for s in case.steps if s.kernel == kernel)
    barred = command._failed_self_test(opencl_device)
    assert barred and set(built_by(step)) <= set(barred)
    monkeypatch.setattr(command, "_tune", lambda *_: 0)
    assert call(opencl_device, "--shapes", "16x16x16")[0] == 0
    kept = Results.open(tuned_file(opencl_device.spec), opencl_device.spec)
    assert set(kept.spec.avoid) == set(barred)
    with_avoid = with_tuned(opencl_device.spec)
    chosen = {p.table_variant(with_avoid).built for p in usual_problems()}
    assert not chosen & set(barred)


def test_every_case_of_a_kernel_with_variants_can_be_barred() -> None:
    for case in all_cases():
        for step in case.steps:
            for built in built_by(step):
                assert as_built(built) == built
    found = {b.split()[0] for c in all_cases() for s in c.steps for b in built_by(s)}
    assert found == set(FORMS)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_is_drawn_over_itself_on_a_terminal() -> None:
    err = Terminal()
    bar = command._Bar(err)
    bar(Progress(0, 4, PRODUCTS[0]))
    bar(Progress(1, 4, PRODUCTS[0], as_variant("dot R1 V4 WGX1 WGY1"), Trial("right", "", (3,))))
    bar.end()
    first, second = err.getvalue().split("\r")[1:]
    assert first.startswith("[                        ] 0/4 16x16x16 nn ")
    assert second.startswith("[######                  ] 1/4 16x16x16 nn dot R1 V4 WGX1 WGY1 right")
    assert second.endswith("\n") and len(first.rstrip("\n")) == len(second.rstrip("\n"))


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopped_and_then_the_rest(opencl_device: FoundDevice, tmp_path: Path,
                                   how: signal.Signals) -> None:
    """The command itself in a process of its own, all candidates, interrupted in the middle."""
    argv = [sys.executable, "-m", "handtorch", "tune", "--device", opencl_device.label,
            "--shapes", "conv 2x4x4x8 16 3x3 p1x1,16x32x16 nt", "--json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    pipe = subprocess.PIPE
    path = tuned_file(opencl_device.spec)
    first = subprocess.Popen(argv, env=env, stdout=pipe, stderr=pipe, text=True)
    for _ in range(3000):
        if path.exists() and len(_trials(path)) >= 3:
            break
        time.sleep(0.1)
    first.send_signal(how)
    out, err = first.communicate(timeout=300)
    kept = _trials(path)
    assert len(kept) >= 3 and out == ""
    if how == signal.SIGINT:
        assert first.returncode == cli.EXIT_INTERRUPTED
        assert err.endswith(f"what was found so far is in {path}; the same command goes on from "
                            "there\nhandtorch: interrupted\n")
        assert json.loads(path.read_text())["running"] is None
    else:
        assert first.returncode == -signal.SIGKILL
    second = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=1200)
    record = json.loads(second.stdout)
    assert second.returncode == 0 and record["finished"] and not record["failed"]
    assert all(r["tried"] >= 12 for r in record["problems"])
    assert {(t["problem"], t["variant"]) for t in kept} <= {
        (t["problem"], t["variant"]) for t in _trials(path)}


def _trials(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["trials"]
    return found
