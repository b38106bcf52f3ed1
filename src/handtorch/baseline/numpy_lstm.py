"""An LSTM network in plain NumPy, cell by cell: the single-threaded program of the MobiRNN paper.

`OneThread` runs it in a process of its own whose BLAS has one thread: in ours the BLAS would share
a product of 64 units and more out to all cores."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np

from handtorch import knobs
from handtorch.errors import HandTorchError
from handtorch.kernels.case import Array
from handtorch.kernels.lstm_weights import LstmWeights

_ONE = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def cell_loop(weights: LstmWeights, windows: Array) -> Array:
    """Scores [batch, classes] of windows [batch, time, signals]."""
    below = np.maximum(windows.swapaxes(0, 1) @ weights.w_in + weights.b_in, np.float32(0))
    time_steps, batch, h_count = below.shape
    for kernel, bias in zip(weights.kernels, weights.biases, strict=True):
        joined = np.zeros((batch, 2 * h_count), "f4")       # the input and the last h
        c = np.zeros((batch, h_count), "f4")
        out = np.empty_like(below)
        for t in range(time_steps):
            joined[:, :h_count] = below[t]
            i, f, g, o = np.split(joined @ kernel + bias, 4, 1)
            c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
            out[t] = joined[:, h_count:] = _sigmoid(o) * np.tanh(c)
        below = out
    return np.asarray(below[-1] @ weights.w_out + weights.b_out)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


class OneThread:
    """`cell_loop` in a child process with one thread; close it to end the child."""

    def __init__(self, weights: LstmWeights) -> None:
        command = [sys.executable, "-m", "handtorch.baseline.numpy_lstm_child"]
        # A session of its own: Ctrl-C is for us, and we end it.
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            env={**knobs.environment_for_child(), **_ONE})
        self._ask(weights)

    def scores(self, windows: Array, times: int = 1) -> Array:
        """What `cell_loop` gives for each window alone, all of them `times` times over."""
        return np.asarray(self._ask((windows, times)))

    def _ask(self, question: Any) -> Any:
        assert self._child.stdin is not None and self._child.stdout is not None
        try:
            pickle.dump(question, self._child.stdin)
            self._child.stdin.flush()
            return pickle.load(self._child.stdout)
        except (BrokenPipeError, EOFError) as e:
            code = self._child.wait()
            raise HandTorchError("the single-threaded NumPy process ended",
                                 why=f"its exit code is {code}",
                                 fix="enough free memory for one more Python process") from e

    def close(self) -> None:
        """End the child, whatever it does."""
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None and not pipe.closed:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue


def serve(question: Any, answer: Any) -> None:
    """The child's loop: weights first, then windows and how often, until the pipe is closed."""
    weights: LstmWeights = pickle.load(question)
    pickle.dump("ready", answer)
    answer.flush()
    while True:
        try:
            windows, times = pickle.load(question)
        except EOFError:
            return
        for _ in range(times):
            scores = [cell_loop(weights, window[None]) for window in windows]
        pickle.dump(np.concatenate(scores), answer)
        answer.flush()
