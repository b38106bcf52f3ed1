"""Which cases and sides a task has."""

from __future__ import annotations

import pytest

from handtorch.bench.cases import BENCHES, Wanted, cases_of, check_sides, sides_of
from handtorch.errors import BadInput


def titles(*args: object, **named: object) -> list[str]:
    return [c.title for c in cases_of(Wanted(*args, **named))]      # type: ignore[arg-type]


def test_models_have_the_batch_of_their_task() -> None:
    assert titles("train", ("NIN", "BERT:squad128")) == ["NIN b16", "BERT squad128 b16"]
    assert titles("infer", ("NIN",)) == ["NIN b1, inference"]
    assert titles("memory", ("NIN",), 8) == ["NIN b8"]


def test_quick_is_narrow_unless_a_model_is_named() -> None:
    assert titles("train", quick=True) == ["SqueezeNet1_1 (narrow) b4",
                                           "Model4 (narrow) b4"]
    assert titles("train", ("NIN",), quick=True) == ["NIN b16"]


def test_recurrent_nets_are_asked_for_latency_first() -> None:
    told = ["HarLSTM b1, inference", "HarLSTM b32, inference", "HarLSTM b32"]
    assert titles("rnn") == titles("rnn", quick=True) == told
    assert len(set(told)) == len(told)                  # figures are told apart by them


def test_products_are_squares_and_those_of_a_perceptron() -> None:
    found = titles("kernels")
    assert found[:4] == [f"{n}x{n}x{n} nn" for n in (128, 256, 512, 1024)]
    assert found[4:] == [
        "32x256x784 nt", "256x784x32 tn", "32x128x256 nt", "32x256x128 nn", "128x256x32 tn",
        "32x16x128 nt", "32x128x16 nn", "16x128x32 tn"]
    with pytest.raises(BadInput, match="it multiplies matrices"):
        titles("kernels", ("NIN",))


def test_a_batch_has_a_row() -> None:
    with pytest.raises(BadInput, match="--batch 0"):
        titles("train", ("NIN",), 0)


def test_sides_are_those_that_can() -> None:
    def names(bench: str, *asked: str) -> list[str]:
        wanted = Wanted(bench)                          # type: ignore[arg-type]
        case = cases_of(Wanted(bench, quick=True))[0]   # type: ignore[arg-type]
        return [kind.name for kind in sides_of(wanted, case, asked)]

    assert names("kernels") == ["handtorch", "torch", "clblast", "numpy"]
    assert names("train") == ["handtorch", "handtorch-ht", "torch", "inductor", "tinygrad", "mnn"]
    assert "torch-1" in names("rnn") and "torch-1" not in names("infer")
    assert names("train", "torch", "onnxruntime") == ["torch"]      # the other cannot train
    assert {"handtorch", "torch"} <= set.intersection(*(set(names(b)) for b in BENCHES))


def test_an_unknown_side_is_refused() -> None:
    with pytest.raises(BadInput, match="no side 'jax'"):
        check_sides(["torch", "jax"])
