"""LitServe around the very engine that `handtorch serve` runs; started by serving.py.

    python benchmarks/serving_litserve.py MODEL PORT ROWS WAIT_S

A tensor comes as a form with one file and goes as bytes: of what LitServe takes, the least work."""

import sys
from typing import Any

import litserve
import numpy as np
from fastapi import Request, Response

from handtorch.cloud.engines import CPU, ZooModel, open_engine


class Api(litserve.LitAPI):     # type: ignore[misc]
    model = ""                  # set before it travels to its process

    def setup(self, device: str) -> None:
        name, _, form = self.model.partition(":")
        self.engine = open_engine(ZooModel(name, form), CPU)

    def decode_request(self, request: Request) -> Any:    # LitServe looks at the annotation
        port = self.engine.inputs[0]
        return np.frombuffer(request["x"].file.read(), port.dtype).reshape(port.shape)

    def batch(self, inputs: Any) -> Any:
        return np.stack(inputs)

    def predict(self, x: Any) -> Any:
        return self.engine.run((x,))[0]

    def unbatch(self, output: Any) -> Any:
        return list(output)

    def encode_response(self, output: Any) -> Any:
        return Response(content=output.tobytes())


if __name__ == "__main__":
    model, port, rows, wait_s = sys.argv[1:]
    api = Api(max_batch_size=int(rows), batch_timeout=float(wait_s), api_path="/infer")
    api.model = model
    litserve.LitServer(api, accelerator="cpu", timeout=30).run(
        host="127.0.0.1", port=int(port), generate_client_file=False, log_level="error")
