"""Ray Serve around the very engine that `handtorch serve` runs; started by serving.py.

    python benchmarks/serving_ray.py MODEL PORT ROWS WAIT_S

A tensor comes and goes as bytes. Ray's own limits (5 requests at a time) are lifted to what the
others allow, and its worker gets as many threads as theirs."""

from __future__ import annotations

import logging
import os
import sys
import time

import numpy as np
import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

from handtorch.cloud.engines import CPU, ZooModel, open_engine

MODEL, PORT, ROWS, WAIT_S = sys.argv[1:] if len(sys.argv) == 5 else ("", "0", "8", "0.002")


@serve.deployment(max_ongoing_requests=8 * int(ROWS), ray_actor_options={"num_cpus": 1})
class Served:
    def __init__(self, model: str) -> None:
        import torch
        name, _, form = model.partition(":")
        self.engine = open_engine(ZooModel(name, form), CPU)
        torch.set_num_threads(len(os.sched_getaffinity(0)))

    @serve.batch(max_batch_size=int(ROWS), batch_wait_timeout_s=float(WAIT_S))
    async def joined(self, bodies: list[bytes]) -> list[bytes]:
        port = self.engine.inputs[0]
        x = np.stack([np.frombuffer(b, port.dtype).reshape(port.shape) for b in bodies])
        return [row.tobytes() for row in self.engine.run((x,))[0]]

    async def __call__(self, request: Request) -> Response:
        return Response(await self.joined(await request.body()))


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(PORT)})
    serve.run(Served.bind(MODEL), route_prefix="/infer")
    while True:
        time.sleep(1)
