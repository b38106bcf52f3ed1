"""What it takes to ask torch for an operation from Python: that much is not the operation.

Between the stamps of a call lie the reading of its arguments and the making of its results. Both
depend on the operation: eleven arguments or a list of tensors take several times what two tensors
take. So each operation is also asked while a key stands above autograd whose fallback answers at
once: all that remains is asking, and the way into that fallback and back, which an operation that
does nothing tells."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Any

import torch

_KEY_NAME = "TESTING_ONLY_GenericWrapper"
_ASKED = 200                                    # calls of an operation that does nothing
_LEAST = 3                                      # probes of a kind, for a median
_now = time.monotonic_ns
_NOTHING, _ONE = torch.ops.aten.is_same_size.default, torch.ones(1)
_UNANSWERED = object()
_library: list[torch.library.Library] = []      # alive as long as the process: torch keeps its hook
_answer: Any = None


def dispatch_key(name: str) -> torch._C.DispatchKey:
    key = torch._C._parse_dispatch_key(name)
    assert key is not None, f"this torch has no dispatch key {name}"
    return key


_KEY = dispatch_key(_KEY_NAME)


@dataclass(frozen=True)
class Probes:
    """Made before calls of one operation: an operation that does nothing, the same by way of the
    fallback, and the operation itself by way of the fallback."""

    plain: list[int] = field(default_factory=list)
    detour: list[int] = field(default_factory=list)
    itself: list[int] = field(default_factory=list)

    @classmethod
    def joined(cls, parts: Iterable[Probes]) -> Probes:
        whole = cls()
        for part in parts:
            whole.plain.extend(part.plain)
            whole.detour.extend(part.detour)
            whole.itself.extend(part.itself)
        return whole

    @property
    def enough(self) -> bool:
        return min(map(len, (self.plain, self.detour, self.itself))) >= _LEAST

    def asking_ns(self, of: Callable[[list[int]], float]) -> int:
        return max(0, int(of(self.itself) - of(self.detour) + of(self.plain)))


class Asking:
    """What asking takes, by operation, as far as probes have found it out.

    A probe is made inside a step, right before an operation of it: between operations that fill the
    caches, asking takes several times what it takes in a loop. `spent_ns` is of the probes up to
    the last `learn()`; an operation of few calls has what one that does nothing takes.

    `least_ns` is what each call takes at best, in the mean: that much to take off calls that were
    the best of many rounds. It needs some twelve steps of probes."""

    def __init__(self) -> None:
        self.usual_ns = int(median(_spent_ns(_NOTHING, (_ONE, _ONE), {}) for _ in range(_ASKED)))
        self.by_op_ns: Mapping[Any, int] = {}
        self._least_ns: Mapping[Any, int] = {}
        self._calls: dict[Any, int] = defaultdict(int)          # in this step
        self._steps = 0
        self._probes: dict[Any, list[Probes]] = defaultdict(list)    # one for each call in a step

    def spent_ns(self, op: Any) -> int:
        return self.by_op_ns.get(op, self.usual_ns)

    def least_ns(self, op: Any) -> int:
        return self._least_ns.get(op, self.spent_ns(op))

    def probe(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """One sample more. One of a kind at a time: the first call warms the caches for a second,
        so calls of an operation are used in turn for it, and for the two that tell what is ours."""
        at, of_op = self._calls[op], self._probes[op]
        if at == len(of_op):
            of_op.append(Probes())
        turn, kept = (at + self._steps) % 4, of_op[at]
        self._calls[op] += 1
        answer = _answer_of(op) if turn in (0, 2) else False
        if turn == 1 or answer is _UNANSWERED:
            kept.plain.append(_spent_ns(_NOTHING, (_ONE, _ONE), {}))
        elif turn == 3:
            kept.detour.append(_answered_ns(_NOTHING, (_ONE, _ONE), {}, False))
        else:
            kept.itself.append(_answered_ns(op, args, kwargs, answer))

    def learn(self) -> None:
        """A step is over; probes made so far count from now on."""
        joint = {op: Probes.joined(of_op) for op, of_op in self._probes.items()}
        plain = [ns for kept in joint.values() for ns in kept.plain]
        if plain:
            self.usual_ns = int(median(plain))
        self.by_op_ns = {op: kept.asking_ns(median) for op, kept in joint.items() if kept.enough}
        least = {op: [kept.asking_ns(min) for kept in of_op if kept.enough]
                 for op, of_op in self._probes.items()}
        self._least_ns = {op: int(mean(found)) for op, found in least.items() if found}
        self._calls.clear()
        self._steps += 1


def _spent_ns(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    start_ns = _now()
    op(*args, **kwargs)
    return _now() - start_ns


def _answered_ns(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], answer: Any) -> int:
    global _answer
    if not _library:
        library = torch.library.Library("_", "IMPL")
        library.fallback(_answers, _KEY_NAME)
        _library.append(library)
    _answer = answer
    with torch._C._IncludeDispatchKeyGuard(_KEY):
        return _spent_ns(op, args, kwargs)


def _answers(op: Any, *args: Any, **kwargs: Any) -> Any:
    return _answer


def _answer_of(op: Any) -> Any:
    """Something of the types that the operation gives, if these are tensors."""
    made: list[Any] = []
    for given in op._schema.returns:
        kind = str(given.type)
        if kind not in ("Tensor", "List[Tensor]"):
            return _UNANSWERED
        made.append(_ONE if kind == "Tensor" else [_ONE])
    return None if not made else made[0] if len(made) == 1 else tuple(made)
