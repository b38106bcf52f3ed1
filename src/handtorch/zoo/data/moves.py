"""Moves of a game, remembered for training: four frames, what was done, what came of it.

    atari       any game of ale-py through gymnasium (`pip install 'handtorch[atari]'`; the games
                come with it), played at random: 18 actions, every fourth frame, grey, resized
    generated   a ball that falls and a bat that may catch it"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from handtorch.errors import BadInput
from handtorch.zoo.data.dataset import GENERATED, Array, DataSet, split_off
from handtorch.zoo.data.pictures import resized

ACTIONS, STACK = 18, 4
GAME = "ALE/Pong-v5"
MOVES = 1000                                # 35 MB at 84x84
REMEDY = "pip install 'handtorch[atari]', or path=\"generated\""


class Game(Protocol):
    """Frames are (side, side) bytes."""

    def reset(self, seed: int) -> Array: ...

    def step(self, action: int) -> tuple[Array, float, bool]:
        """The next frame, the reward, and whether the game is over."""


def atari_is_installed() -> bool:
    return all(importlib.util.find_spec(name) for name in ("gymnasium", "ale_py"))


def load_atari(game: str, side: int, seed: int, moves: int = MOVES) -> DataSet:
    """Random play of one game; `source` names it and the version of the emulator."""
    try:
        import ale_py
        import gymnasium
    except ImportError as e:
        raise BadInput(f"the game {game}", why=f"{e.name} is not installed", fix=REMEDY) from e
    gymnasium.register_envs(ale_py)
    if not game.startswith("ALE/"):
        raise BadInput(f"the game {game!r}", why="games of ale-py begin with ALE/",
                       fix=f"path={GAME!r}")
    try:
        env = gymnasium.make(game, obs_type="grayscale", full_action_space=True, frameskip=4)
    except gymnasium.error.Error as e:
        raise BadInput(f"the game {game}", why=str(e), fix=f"path={GAME!r}") from e
    try:
        return _remembered(_Atari(env, side), f"{game} (ale-py {ale_py.__version__})", side, seed,
                           moves)
    finally:
        env.close()


def generate_moves(side: int, seed: int, moves: int = MOVES) -> DataSet:
    """Random play of a game of our own."""
    return _remembered(_Catch(side), GENERATED, side, seed, moves)


def _remembered(game: Game, source: str, side: int, seed: int, moves: int) -> DataSet:
    """Frames before and after in one array (moves, STACK + 1, side, side); action; sign of the
    reward; whether it was the last move. No move has frames of two games."""
    rng = np.random.default_rng(seed)
    frames = np.empty((moves, STACK + 1, side, side), np.uint8)
    done = np.empty(moves, np.uint8)
    rewards, over = np.empty(moves, np.float32), np.zeros(moves, bool)
    stack: Array | None = None
    for k in range(moves):
        if stack is None:
            first = game.reset(int(rng.integers(1 << 31)))
            stack = np.repeat(first[None], STACK, 0)
        done[k] = rng.integers(ACTIONS)
        frame, reward, over[k] = game.step(int(done[k]))
        rewards[k] = np.sign(reward)
        frames[k, :STACK], frames[k, STACK] = stack, frame
        stack = None if over[k] else frames[k, 1:]
    return DataSet("moves", source, *split_off((frames, done, rewards, over)))


@dataclass
class _Atari:
    env: Any
    side: int

    def reset(self, seed: int) -> Array:
        return self._frame(self.env.reset(seed=seed)[0])

    def step(self, action: int) -> tuple[Array, float, bool]:
        seen, reward, ended, cut, _ = self.env.step(action)
        return self._frame(seen), float(reward), bool(ended or cut)

    def _frame(self, seen: Array) -> Array:
        frame: Array = resized(seen[None], self.side, self.side)[0]
        return frame


@dataclass
class _Catch:
    """Actions below 9 go left, others right; +1 for a ball caught, -1 for one missed."""

    side: int
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    ball: tuple[int, int] = (0, 0)
    bat: int = 0

    def reset(self, seed: int) -> Array:
        self.rng = np.random.default_rng(seed)
        self.ball = (0, int(self.rng.integers(self.side - 4)))
        self.bat = int(self.rng.integers(self.side - 12))
        return self._frame()

    def step(self, action: int) -> tuple[Array, float, bool]:
        self.bat = int(np.clip(self.bat + (-4 if action < ACTIONS // 2 else 4), 0, self.side - 12))
        row, column = self.ball[0] + 4, self.ball[1]
        self.ball = (row, column)
        over = row >= self.side - 8
        caught = self.bat - 4 < column < self.bat + 12
        return self._frame(), (1.0 if caught else -1.0) if over else 0.0, over

    def _frame(self) -> Array:
        frame = np.zeros((self.side, self.side), np.uint8)
        row, column = self.ball
        frame[row:row + 4, column:column + 4] = 255
        frame[-4:, self.bat:self.bat + 12] = 160
        return frame
