"""CIFAR-10's python format without unpickling: a reader of the few opcodes such a file contains.

A pickle is a program for a stack machine, and a real unpickler runs what it says. This one runs
nothing: a global name stays a name, and only the three that NumPy writes for an array are known;
calling them gives a record of what was written. Everything else is refused with its offset. The
official files have protocol 2, written by Python 2; later protocols, as Python 3 writes them, are
read too."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from handtorch.errors import BadFile
from handtorch.zoo.data.dataset import Array
from handtorch.zoo.data.opened import AGAIN, bad_at, contents
from handtorch.zoo.data.pictures import check_labels

PIXELS = 3 * 32 * 32
NOT_OURS = ("a file out of cifar-10-python.tar.gz, unpacked; nothing else is read from a pickle, "
            "because a pickle can run any program")
_MARK = object()
_RECONSTRUCT, _BUFFER = "reconstruct", "buffer"
_ARRAY, _DTYPE, _ENCODE = "ndarray", "dtype", "encode"
_KNOWN = {("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
          ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
          ("numpy", "ndarray"): _ARRAY, ("numpy", "dtype"): _DTYPE,
          ("numpy.core.numeric", "_frombuffer"): _BUFFER,
          ("numpy._core.numeric", "_frombuffer"): _BUFFER,
          ("_codecs", "encode"): _ENCODE}
# What one opcode may put on the stack is held by the bytes it has, so a stack is never longer than
# the file; the depth of containers is bounded because none can be put into itself.


@dataclass(frozen=True)
class _Name:
    """A global name, never looked up."""

    what: str


@dataclass
class _Made:
    """An array or a dtype as the file describes it: what it was made with, and then its state."""

    what: str
    told: tuple[Any, ...]
    state: tuple[Any, ...] | None = None


class _Wrong(Exception):
    """What is wrong; the reader adds the offset."""


@dataclass
class _Machine:
    data: bytes
    at: int = 0
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def take(self, count: int) -> bytes:
        """The next bytes, which must be there."""
        if count > len(self.data) - self.at:
            raise _Wrong(f"{count} bytes are announced, and {len(self.data) - self.at} follow")
        found = self.data[self.at:self.at + count]
        self.at += count
        return found

    def number(self, form: str) -> int:
        (found,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(found)

    def line(self) -> str:
        end = self.data.find(b"\n", self.at, self.at + 80)
        if end < 0:
            raise _Wrong("a name without an end")
        found = self.take(end - self.at).decode("ascii", "replace")
        self.at += 1
        return found

    def pop(self, kind: type[Any] = object) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise _Wrong("nothing is left on the stack")
        if not isinstance(self.stack[-1], kind):
            raise _Wrong(f"a {type(self.stack[-1]).__name__} where a {kind.__name__} must be")
        return self.stack.pop()

    def marked(self) -> list[Any]:
        """All above the last mark, which goes too."""
        for k in range(len(self.stack) - 1, -1, -1):
            if self.stack[k] is _MARK:
                found = self.stack[k + 1:]
                del self.stack[k:]
                return found
        raise _Wrong("no mark on the stack")

    def top(self, kind: type[Any]) -> Any:
        found = self.pop(kind)
        self.stack.append(found)
        return found

    def named(self, module: str, name: str) -> None:
        what = _KNOWN.get((module, name))
        if what is None:
            raise _Wrong(f"it asks for {module[:40]}.{name[:40]}, which no such file needs")
        self.stack.append(_Name(what))

    def put(self, key: int) -> None:
        self.memo[key] = self.top(object)

    def get(self, key: int) -> None:
        if key not in self.memo:
            raise _Wrong(f"nothing was remembered as {key}")
        self.stack.append(self.memo[key])

    def fill(self, pairs: list[Any]) -> None:
        if len(pairs) % 2:
            raise _Wrong("a key without a value")
        into = self.top(dict)
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if not isinstance(key, bytes | str):
                raise _Wrong(f"a {type(key).__name__} as a key")
            into[key if isinstance(key, str) else key.decode("latin-1")] = value

    def append(self, values: list[Any]) -> None:
        into = self.top(list)
        if any(isinstance(value, list | dict) for value in values):
            raise _Wrong("a list of lists")
        into.extend(values)

    def reduce(self) -> None:
        told, name = self.pop(tuple), self.pop(_Name)
        if name.what == _ENCODE:            # how protocol 2 of Python 3 spells bytes
            if len(told) != 2 or not isinstance(told[0], str) or told[1] != "latin1":
                raise _Wrong("bytes in an unknown spelling")
            try:
                self.stack.append(told[0].encode("latin-1"))
            except UnicodeEncodeError:
                raise _Wrong("bytes with a value over 255") from None
        elif name.what == _ARRAY:
            raise _Wrong("an array made in an unknown way")
        else:
            self.stack.append(_Made(name.what, told))

    def build(self) -> None:
        state, made = self.pop(tuple), self.top(_Made)
        if made.state is not None:
            raise _Wrong("an array described twice")
        made.state = state

    def text(self, count: int) -> str:
        try:
            return self.take(count).decode("utf-8")
        except UnicodeDecodeError as e:
            raise _Wrong(f"a text that is not UTF-8 ({e.reason})") from None


def _tuple(machine: _Machine, count: int) -> None:
    parts = [machine.pop() for _ in range(count)]
    machine.stack.append(tuple(reversed(parts)))


def _stack_global(m: _Machine) -> None:
    name, module = m.pop(str), m.pop(str)
    m.named(module, name)


def _append_one(m: _Machine) -> None:
    value = m.pop()
    m.append([value])


def _set_one(m: _Machine) -> None:
    value, key = m.pop(), m.pop()
    m.fill([key, value])


def _protocol(m: _Machine) -> None:
    if (version := m.number("<B")) > 5:
        raise _Wrong(f"pickle protocol {version}, expected 2 to 5")


_Op = Callable[[_Machine], Any]
_OPCODES: dict[int, _Op] = {
    0x80: _protocol, 0x95: lambda m: m.number("<Q"),            # PROTO, FRAME
    ord("("): lambda m: m.stack.append(_MARK),
    ord("}"): lambda m: m.stack.append({}), ord("]"): lambda m: m.stack.append([]),
    ord(")"): lambda m: m.stack.append(()), ord("N"): lambda m: m.stack.append(None),
    0x88: lambda m: m.stack.append(True), 0x89: lambda m: m.stack.append(False),
    ord("K"): lambda m: m.stack.append(m.number("<B")),
    ord("M"): lambda m: m.stack.append(m.number("<H")),
    ord("J"): lambda m: m.stack.append(m.number("<i")),
    ord("U"): lambda m: m.stack.append(m.take(m.number("<B"))),  # strings of Python 2 are bytes
    ord("T"): lambda m: m.stack.append(m.take(m.number("<I"))),
    ord("C"): lambda m: m.stack.append(m.take(m.number("<B"))),
    ord("B"): lambda m: m.stack.append(m.take(m.number("<I"))),
    0x8e: lambda m: m.stack.append(m.take(m.number("<Q"))),     # BINBYTES8
    0x96: lambda m: m.stack.append(m.take(m.number("<Q"))),     # BYTEARRAY8
    ord("X"): lambda m: m.stack.append(m.text(m.number("<I"))),
    0x8c: lambda m: m.stack.append(m.text(m.number("<B"))),     # SHORT_BINUNICODE
    ord("q"): lambda m: m.put(m.number("<B")), ord("r"): lambda m: m.put(m.number("<I")),
    0x94: lambda m: m.put(len(m.memo)),                         # MEMOIZE
    ord("h"): lambda m: m.get(m.number("<B")), ord("j"): lambda m: m.get(m.number("<I")),
    ord("c"): lambda m: m.named(m.line(), m.line()), 0x93: _stack_global,
    ord("t"): lambda m: m.stack.append(tuple(m.marked())),
    0x85: lambda m: _tuple(m, 1), 0x86: lambda m: _tuple(m, 2), 0x87: lambda m: _tuple(m, 3),
    ord("R"): lambda m: m.reduce(), ord("b"): lambda m: m.build(),
    ord("a"): _append_one, ord("e"): lambda m: m.append(m.marked()),
    ord("s"): _set_one, ord("u"): lambda m: m.fill(m.marked()),
}


def read_pickle(path: Path, data: bytes) -> dict[str, Any]:
    """The dictionary a file describes: texts, bytes, numbers, lists and `_Made` records."""
    machine = _Machine(data)
    while True:
        began = machine.at
        try:
            code = machine.take(1)[0]
            if code == ord("."):
                found = machine.pop(dict)
                if machine.stack or machine.at != len(data):
                    raise _Wrong("something is left over at the end")
                return dict(found)
            if code not in _OPCODES:
                raise _Wrong(f"opcode 0x{code:02x}, which no such file contains")
            _OPCODES[code](machine)
        except _Wrong as e:
            raise bad_at(path, began, str(e), NOT_OURS) from None


def read_batch(path: Path) -> tuple[Array, Array]:
    """Pictures (n, 3072) and labels (n) of one file, as bytes."""
    found = read_pickle(path, contents(path))
    try:
        for key in ("data", "labels"):
            if key not in found:
                raise _Wrong(f"it has no {key!r}, but {', '.join(sorted(found))[:80] or 'nothing'}")
        pictures, labels = _bytes_array(found["data"]), found["labels"]
        if type(labels) is not list or not labels or any(type(n) is not int for n in labels):
            raise _Wrong("its labels are not a list of numbers")
    except _Wrong as e:
        raise BadFile(f"{path} cannot be used", why=str(e), fix=NOT_OURS) from None
    check_labels(path, np.array(labels, np.int64), len(pictures), unit="entry")
    return pictures, np.array(labels, np.uint8)


def _shown(told: Any) -> str:
    """Only what is flat: a few bytes of a pickle can describe a tuple whose text has no end."""
    flat = told if type(told) is tuple else (told,)
    if len(flat) <= 4 and all(type(part) in (int, str, bytes) for part in flat):
        return str(told)[:40]
    return f"of another kind, {type(told).__name__}"


def _bytes_array(told: Any) -> Array:
    """`numpy.ndarray` of bytes with PIXELS columns, from what the file says of it."""
    if not isinstance(told, _Made):
        raise _Wrong(f"its data are a {type(told).__name__}, expected an array")
    if told.what == _BUFFER and len(told.told) == 4 and told.state is None:
        raw, dtype, shape, order = told.told
        by_column = order == "F"
    elif told.what == _RECONSTRUCT and told.state is not None and len(told.state) == 5:
        _, shape, dtype, by_column, raw = told.state
    else:
        raise _Wrong("its data are an array written in an unknown way")
    spelled = dtype.told[0] if isinstance(dtype, _Made) and dtype.told else None
    if spelled not in ("u1", b"u1", "|u1", b"|u1"):
        raise _Wrong(f"its data are not bytes (u1) but {_shown(spelled)}")
    if (type(shape) is not tuple or len(shape) != 2 or any(type(n) is not int for n in shape)
            or shape[0] < 1 or shape[1] != PIXELS):
        raise _Wrong(f"its data have the shape {_shown(shape)}, expected (n, {PIXELS})")
    if type(raw) is not bytes or len(raw) != prod(shape):
        had = len(raw) if type(raw) is bytes else type(raw).__name__
        raise _Wrong(f"its data have the shape {shape}, and {had} bytes; {AGAIN}")
    return np.frombuffer(raw, np.uint8).reshape(shape, order="F" if by_column else "C")
