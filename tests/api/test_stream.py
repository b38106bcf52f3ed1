"""A stream gives the same bits however a sequence is cut, and refuses what would mix readings."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import handtorch as ht
from handtorch.errors import BadInput, CannotCapture
from handtorch.zoo.har import HarLSTM
from tests.capture.user_steps import said

pytestmark = pytest.mark.spread

READINGS = 80                       # more than the largest piece, and no multiple of any
X = torch.randn(2, READINGS, 9, generator=torch.Generator().manual_seed(1))


class Each(nn.Module):
    """Something for every reading, with layers of all sorts around stacked GRUs; time first."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(7, 12, 2)
        self.before, self.after = nn.Linear(9, 7), nn.Linear(12, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, h = self.gru(torch.tanh(self.before(x)))
        return torch.log_softmax(self.after(y), -1), y.reshape(-1, 4) * 2, h


class Plain(nn.Module):
    """Unbatched readings, and only point-wise things that a vector and a single number share."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(9, 5)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.exp(self.rnn(torch.sigmoid(x) * 2)[0])
        return y


def cut(stream: Any, x: Tensor, cuts: list[int], axis: int) -> list[list[np.ndarray[Any, Any]]]:
    """What each call gave, each as a list of results."""
    stream.reset()
    bounds = [0, *sorted(set(cuts)), x.shape[axis]]
    parts = []
    for start, end in pairwise(bounds):
        made = stream(x.narrow(axis, start, end - start))
        parts.append(list(made) if isinstance(made, tuple) else [made])
    return parts


CUTS = st.lists(st.integers(1, READINGS - 1), max_size=12)
SLOWLY = settings(max_examples=12, deadline=None,
                  suppress_health_check=[HealthCheck.function_scoped_fixture])


def check_har(device: str) -> None:
    torch.manual_seed(0)
    model = HarLSTM(hidden=17)                              # no multiple of any vector
    stream = ht.stream(model, example=(X[:, :3],), device=device)
    (whole,), = cut(stream, X, [], 1)
    states = stream.state()
    assert list(states) == ["lstm.h0", "lstm.c0", "lstm.h1", "lstm.c1"]
    with torch.no_grad():
        np.testing.assert_allclose(whole, model(X).numpy(), atol=1e-6)
    if device != "ref":                                     # see ADR 21
        np.testing.assert_array_equal(ht.inference(model, example=(X,), device=device)(X), whole)

    @SLOWLY
    @given(cuts=CUTS)
    def holds(cuts: list[int]) -> None:
        np.testing.assert_array_equal(cut(stream, X, cuts, 1)[-1][0], whole)
        for name, state in stream.state().items():
            np.testing.assert_array_equal(state, states[name])
    holds()
    assert set(stream.programs) <= {1, 8, 64}
    stream.close()


def check_each(device: str) -> None:
    torch.manual_seed(0)
    model, x = Each(), X.transpose(0, 1).contiguous()
    stream = ht.stream(model, example=(x[:5],), device=device)
    (scores, rows, last), = cut(stream, x, [], 0)
    for cuts in (list(range(1, READINGS)), [1, 9, 73]):
        parts = cut(stream, x, cuts, 0)
        np.testing.assert_array_equal(np.concatenate([p[0] for p in parts]), scores)
        np.testing.assert_array_equal(np.concatenate([p[1] for p in parts]), rows)
        np.testing.assert_array_equal(parts[-1][2], last)
    with torch.no_grad():
        for ours, theirs in zip((scores, rows, last), model(x), strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5)
    stream.close()


def check_plain(device: str) -> None:
    torch.manual_seed(0)
    model, x = Plain(), X[0]
    stream = ht.stream(model, example=(x[:2],), device=device)
    (whole,), = cut(stream, x, [], 0)
    for cuts in (list(range(1, READINGS)), [1, 9, 73]):
        parts = cut(stream, x, cuts, 0)
        np.testing.assert_array_equal(np.concatenate([p[0] for p in parts]), whole)
    stream.close()


CHECKS = pytest.mark.parametrize("check", [check_har, check_each, check_plain],
                                 ids=["har", "each", "plain"])


@CHECKS
def test_any_cut_gives_the_same_bits(opencl_device: Any, check: Callable[[str], None]) -> None:
    check(opencl_device.label)


@CHECKS
def test_any_cut_gives_the_same_bits_in_the_reference(check: Callable[[str], None]) -> None:
    check("ref")


def test_its_weights_are_those_of_its_beginning(opencl_device: Any) -> None:
    """Also of a program that is compiled later."""
    torch.manual_seed(0)
    model = HarLSTM(hidden=8)
    stream = ht.stream(model, example=(X[:, :2],), device=opencl_device.label)
    with torch.no_grad():
        want = model(X[:, :64]).numpy()
        for p in model.parameters():
            p.zero_()
    np.testing.assert_allclose(stream(X[:, :64].numpy()), want, atol=1e-6)
    assert set(stream.programs) == {1, 64}
    stream.close()


class Around(nn.Module):
    """A GRU with something of the test's around it."""

    def __init__(self, before: Any = None, after: Any = None, **settings: Any) -> None:
        super().__init__()
        self.gru = nn.GRU(9, 6, batch_first=True, **settings)
        self.table = nn.Parameter(torch.zeros(4, 9))
        self.before, self.after = before or (lambda x, _: x), after or (lambda y: y)

    def forward(self, x: Tensor) -> Any:
        return self.after(self.gru(self.before(x, self.table))[0])


WHERE = "  from test_stream.py  "
FIX = ("\n  try: layers before and after the recurrent ones that act on each reading by itself, or "
       "ht.inference over a whole window")


@pytest.mark.parametrize(("model", "message"), [
    (Around(bidirectional=True),
     "gru in a stream: the backward direction of a bidirectional layer begins with the last "
     "reading, which has not come yet\n" + WHERE
     + "return self.after(self.gru(self.before(x, self.table))[0])" + FIX),
    (Around(before=lambda x, _: x.cumsum(1)),
     "cumsum in a stream: it is not known to act on each reading by itself\n" + WHERE
     + "(Around(before=lambda x, _: x.cumsum(1))," + FIX),
    (Around(before=lambda x, table: x + table),
     "add in a stream: it treats each of the 4 readings differently\n" + WHERE
     + "(Around(before=lambda x, table: x + table)," + FIX),
    (Around(after=lambda y: y[:, 0]),
     "slice in a stream: it takes some of the 4 readings, and a stream has at hand only each by "
     "itself and the last\n" + WHERE + "(Around(after=lambda y: y[:, 0])," + FIX),
    (Around(after=lambda y: y - y[:, -1:]),
     "sub in a stream: it joins every reading with the last one\n" + WHERE
     + "(Around(after=lambda y: y - y[:, -1:])," + FIX),
    (Around(after=lambda y: y.transpose(1, 2) @ torch.ones(4, 1)),
     "matmul in a stream: it sums over the readings\n" + WHERE
     + "(Around(after=lambda y: y.transpose(1, 2) @ torch.ones(4, 1))," + FIX),
    (Around(after=lambda y: torch.softmax(y, 1)),
     "softmax in a stream: it runs over the readings\n" + WHERE
     + "(Around(after=lambda y: torch.softmax(y, 1))," + FIX),
    (nn.Linear(9, 3),
     "a stream of a model without recurrent layers: nothing would be kept from one reading to the "
     "next\n" + WHERE + "ht.stream(model, example=(X[:1, :4],), device=\"null\")\n"
     "  try: ht.inference(model, example=...)"),
], ids=["bidirectional", "scan", "table", "first", "last", "sum", "softmax", "none"])
def test_what_mixes_readings_is_refused(model: nn.Module, message: str) -> None:
    with pytest.raises(CannotCapture) as e:
        ht.stream(model, example=(X[:1, :4],), device="null")
    assert said(e) == message


def test_readings_that_do_not_fit_are_refused() -> None:
    stream = ht.stream(HarLSTM(), example=(X[:1, :2],), device="null")
    for given_, why in ((X[0], "readings of shape [80, 9]"), (X[:1, :0], "of shape [1, 0, 9]"),
                        (3.0, "readings no array"), (X, "input x is float32[2, 80, 9]")):
        with pytest.raises(BadInput) as e:
            stream(given_)
        assert why in str(e.value)
    with pytest.raises(BadInput) as e:
        ht.stream(HarLSTM(), example=(X[:1, :1],), device="null")
    assert said(e) == (
        "an example of 1 reading: which axis of the input holds readings cannot be seen\n" + WHERE
        + 'ht.stream(HarLSTM(), example=(X[:1, :1],), device="null")\n'
        "  try: an example of two readings or more; calls may then have any number")
