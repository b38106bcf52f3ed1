"""HandTorch: train and run PyTorch models on the GPU or CPU in your hand, through OpenCL.

`import handtorch` needs neither torch nor a driver: names are loaded when they are first used."""

from importlib import import_module
from typing import Any

from handtorch.late_dynamo import postpone as _postpone

__version__ = "0.1.0"

_HOMES = {
    "train_step": "handtorch.api.make", "inference": "handtorch.api.make",
    "stream": "handtorch.api.make", "Stream": "handtorch.api.stream",
    "load": "handtorch.api.load", "read_checkpoint": "handtorch.api.checkpoint",
    "TrainStep": "handtorch.api.step", "Inference": "handtorch.api.inference",
    "Loss": "handtorch.api.loss", "Limits": "handtorch.api.limits",
    "lend": "handtorch.runtime.lent", "profile": "handtorch.profile",
    "offload": "handtorch.offload", "Place": "handtorch.offload.place",
    "split": "handtorch.offload.split",
    "place": "handtorch.place", "Target": "handtorch.place.decide",
    "HandTorchError": "handtorch.errors", "DeviceSpec": "handtorch.graph.device_spec",
}
__all__ = [*sorted(_HOMES), "__version__"]

_postpone()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'handtorch' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    return home if _HOMES[name] == f"handtorch.{name}" else getattr(home, name)
