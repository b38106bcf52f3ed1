"""tinygrad on the same OpenCL device: its own tensors, optimizers and TinyJit.

The model comes as a list of layers (`zoo/layers.py`); what that cannot say, or what is not done
here, is not run. The first run is plain, the second is recorded by TinyJit, later ones replay."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from tinygrad import Device, Tensor, TinyJit
from tinygrad.helpers import Context
from tinygrad.nn import optim
from tinygrad.runtime.autogen import opencl
from tinygrad.runtime.ops_cl import CLDevice

from handtorch.bench.case import LAYERS, Asked
from handtorch.bench.side import CannotRun, Subject
from handtorch.store.tensors import Array

DEVICE = "CL"


def ready(asked: Asked) -> None:
    """The driver is loaded, and the device open."""
    use_device(asked.spec)
    Device[DEVICE]


def make(asked: Asked) -> Subject:
    told = json.loads((asked.folder / LAYERS).read_text())
    if "why" in told:
        raise CannotRun(told["why"])
    net = Net(told, asked.weights())
    batches = [tuple(Tensor(a, device=DEVICE).realize() for a in batch)
               for batch in asked.batches()]
    if asked.case.task == "train":
        return Training(net, told, batches)
    return Inferring(net, batches)


def use_device(spec: Mapping[str, str]) -> None:
    """tinygrad opens the first platform's devices; here it gets the one that was named."""
    count = ctypes.c_uint32()
    opencl.clGetPlatformIDs(0, None, count)
    platforms = (opencl.cl_platform_id * count.value)()
    opencl.clGetPlatformIDs(count.value, platforms, None)
    names = []
    for platform in platforms:
        opencl.clGetDeviceIDs(platform, opencl.CL_DEVICE_TYPE_ALL, 0, None, count)
        devices = (opencl.cl_device_id * count.value)()
        opencl.clGetDeviceIDs(platform, opencl.CL_DEVICE_TYPE_ALL, count.value, devices, None)
        for device in devices:
            text = ctypes.create_string_buffer(256)
            opencl.clGetDeviceInfo(device, opencl.CL_DEVICE_NAME, 256, text, None)
            names.append(text.value.decode(errors="replace").strip())
            if names[-1] == spec["name"]:
                CLDevice.device_ids = (opencl.cl_device_id * 1)(device)
                return
    raise CannotRun(f"its OpenCL loader does not see {spec['name']}",
                    why=f"it sees {', '.join(names) or 'none'}")


class Net:
    def __init__(self, told: Mapping[str, Any], weights: Mapping[str, Array]) -> None:
        self._told = told
        self.tensors = {name: Tensor(a, device=DEVICE).realize() for name, a in weights.items()
                        if a.dtype == np.float32}
        self.trained = [t for name, t in self.tensors.items() if "running_" not in name]
        for name, tensor in self.tensors.items():
            tensor.is_param_("running_" not in name)
        for layer in told["layers"]:
            if layer["op"] not in OPS:
                raise CannotRun(f"the layer {layer['op']} is not done with tinygrad here")

    def __call__(self, x: Tensor, training: bool) -> Tensor:
        known: dict[str, Tensor] = {}
        for layer in self._told["layers"]:
            given = [known[name] for name in layer["inputs"]]
            named = {n: self.tensors.get(layer.get(n, "")) for n in
                     ("weight", "bias", "running_mean", "running_var")}
            known[layer["name"]] = x if layer["op"] == "input" else OPS[layer["op"]](
                given, {**layer, **named, "training": training})
        return known[self._told["output"]]


def _batch_norm(given: Sequence[Tensor], layer: Mapping[str, Any]) -> Tensor:
    """As tinygrad's own nn.BatchNorm, on the tensors that were handed over."""
    (x,) = given
    mean, variance = layer["running_mean"], layer["running_var"]
    if layer["training"]:
        axes, rate = (0, 2, 3), layer["momentum"]
        of_batch = x.mean(axis=axes)
        centred = x - of_batch.detach().reshape(1, -1, 1, 1)
        spread = (centred * centred).mean(axis=axes)
        several = x.numel() / (x.numel() - x.shape[1])
        mean.assign((1 - rate) * mean + rate * of_batch.detach())
        variance.assign((1 - rate) * variance + rate * several * spread.detach())
        mean, variance = of_batch, spread
    return x.batchnorm(layer["weight"], layer["bias"], mean, variance.add(layer["eps"]).rsqrt())


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else tuple(size)


