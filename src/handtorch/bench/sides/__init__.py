"""The sides of a comparison: ours and its peers, a file each with `make(asked) -> Subject`.

`python -m handtorch.bench.sides NAME` is a side's process. Nothing here is imported by another: a
library that one of them needs is loaded in its process alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from handtorch.bench.case import Task

OURS, FROM_FILE, TORCH, INDUCTOR = "handtorch", "handtorch-ht", "torch", "inductor"


@dataclass(frozen=True)
class SideKind:
    """`needs` are the modules that a Python must have to run it; `tasks` what it can do at all;
    `says` tells people how the engine is driven. Without `on_device` it runs on the host's cores
    as such, and not on the OpenCL device."""

    name: str
    file: str
    needs: tuple[str, ...]
    tasks: tuple[Task, ...]
    says: str
    options: Mapping[str, Any] = field(default_factory=dict)
    on_device: bool = False

    @property
    def module(self) -> str:
        return f"{__name__}.{self.file}"


_ALL = (
    SideKind(OURS, "ours", ("torch", "pyopencl"), ("train", "infer"),
             "captured by its own process, as a user does", on_device=True),
    SideKind(OURS, "ours_products", ("pyopencl",), ("product",),
             "the launches that lowering picks", on_device=True),
    SideKind(FROM_FILE, "ours", ("pyopencl",), ("train", "infer"),
             "a saved .ht file, without torch", {"file": True}, on_device=True),
    SideKind(TORCH, "torch_model", ("torch",), ("train", "infer"), "eager, all threads"),
    SideKind("torch-1", "torch_model", ("torch",), ("infer",), "eager, one thread",
             {"threads": 1}),
    SideKind(TORCH, "blas", ("torch",), ("product",), "torch.mm, all threads",
             {"library": "torch"}),
    SideKind(INDUCTOR, "torch_model", ("torch",), ("train", "infer"),
             "torch.compile of the whole step or model", {"compiled": True}),
    SideKind("onnxruntime", "onnx_runtime", ("onnxruntime", "onnx", "onnxscript", "torch"),
             ("infer",), "the model exported by torch.onnx; the CPU provider"),
    SideKind("tinygrad", "tinygrad_model", ("tinygrad",), ("train", "infer"),
             "its own tensors, optimizer and TinyJit on the same OpenCL device", on_device=True),
    SideKind("mnn", "mnn_model", ("MNN",), ("train", "infer"),
             "its nn and optim modules on the CPU"),
    SideKind("clblast", "clblast", ("pyopencl",), ("product",), "CLBlastSgemm on the same device",
             on_device=True),
    SideKind("numpy", "blas", (), ("product",), "numpy.dot, all threads", {"library": "numpy"}),
)
_TASKS: tuple[Task, ...] = ("train", "infer", "product")
SIDES: Mapping[Task, Mapping[str, SideKind]] = MappingProxyType({
    task: {kind.name: kind for kind in _ALL if task in kind.tasks} for task in _TASKS})
