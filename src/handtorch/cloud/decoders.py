"""Pictures decoded in processes of their own: a few, confined, replaced when one dies.

A decoder is the part of a server that strangers can reach with bytes of their choice. In a process
without files and with little memory, what it does to itself ends with that process; the picture is
refused, and the next one finds a fresh process."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import struct
import subprocess
import sys
from dataclasses import asdict, dataclass

import numpy as np

from handtorch import knobs
from handtorch.cloud.batching import Array
from handtorch.cloud.limits import Limits
from handtorch.cloud.picture_child import ANSWER
from handtorch.cloud.recipes import Recipe
from handtorch.errors import BadInput, HandTorchError

_START_S = 30.0                 # a machine under load imports slowly
_SOCKET_BYTES = 1 << 20
_LONGEST_REFUSAL = 1 << 16


@dataclass
class _Child:
    process: subprocess.Popen[bytes]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def kill(self) -> None:
        self.writer.close()
        self.process.kill()
        self.process.wait()


class Decoders:
    """`most` processes; they are started when they are first needed, or all at once by `start`."""

    def __init__(self, most: int, limits: Limits, most_pixels: int = 25_000_000) -> None:
        self._limits, self._most_pixels = limits, most_pixels
        self._places = asyncio.Semaphore(most)
        self._most = most
        self._idle: list[_Child] = []
        self.deaths = 0

    async def start(self) -> None:
        self._idle = [await self._started() for _ in range(self._most)]

    async def input_of(self, picture: bytes, recipe: Recipe) -> Array:
        """The model's input, float32 (1, 3, h, w); refuses what is no picture."""
        async with self._places:
            child = self._idle.pop() if self._idle else await self._started()
            kept = False
            try:
                async with asyncio.timeout(self._limits.picture_s):
                    answer = await self._asked(child, picture, recipe)
                kept = True
            except (TimeoutError, ConnectionError, asyncio.IncompleteReadError) as e:
                self.deaths += 1
                why = (f"it took more than {self._limits.picture_s:g} s"
                       if isinstance(e, TimeoutError) else "the decoder gave up")
                raise BadInput("a picture that cannot be decoded", why=why) from e
            finally:
                # A request that was cancelled leaves its child in the middle of an answer.
                if kept:
                    self._idle.append(child)
                else:
                    child.kill()
        if isinstance(answer, BadInput):
            raise answer
        return answer

    async def _asked(self, child: _Child, picture: bytes, recipe: Recipe) -> Array | BadInput:
        question = json.dumps({"recipe": asdict(recipe), "most_pixels": self._most_pixels}).encode()
        child.writer.write(struct.pack("<I", len(question)) + question
                           + struct.pack("<I", len(picture)))
        child.writer.write(picture)
        await child.writer.drain()
        kind, size = struct.unpack("<BI", await child.reader.readexactly(5))
        need = 4 * 3 * math.prod(recipe.crop)
        if size > (need if kind == ANSWER else _LONGEST_REFUSAL):
            raise ConnectionError(f"an answer of {size} B")
        raw = await child.reader.readexactly(size)
        if kind != ANSWER:
            told = json.loads(raw)
            return BadInput(str(told["what"]), why=str(told["why"]), fix=str(told["fix"]))
        if size != need:
            raise ConnectionError(f"an answer of {size} B")
        return np.frombuffer(raw, "<f4").reshape(1, 3, *recipe.crop)

    async def _started(self) -> _Child:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "handtorch.cloud.picture_child",
                 str(self._limits.picture_memory_bytes)],
                stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={**knobs.environment_for_child(), "OPENBLAS_NUM_THREADS": "1"})
        child = _Child(process, *await asyncio.open_connection(sock=ours, limit=_SOCKET_BYTES))
        try:
            async with asyncio.timeout(_START_S):
                await child.reader.readexactly(1)
        except (TimeoutError, asyncio.IncompleteReadError) as e:
            child.kill()
            raise HandTorchError("no process to decode pictures in",
                                 why="it did not start") from e
        return child

    def close(self) -> None:
        for child in self._idle:
            child.kill()
        self._idle = []