def _pool(kind: str) -> Callable[[Sequence[Tensor], Mapping[str, Any]], Tensor]:
    def pool(given: Sequence[Tensor], layer: Mapping[str, Any]) -> Tensor:
        return getattr(given[0], kind)(_pair(layer["kernel_size"]), _pair(layer["stride"]),
                                       padding=_pair(layer["padding"]),
                                       ceil_mode=layer["ceil_mode"])
    return pool


def _adaptive(given: Sequence[Tensor], layer: Mapping[str, Any]) -> Tensor:
    (x,), (rows, columns) = given, _pair(layer["output_size"])
    if x.shape[2] % rows or x.shape[3] % columns:
        raise CannotRun("adaptive pooling with windows of different sizes is not done here")
    size = x.shape[2] // rows, x.shape[3] // columns
    return x.avg_pool2d(size, size)


OPS: dict[str, Callable[[Sequence[Tensor], Mapping[str, Any]], Tensor]] = {
    "input": lambda given, layer: given[0],
    "Conv2d": lambda given, layer: given[0].conv2d(
        layer["weight"], layer["bias"], layer["groups"], tuple(layer["stride"]),
        tuple(layer["dilation"]), tuple(layer["padding"])),
    "Linear": lambda given, layer: given[0].linear(layer["weight"].transpose(), layer["bias"]),
    "BatchNorm2d": _batch_norm, "MaxPool2d": _pool("max_pool2d"), "AvgPool2d": _pool("avg_pool2d"),
    "AdaptiveAvgPool2d": _adaptive, "Identity": lambda given, layer: given[0],
    "ReLU": lambda given, layer: given[0].relu(), "Tanh": lambda given, layer: given[0].tanh(),
    "ReLU6": lambda given, layer: given[0].clip(0, 6),
    "Flatten": lambda given, layer: given[0].flatten(layer["start_dim"]),
    "cat": lambda given, layer: given[0].cat(*given[1:], dim=layer["dim"]),
    "add": lambda given, layer: given[0] + given[1],
}


def _optimizer(told: Mapping[str, Any], net: Net) -> optim.Optimizer:
    tensors, lr = list(net.tensors.values()), told["lr"]
    if told["kind"] == "SGD" and not told["dampening"]:
        return optim.SGD(tensors, lr, told["momentum"], told["weight_decay"], told["nesterov"])
    if told["kind"] in ("Adam", "AdamW"):
        decay = told["weight_decay"]
        if told["kind"] == "Adam" and not decay:
            return optim.Adam(tensors, lr, *told["betas"], told["eps"])
        if told["kind"] == "AdamW":
            return optim.AdamW(tensors, lr, *told["betas"], told["eps"], decay)
    raise CannotRun(f"the optimizer {told['kind']} with these settings is not done with tinygrad")


class Training:
    def __init__(self, net: Net, told: Mapping[str, Any],
                 batches: Sequence[tuple[Tensor, ...]]) -> None:
        if told["loss"] != "cross_entropy":
            raise CannotRun(f"the loss {told['loss']} is not done with tinygrad here")
        self.version = f"tinygrad {version('tinygrad')}"
        self._batches = batches
        optimizer = _optimizer(told["optimizer"], net)

        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = net(x, True).cross_entropy(y).backward()
            return loss.realize(*optimizer.schedule_step())
        self._step = TinyJit(step)

    def _once(self, number: int) -> Tensor:
        with Context(TRAINING=1):
            return self._step(*self._batches[number % len(self._batches)])

    def once(self, number: int) -> Sequence[Array]:
        return [np.array(self._once(number).item(), "f4")]

    def run(self, count: int) -> None:
        for i in range(count):
            last = self._once(i)
        last.item()


class Inferring:
    def __init__(self, net: Net, batches: Sequence[tuple[Tensor, ...]]) -> None:
        self.version = f"tinygrad {version('tinygrad')}"
        self._batches, self._call = batches, TinyJit(lambda x: net(x, False).realize())

    def once(self, number: int) -> Sequence[Array]:
        return [self._call(*self._batches[number % len(self._batches)]).numpy()]

    def run(self, count: int) -> None:
        for i in range(count):
            self.once(i)
