"""Every model gets what it takes, from a path, from the shared folder, or generated and marked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from handtorch import knobs
from handtorch.errors import BadInput
from handtorch.runtime.opencl.borrow import settled_root
from handtorch.zoo.data import generated
from handtorch.zoo.data.feed import FEEDS, open_feed
from handtorch.zoo.entry import Entry
from handtorch.zoo.registry import MODELS
from tests.zoo.data.test_idx import write_mnist

FORMS = [pytest.param(e, form, id=f"{e.name}-{form}") for e in MODELS.values() for form in e.forms
         if e.name in FEEDS or e.name in ("DenseNet40_12", "ResNet50", "Xception")]


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generated data only, and not much of them."""
    monkeypatch.setenv("HANDTORCH_SHARED", "")
    monkeypatch.setattr(generated, "PICTURES", (400, 200))
    monkeypatch.setattr(generated, "SENTENCES", 40)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize(("entry", "form"), FORMS)
def test_the_shapes_are_those_the_model_takes(entry: Entry, form: str, small: bool) -> None:
    feed = entry.feed(2, form, small, path="generated")
    made, wanted = feed.batch(0), entry.batch(2, form, small)
    assert feed.source == "generated" and feed.data.generated
    assert [(torch.from_numpy(a.copy()).dtype, a.shape) for a in made] == [
        (b.dtype, tuple(b.shape)) for b in wanted]
    assert all(settled_root(a) is not None for a in made)
    for a, b in zip(made, feed.batch(0), strict=True):
        assert np.array_equal(a, b)
    assert any(not np.array_equal(a, b) for a, b in zip(made, feed.batch(1), strict=True))
    held = entry.feed(2, form, small, path="generated", part="held_out").batch(0)
    assert [a.shape for a in held] == [a.shape for a in made]


@pytest.mark.parametrize("name", ["CharCNN", "BERT", "Seq2Seq", "HarLSTM", "Model4", "DQN"])
def test_the_small_model_takes_it_and_learns(name: str) -> None:
    """From generated data, which can be learnt: after some steps the loss on the same is less."""
    entry = MODELS[name]
    torch.manual_seed(0)
    model = entry.make(small=True)
    step = entry.step(model, entry.optimizers(model))
    feed = entry.feed(8, small=True, path="generated")
    batch = [torch.from_numpy(a.copy()) for a in feed.batch(0)]
    losses = [float(step(*batch).detach()) for _ in range(8)]
    assert np.isfinite(losses).all() and losses[-1] < losses[0]


def test_a_linear_classifier_learns_generated_pictures() -> None:
    """And is right on those that were held out: what is generated can be generalised from."""
    data = open_feed("Model3", 400, path="generated")
    x, y = data.batch(0)
    weights = np.linalg.lstsq(np.c_[x, np.ones(len(x))], np.eye(10)[y], rcond=1e-2)[0]
    x, y = open_feed("Model3", 200, path="generated", part="held_out").batch(0)
    assert (np.argmax(np.c_[x, np.ones(len(x))] @ weights, 1) == y).mean() > 0.7


def test_found_given_or_generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    x, _ = write_mnist(folder, 20)
    assert open_feed("Model4", 2).source == "generated"
    monkeypatch.setenv("HANDTORCH_SHARED", str(tmp_path))
    feed = open_feed("Model4", 20)
    assert feed.source == str(folder)
    assert np.allclose(np.sort(feed.batch(0)[0].sum(1)), np.sort(x.sum((1, 2)) / 255), rtol=1e-5)
    assert open_feed("Model4", 2, path="generated").source == "generated"
    assert open_feed("Model4", 2, path=str(folder)).source == str(folder)
    assert open_feed("HarLSTM", 2).source == "generated"        # not in this folder
    with pytest.raises(BadInput, match="does not exist"):
        open_feed("Model4", 2, path=str(tmp_path / "none"))
    with pytest.raises(BadInput, match="a batch has at least 1 sample"):
        open_feed("Model4", 0)
    with pytest.raises(BadInput, match="a data set has train and held_out"):
        open_feed("Model4", 1, part="test")                     # type: ignore[arg-type]


def test_a_process_that_makes_batches_loads_no_torch() -> None:
    code = ("import sys, handtorch.zoo.data.feed, handtorch.zoo.data.maker\n"
            "print(sorted({'torch', 'pyopencl', 'gymnasium'} & sys.modules.keys()))")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                           timeout=300, env=knobs.environment_for_child())
    assert found.stdout == "[]\n", found.stderr


def test_the_real_data_sets(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many samples there are is what their README says."""
    monkeypatch.setenv("HANDTORCH_SHARED", str(shared))
    sizes = {"DenseNet40_12": (8000, 2000), "Model4": (60000, 10000), "HarLSTM": (7415, 2996),
             "BERT": (1071, 119), "Seq2Seq": (1553, 1268), "CharCNN": (1_003_830, 111_514)}
    for name, (train, held_out) in sizes.items():
        feed = open_feed(name, 4)
        assert str(shared / "data") in feed.source
        assert (len(feed.data.train[0]), len(feed.data.held_out[0])) == (train, held_out), name
        assert all(np.isfinite(a).all() for a in feed.batch(0))
    numbers = np.concatenate([open_feed("CharCNN", 64).batch(k)[0].reshape(-1) for k in range(9)])
    assert numbers.max() <= 64
