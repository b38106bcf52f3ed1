from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from handtorch.errors import BadInput
from handtorch.zoo.data import moves
from handtorch.zoo.data.moves import STACK, generate_moves, load_atari


def consistent(data: Any) -> None:
    """Unless a game was over, a move's frames are those of the one before, and one more."""
    frames, _, rewards, over = data.train
    for k in range(len(frames) - 1):
        if over[k]:
            first = frames[k + 1, :STACK]
            assert (first == first[0]).all()
        else:
            assert np.array_equal(frames[k + 1, :STACK], frames[k, 1:])
    assert set(np.unique(rewards)) <= {-1, 0, 1}


def test_a_game_of_our_own() -> None:
    data = generate_moves(44, seed=1, moves=200)
    consistent(data)
    frames, done, rewards, over = data.train
    assert data.generated and frames.shape == (180, 5, 44, 44) and done.max() < 18
    assert over.any() and np.array_equal(rewards != 0, over)
    again = generate_moves(44, seed=1, moves=200)
    assert all(np.array_equal(a, b) for a, b in zip(data.train, again.train, strict=True))


def test_atari() -> None:
    for name in ("gymnasium", "ale_py"):
        pytest.importorskip(name)
    data = load_atari("ALE/Pong-v5", 84, seed=0, moves=40)
    consistent(data)
    assert data.source.startswith("ALE/Pong-v5 (ale-py ")
    assert data.train[0].shape == (36, 5, 84, 84) and data.train[0].std() > 5
    with pytest.raises(BadInput, match="ALE/Nothing-v5"):
        load_atari("ALE/Nothing-v5", 84, seed=0)
    with pytest.raises(BadInput, match="games of ale-py begin with ALE/"):
        load_atari("CartPole-v1", 84, seed=0)


def test_atari_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(BadInput) as error:
        load_atari(moves.GAME, 84, seed=0)
    assert str(error.value) == ("the game ALE/Pong-v5: ale_py is not installed\n"
                                "  try: pip install 'handtorch[atari]', or path=\"generated\"")
