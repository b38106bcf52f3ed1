"""Arrays in, arrays out: a model that a server has loaded, asked for scores."""

from __future__ import annotations

import numpy as np

from handtorch.cloud.batching import Array
from handtorch.cloud.client import Connection
from handtorch.cloud.protocol import Request, Tensor, encode_request


class Asking:
    """One connection, one model of one input; every answer but 200 is an error."""

    def __init__(self, url: str, model: str) -> None:
        self._link, self._at = Connection(url), f"/v2/models/{model}"
        told = self._link.get(self._at)["inputs"][0]
        self._input = str(told["name"])
        self.row_shape: tuple[int, ...] = tuple(told["shape"][1:])

    def scores(self, x: Array) -> Array:
        self._link.send(f"{self._at}/infer", encode_request(Request((Tensor.of(self._input, x),))))
        values = self._link.answer(self._at).outputs[0].values
        assert isinstance(values, np.ndarray)
        return values

    def close(self) -> None:
        self._link.close()
