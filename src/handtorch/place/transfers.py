"""Networks of which only the time of a transfer was measured: its mean and its deviation.

The table is cake-lab's (MDInference, its simulation's constants) in the optional data sets. It does
not say how many bytes were carried, so that a rate cannot be had from it alone: whoever wants a
`Network` says of how large a picture the time is to be, and that is then an assumption of theirs.
The round trip is part of the time and is not known apart from it: the network has none."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from pathlib import Path

from handtorch import knobs
from handtorch.errors import BadInput, StorageError
from handtorch.place.network import Network

TABLE = "data/tables/cakelab_mdinference_networks.csv"
_RADIO = {"Home": "wifi", "Campus": "wifi", "LTE SIM": "lte"}


@dataclass(frozen=True)
class Transfers:
    """How long one network took to carry something, the table does not say how much of it."""

    name: str
    mean_ms: float
    std_ms: float
    measured: bool              # else it was made up by the table's authors

    def drawn_ms(self, count: int, seed: int) -> tuple[float, ...]:
        """Times of transfers, normal and above 0, as the table's authors draw them."""
        rng = random.Random(f"{seed}/{self.name}")
        drawn: list[float] = []
        while len(drawn) < count:
            if (ms := rng.gauss(self.mean_ms, self.std_ms)) > 0:
                drawn.append(ms)
        return tuple(drawn)

    def network(self, picture_bytes: int, transfer_ms: float | None = None) -> Network:
        """One that carries `picture_bytes` in the mean time, or in `transfer_ms`, either way."""
        if self.name not in _RADIO:
            raise BadInput(f"network {self.name}", why="it was not measured, and has no radio",
                           fix=f"one of {', '.join(_RADIO)}")
        ms = self.mean_ms if transfer_ms is None else transfer_ms
        if picture_bytes < 1 or ms <= 0:
            raise BadInput(f"network {self.name}", why=f"{picture_bytes} B in {ms:g} ms is no rate")
        bps = picture_bytes * 8 / (ms / 1e3)
        return Network(self.name, bps, bps, 0.0, _RADIO[self.name],
                       f"MDInference's transfer time; of {picture_bytes} B by assumption, and with "
                       "the round trip in it", unconfirmed=("up", "down", "rtt"))


def read_transfers() -> tuple[Transfers, ...]:
    """All networks of the table below HANDTORCH_SHARED."""
    folder = knobs.value("HANDTORCH_SHARED")
    path = Path(folder, TABLE)
    if not folder or not path.is_file():
        raise StorageError("measured networks",
                           why=f"HANDTORCH_SHARED names no folder with {TABLE}",
                           fix="a network that ships, or a file of your own: docs/networks.md")
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return tuple(Transfers(row["network"], float(row["transfer_mean_ms"]),
                                   float(row["transfer_std_ms"]),
                                   row["measured_or_artificial"] == "measured")
                         for row in csv.DictReader(file))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise StorageError(f"table {path}", why=f"{type(error).__name__}: {error}") from error
