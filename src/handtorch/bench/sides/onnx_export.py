"""A model of the zoo as an ONNX file, by torch's own exporter, in a process of its own.

    python -m handtorch.bench.sides.onnx_export '{"case": ..., "folder": ...}' FILE.onnx"""

from __future__ import annotations

import json
import sys

import torch

from handtorch.bench.case import Asked
from handtorch.bench.sides.torch_model import with_weights
from handtorch.zoo.started import tensors


def export(asked: Asked, path: str) -> None:
    """The file holds the model in eval mode for this batch, with its weights."""
    model = with_weights(asked).model.eval()
    torch.onnx.export(model, tensors(asked.batches()[0]), path, dynamo=True, external_data=False)


if __name__ == "__main__":
    export(Asked.from_json(json.loads(sys.argv[1])), sys.argv[2])
