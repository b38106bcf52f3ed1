"""How much the server takes from one client and from all of them; every limit is on by default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from handtorch.errors import BadInput

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What a request may be. Seconds are counted on the server's own clock."""

    body_bytes: int = 16 * MIB          # as sent, and again after decompression
    json_bytes: int = 4 * MIB           # parsed JSON takes up to 25 times its own size
    all_bodies_bytes: int = 256 * MIB   # of all requests together, from their first byte on
    connections: int = 4096
    queued_samples: int = 256           # for each model; beyond that a client is told to come later
    rows: int = 8                       # samples in one request, and in one batch
    head_s: float = 10.0                # from the connection, or the last answer, to a whole head
    first_byte_s: float = 10.0          # from the head to the first byte of a body
    body_s: float = 60.0                # from the head to the last byte of it
    least_bytes_per_s: int = 8192       # of a body, once `first_byte_s` have passed
    request_s: float = 30.0             # from the whole body to the answer's first byte
    answer_s: float = 30.0              # for a client to read its answer
    keep_alive_s: float = 15.0          # an idle connection
    drain_s: float = 30.0               # after SIGTERM, for what was already accepted
    picture_s: float = 5.0              # for one picture to be decoded
    picture_memory_bytes: int = 1024 * MIB      # address space of a decoding process


def limits_with(given: Sequence[str]) -> Limits:
    """The defaults, but for those that are given as NAME=NUMBER."""
    limits, kinds = Limits(), {f.name: type(getattr(Limits, f.name)) for f in fields(Limits)}
    for text in given:
        name, _, number = text.partition("=")
        if name not in kinds:
            raise BadInput(f"no limit {name!r}", why=f"there is {', '.join(kinds)}")
        try:
            value = kinds[name](number)
        except ValueError:
            value = 0
        if not 0 < value < 1 << 40:
            raise BadInput(f"limit {text}", why=f"no {kinds[name].__name__} above 0")
        limits = replace(limits, **{name: value})
    if limits.queued_samples < limits.rows:
        raise BadInput(f"a queue of {limits.queued_samples} samples",
                       why=f"a batch has up to {limits.rows}")
    return limits


@dataclass(frozen=True)
class WireLimits:
    """What may stand in one message, checked before anything is allocated for it."""

    json_bytes: int = 4 * MIB
    tensors: int = 16
    dims: int = 8
    elements_bytes: int = 16 * MIB      # of one tensor, as its shape says
    strings: int = 64                   # elements of a BYTES tensor
    name_length: int = 200
