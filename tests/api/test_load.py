"""A step saved and loaded goes on as if nothing had happened; a file needs no torch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import handtorch as ht
from handtorch import knobs
from handtorch.api.keep import SavedWithout
from handtorch.api.load import load_inference
from handtorch.errors import BadFile, BadInput, OutOfMemory, StorageError
from handtorch.graph.node import Graph, Node, Port, Value
from handtorch.graph.ties import Home, Outputs
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.store.ht_file import HtFile, Micro, Part, read_ht, write_ht
from tests.api import test_budget as budgets
from tests.api.test_parts import ENTROPY, FLAT, LABELS, ROWS, TEXT, Language, mlp

pytestmark = pytest.mark.spread


class Net(torch.nn.Module):
    """With a buffer, dropout and a constant: all kinds of state but one."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm = torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.dropout(self.norm(self.fc(x)), 0.3, self.training)
        return y * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0] if self.training else [1.0] * 5)


def batch(seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(8, 6)).astype("f4"), rng.integers(0, 5, 8)


def made(device: str = "ref", **more: Any) -> tuple[ht.TrainStep, Net, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.Adam([{"params": model.fc.parameters()},
                                  {"params": model.norm.parameters(), "lr": 0.02}], lr=0.01)
    step = ht.train_step(model, torch.nn.CrossEntropyLoss(), optimizer, example=batch(),
                         device=device, seed=3, **more)
    return step, model, optimizer


def losses(step: Any, first: int, count: int) -> list[float]:
    return [float(step(*batch(i))) for i in range(first, first + count)]


def check_resumes(device: str, path: Path) -> None:
    step, model, optimizer = made(device)
    losses(step, 0, 3)
    step.save(path)
    want = losses(step, 3, 4)
    again = ht.load(path, device)
    assert isinstance(again, ht.TrainStep)
    assert again.steps == 3
    assert again.program.hash == step.program.hash
    assert losses(again, 3, 4) == want, "bit for bit"
    x = batch(9)[0]
    np.testing.assert_array_equal(again.inference()(x), step.inference()(x))
    again.sync_to(model, optimizer)
    twin, other, twin_optimizer = made(device)
    losses(twin, 0, 7)
    twin.sync_to(other, twin_optimizer)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(optimizer.state[p]["exp_avg"], twin_optimizer.state[q]["exp_avg"])


def test_a_loaded_step_goes_on_bit_for_bit_on_ref(tmp_path: Path) -> None:
    check_resumes("ref", tmp_path / "a.ht")


def test_a_loaded_step_goes_on_bit_for_bit(opencl_device: FoundDevice, tmp_path: Path) -> None:
    check_resumes(opencl_device.label, tmp_path / "a.ht")


def test_a_file_of_one_device_goes_on_on_another(opencl_device: FoundDevice, tmp_path: Path
                                                 ) -> None:
    step, _, _ = made("ref")
    losses(step, 0, 3)
    step.save(tmp_path / "a.ht")
    there = ht.load(tmp_path / "a.ht", opencl_device.label)
    np.testing.assert_allclose(losses(there, 3, 4), losses(step, 3, 4), rtol=1e-4)


def test_inference_is_that_of_the_model_in_eval_mode(tmp_path: Path) -> None:
    step, model, _ = made()
    losses(step, 0, 3)
    step.sync_to(model)
    step.save(tmp_path / "a.ht")
    x = batch(9)[0]
    want = model.eval()(torch.from_numpy(x)).detach().numpy()
    found = load_inference(tmp_path / "a.ht", "ref")
    np.testing.assert_allclose(found(x), want, rtol=1e-5, atol=1e-6)
    found.save(tmp_path / "b.ht")
    alone = ht.load(tmp_path / "b.ht", "ref")
    assert isinstance(alone, ht.Inference)
    np.testing.assert_array_equal(alone(x), found(x))


def test_rows_of_any_number_are_inferred() -> None:
    step, _, _ = made()
    model = step.inference()
    x = np.random.default_rng(0).normal(size=(19, 6)).astype("f4")
    (scores,) = model.over(x)
    assert scores.shape == (19, 5)
    np.testing.assert_array_equal(scores[:8], model(x[:8]))
    np.testing.assert_array_equal(scores[11:], model(x[11:]))
    with pytest.raises(BadInput) as caught:
        model.over(x[:0])
    assert caught.value.what == "arrays of shapes [0, 6]"
    assert caught.value.why == "the model takes x, as many rows of each, and at least one"


def test_rates_can_be_read_and_set_without_torch(tmp_path: Path) -> None:
    step, _, optimizer = made()
    optimizer.param_groups[0]["lr"] = 0.5            # not yet known to the device
    assert step.rates == (0.5, 0.02)
    step.save(tmp_path / "a.ht")
    again = ht.load(tmp_path / "a.ht", "ref")
    assert isinstance(again, ht.TrainStep)
    assert again.rates == pytest.approx((0.5, 0.02))
    again.set_rate(0.25, group=1)
    step.set_rate(0.25, group=1)
    assert optimizer.param_groups[1]["lr"] == 0.25
    assert again.rates == step.rates == (0.5, 0.25)
    assert losses(again, 0, 3) == losses(step, 0, 3)
    with pytest.raises(BadInput) as caught:
        again.set_rate(0.1, group=2)
    assert caught.value.what == "parameter group 2"
    assert caught.value.why == "the step has 2 of them, counted from 0"
    with pytest.raises(BadInput, match="the learning rate of group 0 is now nan"):
        again.set_rate(float("nan"))


def test_a_step_of_ones_own_has_no_inference(tmp_path: Path) -> None:
    model = torch.nn.Linear(6, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def own(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return {"loss": loss, "more": loss * 2}
    step = ht.train_step(own, models=[model], optimizers=[optimizer], example=batch(),
                         device="ref")
    with pytest.warns(SavedWithout, match="a.ht is saved without a graph for inference: this step"):
        step.save(tmp_path / "a.ht")
    again = ht.load(tmp_path / "a.ht", "ref")
    assert {k: float(v) for k, v in again(*batch()).items()} == {
        k: float(v) for k, v in step(*batch()).items()}
    with pytest.raises(BadInput, match="this step has no graph for inference"):
        again.inference()


def test_loading_and_training_needs_no_torch(tmp_path: Path) -> None:
    step, _, _ = made()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step.save(tmp_path / "a.ht")
    want = losses(step, 0, 2)
    code = f"""
import sys
sys.modules["torch"] = None
import numpy as np
import handtorch as ht
step = ht.load({str(tmp_path / "a.ht")!r}, "ref")
for seed in range(2):
    rng = np.random.default_rng(seed)
    print(float(step(rng.normal(size=(8, 6)).astype("f4"), rng.integers(0, 5, 8))))
print(step.inference()(rng.normal(size=(8, 6)).astype("f4")).shape)
step.explain(), repr(step), step.reseed(1), step.stage(), step.save({str(tmp_path / "b.ht")!r})
"""
    done = subprocess.run([sys.executable, "-c", code], env=knobs.environment_for_child(),
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *numbers, shape = done.stdout.splitlines()
    assert [float(n) for n in numbers] == want
    assert shape == "(8, 5)"
    assert read_ht(tmp_path / "b.ht").steps == 2


def greedy(count: int) -> Part:
    """So many values of 256 MiB, all alive together, in a file of a few kilobytes."""
    wide, nodes = (1 << 26,), []
    for i in range(count):
        nodes.append(Node("arange", (), (Value(i, wide, "i32"),),
                          {"count": wide[0], "start": 0, "step": 1}))
    for i in range(1, count):
        before = Value(count + i - 1 if i > 1 else 0, wide, "i32")
        nodes.append(Node("add", (before, Value(i, wide, "i32")),
                          (Value(count + i, wide, "i32"),)))
    last, out = nodes[-1].outputs[0], Value(2 * count, (1,), "i32")
    nodes.append(Node("slice", (last,), (out,), {"shape": (1,), "starts": (0,), "steps": (1,)}))
    return Part(Graph(tuple(nodes), (), (), (Port("out", out),)), Outputs("one", ("out",)))


def test_a_small_file_cannot_ask_for_all_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                ) -> None:
    monkeypatch.setattr(os, "sysconf", lambda _: 1 << 15)         # a computer with 1 GiB
    write_ht(tmp_path / "a.ht", HtFile(None, greedy(40), {}))
    assert (tmp_path / "a.ht").stat().st_size < 1 << 14
    with pytest.raises(OutOfMemory) as caught:
        ht.load(tmp_path / "a.ht", "ref")
    found = re.fullmatch(r".*a\.ht asks for (\d+) B of memory", caught.value.what)
    assert found is not None
    assert int(found[1]) > 2 << 30
    assert caught.value.why == "the device and this computer have 1073741824 B at most"


def test_nothing_is_written_that_cannot_be_read(tmp_path: Path) -> None:
    step, _, _ = made()
    step.save(tmp_path / "a.ht")
    before = (tmp_path / "a.ht").read_bytes()
    held = read_ht(tmp_path / "a.ht")
    wrong = HtFile(held.train, None, held.states, (Home("fc.weight", 0, "x", (), "SGD"),))
    with pytest.raises(StorageError) as caught:
        write_ht(tmp_path / "a.ht", wrong)
    assert caught.value.message() == (
        f"{tmp_path / 'a.ht'} was not written: nobody could read it: a home is that of "
        "'fc.weight', which is no optimizer's state\n"
        "  try: a smaller step; if this one is ordinary, it is our fault")
    assert (tmp_path / "a.ht").read_bytes() == before


@pytest.mark.parametrize("parts", [4, 8])       # of one row a part too: made from two graphs
def test_a_file_of_micro_batches_goes_on(opencl_device: Any, parts: int, tmp_path: Path) -> None:
    torch.manual_seed(5)
    model = Language(dropout=0.2)
    step = ht.train_step(model, ENTROPY, torch.optim.AdamW(model.parameters()),
                         example=(TEXT, TEXT), device=opencl_device.label, accumulate=parts)
    step(TEXT, TEXT)
    step.save(tmp_path / "a.ht")
    again = ht.load(tmp_path / "a.ht", opencl_device.label)
    assert isinstance(again, ht.TrainStep)
    assert again.steps == 1 and again.program.hash == step.program.hash
    assert [float(again(TEXT, TEXT)) for _ in range(3)] == [
        float(step(TEXT, TEXT)) for _ in range(3)]
    assert repr(again).startswith(f"{parts} micro-batches of {ROWS // parts} rows")
    np.testing.assert_array_equal(again.inference()(TEXT), step.inference()(TEXT))
    again.save(tmp_path / "b.ht")
    step.save(tmp_path / "a.ht")
    assert (tmp_path / "a.ht").read_bytes() == (tmp_path / "b.ht").read_bytes()
    step.save_checkpoint(tmp_path / "a.safetensors")
    again.load_checkpoint(tmp_path / "a.safetensors")


def test_a_file_whose_parts_are_not_those_of_its_batch_is_refused(tmp_path: Path) -> None:
    model, path = mlp(), tmp_path / "a.ht"
    ht.train_step(model, ENTROPY, torch.optim.SGD(model.parameters(), lr=0.1),
                  example=(FLAT, LABELS), device="ref", accumulate=4).save(path)
    held = read_ht(path)
    assert held.train is not None and held.micro is not None
    for parts, graph in ((2, held.micro.graph), (3, held.micro.graph), (4, held.train.graph)):
        write_ht(path, replace(held, micro=Micro(parts, graph)))
        with pytest.raises(BadFile, match=f"its micro-batches cannot be made: 8 rows in {parts} "
                                          "parts and a step of"):
            ht.load(path, "ref")


def check_budget(device: str, path: Path) -> None:
    """A budget at loading gives the whole step's bits; without a clock, the program that the same
    budget gives at making."""
    whole = budgets.made(device)
    whole.save(path)
    memory = budgets.half(whole)
    loaded = ht.load(path, device, memory=memory)
    assert isinstance(loaded, ht.TrainStep) and loaded.fitted is not None
    assert loaded.fitted.held_bytes <= memory < loaded.fitted.whole_bytes
    assert f"budget {memory:,} bytes: the step holds" in repr(loaded)
    ours, theirs = budgets.after_three(loaded), budgets.after_three(whole)
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected, err_msg=name)
    if device == "ref":
        assert loaded.program.hash == budgets.made(device, memory).program.hash
        roomy = ht.load(path, device, memory="1GiB")
        assert isinstance(roomy, ht.TrainStep) and roomy.program.hash == whole.program.hash


def test_a_budget_at_loading_gives_the_same_bits_on_ref(tmp_path: Path) -> None:
    check_budget("ref", tmp_path / "a.ht")


def test_a_budget_at_loading_gives_the_same_bits(opencl_device: FoundDevice, tmp_path: Path
                                                 ) -> None:
    check_budget(opencl_device.label, tmp_path / "a.ht")


def test_a_budget_that_a_file_cannot_keep_is_refused(tmp_path: Path) -> None:
    budgets.made("ref").save(tmp_path / "a.ht")
    with pytest.raises(OutOfMemory) as caught:
        ht.load(tmp_path / "a.ht", "ref", memory="50KB")
    assert caught.value.what == "a step within 50,000 bytes"
    assert re.fullmatch(r"it holds [\d,]+, and [\d,]+ with all made again that helps, of which "
                        r"[\d,]+ last between steps; alive at that peak: .*", caught.value.why)
    assert caught.value.fix == ("more memory, or a step saved with a smaller batch, or with more "
                                "micro-batches (accumulate=...), which takes torch")
    with pytest.raises(BadInput, match="memory='little': a budget is a number of bytes"):
        ht.load(tmp_path / "a.ht", "ref", memory="little")


def test_micro_batches_of_a_file_have_a_budget_too(tmp_path: Path) -> None:
    model, path = mlp(), tmp_path / "a.ht"
    ht.train_step(model, ENTROPY, torch.optim.SGD(model.parameters(), lr=0.1),
                  example=(FLAT, LABELS), device="ref", accumulate=4).save(path)
    plain, loaded = ht.load(path, "ref"), ht.load(path, "ref", memory="1MiB")
    assert isinstance(loaded, ht.TrainStep) and loaded.fitted is not None
    assert repr(loaded).startswith("4 micro-batches of 2 rows")
    assert [float(loaded(FLAT, LABELS)) for _ in range(3)] == [
        float(plain(FLAT, LABELS)) for _ in range(3)]
