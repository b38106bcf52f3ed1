"""What offloading knows of a place: a name, how to call it, how busy others keep it.

These classes are all that policies, the judge and the people who use them have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from handtorch.errors import BadInput


@dataclass(frozen=True, slots=True)
class Load:
    """The share of a place that others use, 0 to 1; None, and why, where nobody can tell."""

    share: float | None
    reason: str = ""

    def __str__(self) -> str:
        if self.share is None:
            return f"load unknown: {self.reason}"
        return f"load {self.share:.0%}"


NOT_READ = Load(None, "no reading is given for this place")


def not_read() -> Load:
    return NOT_READ


@dataclass(frozen=True)
class Place:
    """Somewhere to run. All places of one offload give the same answer for the same batch.

    `load` tells how much of the place *others* use at the moment, without our own calls, and must
    be quick: it is asked at every call. `cores` are those of the host that the place runs on, None
    if it has silicon of its own.

    >>> ht.Place("device", infer).name
    'device'
    """

    name: str
    call: Callable[..., Any]
    load: Callable[[], Load] = not_read
    cores: tuple[int, ...] | None = None
    cores_reason: str = "nobody said on which cores this place runs"

    def __post_init__(self) -> None:
        if not self.name or not callable(self.call):
            raise BadInput(f"a place {self.name!r}", why="it needs a name and something to call",
                           fix='Place("device", infer)')


@dataclass(frozen=True, slots=True)
class Decision:
    """One call's choice: everything it was based on, so that it can be explained later.

    `kind` is "first" (nothing is known of this place yet), "stay", "switch", "wait" (another place
    looks better, not yet for long enough), or "probe" (this place was not seen for long, and a
    look costs little).

    >>> scores = offload(x)
    >>> offload.last.kind in ("first", "stay", "switch", "wait", "probe")
    True
    """

    number: int
    kind: str
    chosen: int
    usual: int                              # the place in use, which a probe does not change
    names: tuple[str, ...]
    predicted_s: tuple[float | None, ...]
    loads: tuple[Load, ...]
    detail: str = ""

    @property
    def place(self) -> str:
        """Where the call went.

        >>> scores = offload(x)
        >>> offload.last.place in offload.last.names
        True
        """
        return self.names[self.chosen]

    @property
    def why(self) -> str:
        """One line for people.

        >>> scores = offload(x)
        >>> offload.last.why.startswith("call ")
        True
        """
        told = ", ".join(
            f"{name} {'not known yet' if s is None else f'{1e3 * s:.3g} ms'} ({load})"
            for name, s, load in zip(self.names, self.predicted_s, self.loads, strict=True))
        return f"call {self.number}: {self.place} ({self.kind}): {told}{self.detail}"
