"""Checkpoints: bit for bit the same losses after, and refusals that change nothing."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import handtorch as ht
from handtorch.errors import BadFile, BadInput, HandTorchError, StorageError
from handtorch.knobs import environment_for_child
from handtorch.store.tensors import read_tensors, write_tensors
from tests.api.resuming import Run, X, Y, model
from tests.capture.user_steps import said

pytestmark = pytest.mark.spread

ROOT = Path(__file__).resolve().parents[2]


def resumes_bit_for_bit(at: str, path: Path) -> None:
    run = Run(at)
    run.train(0, 5)
    run.save(path)
    want = [5, *(loss.hex() for loss in run.train(5, 10))]
    made = subprocess.run([sys.executable, "-m", "tests.api.resuming", str(path), at], check=True,
                          cwd=ROOT, env=environment_for_child(), capture_output=True, text=True)
    assert json.loads(made.stdout) == want


def test_another_process_resumes_with_the_same_losses(opencl_device: Any, tmp_path: Path) -> None:
    resumes_bit_for_bit(opencl_device.label, tmp_path / "run.safetensors")


def test_another_process_resumes_with_the_same_losses_on_ref(tmp_path: Path) -> None:
    resumes_bit_for_bit("ref", tmp_path / "run.safetensors")


def test_a_checkpoint_goes_from_device_to_device(opencl_device: Any, tmp_path: Path) -> None:
    """The losses agree as those of two devices do."""
    run, path = Run(opencl_device.label), tmp_path / "c"
    run.train(0, 5)
    run.save(path)
    after = Run("ref", seed=99).load(path)
    np.testing.assert_allclose(after.train(5, 8), run.train(5, 8), rtol=1e-4)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    run, path = Run("ref"), tmp_path_factory.mktemp("kept") / "c"
    run.train(0, 3)
    run.save(path)
    return run, path


def test_what_a_checkpoint_tells(trained: tuple[Run, Path]) -> None:
    _, path = trained
    arrays, notes = read_tensors(path, sealed=True)
    assert notes["format"] == "handtorch checkpoint" and notes["format_version"] == "1"
    assert notes["made_by"].startswith("handtorch") and notes["steps"] == "3"
    assert notes["graph.inputs"] == "x f32[8, 3, 6, 6], y i32[8]"
    assert json.loads(notes["user.schedule"])["last_epoch"] == 3
    assert arrays["handtorch.steps"] == 3 and arrays["0.weight"].shape == (4, 3, 3, 3)
    assert arrays["optimizer.0.lr"].dtype == np.float64
    assert ht.read_checkpoint(path).keys() == arrays.keys()


def test_the_same_state_gives_the_same_bytes(trained: tuple[Run, Path], tmp_path: Path) -> None:
    again = Run("ref", seed=5).load(trained[1])
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == trained[1].read_bytes()


def test_steps_are_counted_on_and_the_loss_says_so(trained: tuple[Run, Path]) -> None:
    run = Run("ref", seed=9).load(trained[1])
    assert run.step.steps == 3
    bad = X[3].copy()
    bad[0] = np.nan
    with pytest.raises(HandTorchError, match="loss of step 4 is nan"):
        float(run.step(bad, Y[3]))
    run.load(trained[1])
    assert run.step.steps == 3 and run.step.resident.counters.steps == 1
    with pytest.raises(HandTorchError, match="loss of step 4 is nan: no finite one was read"):
        float(run.step(bad, Y[3]))


def test_the_torch_optimizer_gets_the_rate_to_the_last_bit(trained: tuple[Run, Path]) -> None:
    run = Run("ref", seed=9)
    run.step.load_checkpoint(trained[1])
    rate = run.optimizer.param_groups[0]["lr"]
    assert rate == trained[0].optimizer.param_groups[0]["lr"] == 0.02 * 0.9 * 0.9 * 0.9
    assert rate != float(np.float32(rate))


def test_lines_of_the_users_file_may_move(trained: tuple[Run, Path]) -> None:
    """The graph is the same wherever its code stands."""
    run = Run("ref")
    graph = run.step._captured.graph
    moved = dataclasses.replace(graph, nodes=tuple(
        dataclasses.replace(n, where=None, layer="") for n in graph.nodes))
    run.step._captured = dataclasses.replace(run.step._captured, graph=moved)
    run.load(trained[1])


def others() -> dict[str, tuple[nn.Sequential, int, str]]:
    wider, deeper, drier, kept = model(), model(), model(), model()
    wider[0], wider[1], wider[5] = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Linear(96, 5)
    deeper.append(nn.Linear(5, 5))
    drier[4] = nn.Dropout(0.2)
    kept[2] = nn.Tanh()
    without = nn.Sequential(*list(model().children())[:1], nn.ReLU(), nn.ReLU(),
                            *list(model().children())[3:])
    return {
        "shape": (wider, 8, "its 0.weight is [4, 3, 3, 3], and [6, 3, 3, 3] here"),
        "more": (deeper, 8, "it has no 6.weight, which is [5, 5] here"),
        "fewer": (without, 8, "it has 1.bias, and the step here has nothing of that name"),
        "batch": (model(), 4, "a batch was x f32[8, 3, 6, 6], y i32[8], and is x f32[4, 3, 6, 6], "
                              "y i32[4] here"),
        "setting": (drier, 8, "its operations are others, or have other settings: a rate of "
                              "dropout, a momentum, an order"),
    }


@pytest.mark.parametrize("kind", ["shape", "more", "fewer", "batch", "setting"])
def test_a_checkpoint_of_another_graph_is_refused(trained: tuple[Run, Path], kind: str) -> None:
    net, rows, why = others()[kind]
    run = Run("ref", net=net, rows=rows)
    before = run.step.state_dict()
    with pytest.raises(BadInput) as e:
        run.step.load_checkpoint(trained[1])
    assert said(e) == (
        f"{trained[1]} is a checkpoint of another step: {why}\n"
        "  from test_checkpoint.py  run.step.load_checkpoint(trained[1])\n"
        "  try: make the step as it was made then; or, to go on with this one, "
        "step.load_state_dict(ht.read_checkpoint(path))")
    unchanged(run, before)
    if kind == "batch":                          # what the message says works
        run.step.load_state_dict(ht.read_checkpoint(trained[1]))
        assert run.step.steps == 3


class Shifted(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        self.by, self.fc = by, nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) + torch.tensor([self.by, 1.0, 2.0])


def test_other_constants_are_another_graph(tmp_path: Path) -> None:
    steps = []
    for by in (0.0, 5.0):
        net = Shifted(by)
        steps.append(ht.train_step(net, nn.CrossEntropyLoss(),
                                   torch.optim.SGD(net.parameters(), 0.1), device="ref",
                                   example=(np.zeros((2, 4), "f4"), np.zeros(2, "i8"))))
    steps[0].save_checkpoint(tmp_path / "c")
    steps[0].load_checkpoint(tmp_path / "c")
    with pytest.raises(BadInput, match="numbers that are fixed in the step were others"):
        steps[1].load_checkpoint(tmp_path / "c")


def test_a_step_from_a_file_takes_the_checkpoint_of_the_one_from_torch(tmp_path: Path) -> None:
    """And the other way round: the graph is the same, constants included."""
    net, x, y = Shifted(1.0), X[0, :, 0, 0, :4], Y[0] % 3
    step = ht.train_step(net, nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters(), 0.1),
                         example=(x, y), device="ref")
    step.save(tmp_path / "base.ht")
    step(x, y)
    step.save_checkpoint(tmp_path / "c")
    want = [float(step(x, y)) for _ in range(3)]
    loaded = ht.load(tmp_path / "base.ht", "ref")
    loaded.load_checkpoint(tmp_path / "c")
    assert [float(loaded(x, y)) for _ in range(3)] == want
    loaded.load_checkpoint(tmp_path / "c")
    loaded.save_checkpoint(tmp_path / "d")
    step.load_checkpoint(tmp_path / "d")
    assert [float(step(x, y)) for _ in range(3)] == want


def unchanged(run: Run, before: dict[str, Any]) -> None:
    for name, array in run.step.state_dict().items():
        assert array.tobytes() == before[name].tobytes(), name


def test_a_file_that_was_cut_or_changed_is_refused(trained: tuple[Run, Path], tmp_path: Path
                                                   ) -> None:
    run, data = Run("ref"), trained[1].read_bytes()
    before, path = run.step.state_dict(), tmp_path / "c"
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(data), 60):
        changed = bytearray(data)
        changed[at] ^= 1 << int(rng.integers(8))
        for bad in (data[:at], bytes(changed), data + b"x"):
            path.write_bytes(bad)
            if bytes(bad).rstrip() == data.rstrip():
                continue
            with pytest.raises(StorageError):
                run.step.load_checkpoint(path)
    unchanged(run, before)


def test_other_files_are_refused(trained: tuple[Run, Path], tmp_path: Path) -> None:
    run, path = Run("ref"), tmp_path / "c"
    arrays, notes = read_tensors(trained[1])
    write_tensors(path, arrays, {})
    with pytest.raises(BadFile) as e:
        run.step.load_checkpoint(path)
    assert said(e).splitlines()[0] == (
        f"{path} is no checkpoint: its notes do not say 'handtorch checkpoint'")
    write_tensors(path, arrays, {**notes, "format_version": "2", "made_by": "handtorch 9"})
    with pytest.raises(BadFile) as e:
        run.step.load_checkpoint(path)
    head, _, fix = said(e).splitlines()
    assert head.startswith(f"{path} is a checkpoint of version '2': this program, handtorch")
    assert head.endswith("reads version 1; the file is by handtorch 9")
    assert fix == "  try: the program that wrote it, or a newer one"


def test_notes_are_texts(trained: tuple[Run, Path], tmp_path: Path) -> None:
    with pytest.raises(BadInput) as e:
        trained[0].step.save_checkpoint(tmp_path / "c", {"epoch": 3})
    assert said(e).splitlines()[0] == "the note 'epoch': 3: notes are texts by name"
    assert list(tmp_path.iterdir()) == []


def test_an_epoch_goes_on_in_the_middle(tmp_path: Path) -> None:
    x, y = X.reshape(80, 3, 6, 6), Y.reshape(80)
    want = Run("ref")
    losses = [float(loss) for loss in want.step.epoch(x, y, seed=3)]
    first = Run("ref")
    for loss, _ in zip(first.step.epoch(x, y, seed=3), range(4), strict=False):
        float(loss)
    # zip asked for a fifth before it saw the end of the range
    first.step.save_checkpoint(tmp_path / "c", {"batch": str(first.step.steps)})
    after = Run("ref", seed=9)
    start = int(after.step.load_checkpoint(tmp_path / "c")["batch"])
    assert start == 5
    assert [float(loss) for loss in after.step.epoch(x, y, seed=3, start=start)] == losses[5:]


def test_checkpoints_while_training(tmp_path: Path) -> None:
    run, path, seen = Run("ref"), tmp_path / "c", []
    before = signal.getsignal(signal.SIGTERM)
    with run.step.checkpointing(path, every=3, notes=lambda: {"at": str(run.step.steps)}):
        for i in range(8):
            run.step(X[i], Y[i])
            seen.append(int(read_tensors(path)[1]["user.at"]) if path.exists() else 0)
    assert seen == [0, 0, 0, 3, 3, 3, 6, 6]
    assert read_tensors(path)[1]["steps"] == "8"
    assert signal.getsignal(signal.SIGTERM) is before
    run.step(X[8], Y[8])
    assert read_tensors(path)[1]["steps"] == "8"


@pytest.mark.parametrize(("number", "ends"), [(signal.SIGTERM, SystemExit),
                                              (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_leaves_a_checkpoint(tmp_path: Path, number: int, ends: type[BaseException],
                                      request: pytest.FixtureRequest) -> None:
    run, path = Run("ref"), tmp_path / "c"
    if number == signal.SIGINT:         # a shell's background has it ignored
        request.addfinalizer(partial(signal.signal, number, signal.getsignal(number)))
        signal.signal(number, signal.default_int_handler)

    def train() -> None:
        with run.step.checkpointing(path, every=100):
            for i in range(9):
                run.step(X[i], Y[i])
                if i == 4:
                    os.kill(os.getpid(), number)

    with pytest.raises(ends) as e:
        train()
    if isinstance(e.value, SystemExit):
        assert e.value.code == 143
    assert read_tensors(path)[1]["steps"] == "5"


def test_an_error_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    run, path = Run("ref"), tmp_path / "c"
    bad = X[0] * np.nan
    with pytest.raises(HandTorchError, match="is nan"), run.step.checkpointing(path, every=2):
        for batch in (X[0], X[1], bad):
            float(run.step(batch, Y[0]))
    assert read_tensors(path)[1]["steps"] == "2"


def test_every_is_a_number_of_steps(trained: tuple[Run, Path], tmp_path: Path) -> None:
    for every in (0, -1, 1.5):
        with pytest.raises(BadInput, match="it is a number of steps"), \
                trained[0].step.checkpointing(tmp_path / "c", every=every):
            pass
