"""A process that does nothing but decode pictures, with little to lose: `python -m` this.

Its standard input is a socket. A question is a picture file and a recipe, an answer the model's
input or what is wrong with the picture; frames are lengths and bytes, so that whatever a decoder
can be made to do, its parent reads nothing but numbers and text.

    question   u32 length, JSON {"recipe": {...}, "most_pixels": n}; u32 length, the picture
    answer     u8: 0 and u32 length, float32 numbers; 1 and u32 length, JSON {what, why, fix}
"""

from __future__ import annotations

import json
import resource
import socket
import struct
import sys
from typing import Any

import numpy as np

from handtorch.cloud.pictures import FORMATS, PictureLimits, decode, encode, prepare
from handtorch.cloud.recipes import Recipe
from handtorch.errors import BadInput

ANSWER, REFUSAL = 0, 1
_STANDARD_FILES = 3


def confine(memory_bytes: int) -> None:
    """No more memory than this, no file written, none opened any more, no core left behind."""
    for what, most in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_FSIZE, 0),
                       (resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, _STANDARD_FILES)):
        resource.setrlimit(what, (most, most))


def answer(recipe: Recipe, limits: PictureLimits, picture: bytes) -> bytes:
    """The frame that answers a question."""
    try:
        values = prepare(decode(picture, limits), recipe).tobytes()
    except BadInput as e:
        return _refusal(e.what, e.why, e.fix)
    except MemoryError:
        return _refusal("a picture that takes too much memory", "", "a smaller one")
    return struct.pack("<BI", ANSWER, len(values)) + values


def _refusal(what: str, why: str, fix: str) -> bytes:
    text = json.dumps({"what": what[:1000], "why": why[:1000], "fix": fix}).encode()
    return struct.pack("<BI", REFUSAL, len(text)) + text


def _read(sock: socket.socket, count: int) -> bytes:
    """Exactly so many bytes; none if the other side hangs up before."""
    whole, have = bytearray(count), 0
    while have < count:
        got = sock.recv_into(memoryview(whole)[have:])
        if not got:
            return b""
        have += got
    return bytes(whole)


def _frame(sock: socket.socket) -> bytes:
    length = _read(sock, 4)
    return _read(sock, struct.unpack("<I", length)[0]) if length else b""


def main(memory_bytes: int) -> int:
    """Answer until the other side hangs up."""
    sock = socket.socket(fileno=0)
    _warm_up()
    confine(memory_bytes)
    sock.sendall(b"!")
    while question := _frame(sock):
        told = json.loads(question)
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v
                                  for k, v in told["recipe"].items()}
        recipe = Recipe(**fields)
        sock.sendall(answer(recipe, PictureLimits(most_pixels=told["most_pixels"]), _frame(sock)))
    return 0


def _warm_up() -> None:
    """Every decoder has been used once: a module that is imported later could not be opened."""
    recipe = Recipe("warm-up", 2, (1, 1), "RGB", 1.0, (0.0, 0.0, 0.0))
    for kind in FORMATS:
        answer(recipe, PictureLimits(), encode(np.zeros((3, 2, 3), "u1"), kind))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
