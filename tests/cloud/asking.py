"""A client for tests of a running server, and the processes below it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from handtorch.cloud.batching import Array
from handtorch.cloud.client import Connection
from handtorch.cloud.protocol import Request, Tensor, encode_request


class Asking:
    """One connection; every answer but 200 is an error."""

    def __init__(self, url: str, model: str) -> None:
        self._link, self._at = Connection(url), f"/v2/models/{model}"
        self._input = self._link.get(self._at)["inputs"][0]["name"]

    def scores(self, x: Array) -> Array:
        self._link.send(f"{self._at}/infer", encode_request(Request((Tensor.of(self._input, x),))))
        values = self._link.answer(self._at).outputs[0].values
        assert isinstance(values, np.ndarray)
        return values


def replica_pids(above: int) -> list[int]:
    """Ray's replicas below this process, by the titles that Ray gives them."""
    parents, titles = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat, title = (folder / "stat").read_text(), (folder / "cmdline").read_bytes()
        except OSError:
            continue                        # it has ended meanwhile
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
        titles[int(folder.name)] = title

    def below(pid: int) -> bool:
        while pid > 1:
            if pid == above:
                return True
            pid = parents.get(pid, 0)
        return False

    return sorted(p for p, title in titles.items() if b"ServeReplica" in title and below(p))
