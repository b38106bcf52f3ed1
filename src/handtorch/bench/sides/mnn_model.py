"""MNN's training and inference in Python on the CPU: its expressions, gradients and optimizers.

The model comes as a list of layers (`zoo/layers.py`), its weights as trainable variables. MNN's
own wheel (3.6.1) trains with `lazy_eval` only; without it `step` gives False."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import MNN
import numpy as np
from MNN import expr, nn

from handtorch.bench.case import LAYERS, Asked
from handtorch.bench.side import CannotRun, Subject
from handtorch.store.tensors import Array

Var = Any
Layer = Mapping[str, Any]


def make(asked: Asked) -> Subject:
    expr.set_thread_number(asked.threads)
    expr.lazy_eval(True)
    told = json.loads((asked.folder / LAYERS).read_text())
    if "why" in told:
        raise CannotRun(told["why"])
    for layer in told["layers"]:
        if layer["op"] not in OPS:
            raise CannotRun(f"the layer {layer['op']} is not done with MNN here")
    net = Net(told, asked.weights(), asked.case.task == "train")
    if asked.case.task == "train":
        return Training(net, told, asked.batches())
    return Inferring(net, asked.batches())


def _const(array: Array) -> Var:
    return expr.const(np.ascontiguousarray(array), list(array.shape), expr.NCHW)


class Net(nn.Module):  # type: ignore[misc]
    def __init__(self, told: Layer, weights: Mapping[str, Array], training: bool) -> None:
        super().__init__()
        self.__dict__["told"], self.__dict__["tensors"] = told, {}
        self.__dict__["training"] = training
        for number, (name, array) in enumerate(weights.items()):
            if array.dtype == np.float32:
                tensor = self.tensors[name] = _const(array)
                if "running_" not in name:
                    tensor.fix_as_trainable()
                    setattr(self, f"p{number}", tensor)
        self.train(training)

    def forward(self, x: Var) -> Var:
        known: dict[str, Var] = {}
        for layer in self.told["layers"]:
            named = {n: self.tensors.get(layer.get(n, "")) for n in
                     ("weight", "bias", "running_mean", "running_var")}
            known[layer["name"]] = x if layer["op"] == "input" else OPS[layer["op"]](
                [known[name] for name in layer["inputs"]],
                {**layer, **named, "training": self.training})
        return known[self.told["output"]]


def _conv(given: Sequence[Var], layer: Layer) -> Var:
    bias = layer["bias"]
    if bias is None:
        bias = _const(np.zeros(layer["weight"].shape[0], "f4"))
    out = expr.conv2d(expr.convert(given[0], expr.NC4HW4), layer["weight"], bias,
                      stride=_pair(layer["stride"]), padding=_pair(layer["padding"]),
                      dilate=_pair(layer["dilation"]), group=layer["groups"],
                      padding_mode=expr.Padding_Mode.CAFFE)
    return expr.convert(out, expr.NCHW)


def _linear(given: Sequence[Var], layer: Layer) -> Var:
    product = expr.matmul(given[0], layer["weight"], False, True)
    return product if layer["bias"] is None else product + layer["bias"]


def _batch_norm(given: Sequence[Var], layer: Layer) -> Var:
    if layer["training"]:
        raise CannotRun("batch-norm is not trained with MNN here", why="its expressions have no "
                        "gradient for means over several axes")
    wide = [1, -1, 1, 1]
    mean, spread, weight, bias = (expr.reshape(layer[n], wide) for n in
                                  ("running_mean", "running_var", "weight", "bias"))
    eps = expr.const([layer["eps"]], [1], expr.NCHW)
    return (given[0] - mean) * expr.rsqrt(spread + eps) * weight + bias


def _pair(size: Any) -> list[int]:
    return [size, size] if isinstance(size, int) else list(size)


def _pool(call: Callable[..., Var]) -> Callable[[Sequence[Var], Layer], Var]:
    def pool(given: Sequence[Var], layer: Layer) -> Var:
        kernel, stride = _pair(layer["kernel_size"]), _pair(layer["stride"])
        padding, side = _pair(layer["padding"]), given[0].shape[2]
        over = (side + 2 * padding[0] - kernel[0]) % stride[0]
        mode = expr.Padding_Mode.CAFFE
        if layer["ceil_mode"] and over:
            # The last window hangs over: `SAME` does that too, if it adds one row at the end.
            if any(padding) or (-(-side // stride[0]) - 1) * stride[0] + kernel[0] - side != 1:
                raise CannotRun("pooling that rounds up at this size is not done with MNN here")
            mode = expr.Padding_Mode.SAME
        out = call(expr.convert(given[0], expr.NC4HW4), kernel, stride, mode, padding)
        return expr.convert(out, expr.NCHW)
    return pool


def _adaptive(given: Sequence[Var], layer: Layer) -> Var:
    (x,), (rows, columns) = given, _pair(layer["output_size"])
    if x.shape[2] % rows or x.shape[3] % columns:
        raise CannotRun("adaptive pooling with windows of different sizes is not done here")
    size = [x.shape[2] // rows, x.shape[3] // columns]
    # By pooling: MNN has no gradient for a mean over several axes.
    return expr.convert(expr.avg_pool(expr.convert(x, expr.NC4HW4), size, size), expr.NCHW)


OPS: dict[str, Callable[[Sequence[Var], Layer], Var]] = {
    "input": lambda given, layer: given[0], "Identity": lambda given, layer: given[0],
    "Conv2d": _conv, "Linear": _linear, "BatchNorm2d": _batch_norm,
    "MaxPool2d": _pool(expr.max_pool), "AvgPool2d": _pool(expr.avg_pool),
    "AdaptiveAvgPool2d": _adaptive, "ReLU": lambda given, layer: expr.relu(given[0]),
    "ReLU6": lambda given, layer: expr.relu6(given[0]),
    "Tanh": lambda given, layer: expr.tanh(given[0]),
    "Flatten": lambda given, layer: expr.reshape(given[0], [0, -1]),
    "cat": lambda given, layer: expr.concat(list(given), layer["dim"]),
    "add": lambda given, layer: given[0] + given[1],
}


def _optimizer(told: Layer, net: Net) -> Any:
    if told["kind"] == "SGD" and not (told["dampening"] or told["nesterov"]):
        return MNN.optim.SGD(net, told["lr"], told["momentum"], told["weight_decay"])
    if told["kind"] == "Adam" and not told["weight_decay"]:
        return MNN.optim.ADAM(net, told["lr"], *told["betas"], 0.0, told["eps"])
    raise CannotRun(f"the optimizer {told['kind']} with these settings is not done with MNN here")


class Training:
    def __init__(self, net: Net, told: Layer, batches: Sequence[tuple[Array, ...]]) -> None:
        if told["loss"] != "cross_entropy" or batches[0][1].ndim != 1:
            raise CannotRun(f"the loss {told['loss']} is not done with MNN here")
        self.version = f"MNN {version('MNN')}"
        self._net, self._optimizer = net, _optimizer(told["optimizer"], net)
        self._batches = batches

    def once(self, number: int) -> Sequence[Array]:
        x, y = self._batches[number % len(self._batches)]
        scores = self._net.forward(_const(x))
        right = np.eye(scores.shape[1], dtype="f4")[y]
        loss = nn.loss.cross_entropy(expr.softmax(scores, 1), _const(right))
        value = np.array(loss.read(), "f4").reshape(())       # before the update changes it
        if not self._optimizer.step(loss):
            raise CannotRun("MNN's optimizer refuses the step", why="it has no gradient for it")
        return [value]

    def run(self, count: int) -> None:
        for i in range(count):
            self.once(i)


class Inferring:
    def __init__(self, net: Net, batches: Sequence[tuple[Array, ...]]) -> None:
        self.version, self._net, self._batches = f"MNN {version('MNN')}", net, batches

    def once(self, number: int) -> Sequence[Array]:
        (x,) = self._batches[number % len(self._batches)]
        return [np.array(self._net.forward(_const(x)).read(), "f4")]

    def run(self, count: int) -> None:
        for i in range(count):
            self.once(i)
