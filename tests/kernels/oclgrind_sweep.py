"""Runs cases under Oclgrind, one after another; a child process of `oclgrind_run.py`.

    python oclgrind_sweep.py LOG PHONE NAME...       cases for all devices or for that phone
    python oclgrind_sweep.py LOG PHONE planted:NAME  kernels with a fault, to see it found

Prints a line of JSON before and after each case, so that a crash can be laid to its case too.
Settings come by environment: see `run` in `oclgrind_run.py`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from handtorch.errors import HandTorchError
from handtorch.graph.node import Value
from handtorch.kernels.case import Case
from handtorch.kernels.catalog import KERNELS, all_cases
from handtorch.kernels.spec import Defines, Geometry, Kernel, Sizes
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import choose
from handtorch.selftest import run_case
from tests.kernels.phone_cases import FAMILIES, phone_cases
from tests.kernels.phones import PHONES

MOST_TOLD = 4000                    # characters of a case: one fault has thousands of victims
# y[i] = x[i] for 8 items, each with one fault; none changes a number, as in real life.
FAULTS = {
    "reads behind": "y[i] = i < 7 ? x[x_at + i] : x[x_at + i + 1] * 0.0f + x[x_at + i];",
    "writes behind": "y[y_at + i] = x[x_at + i]; if (i == 7) y[y_at + 8] = 1.0f;",
    "reads before": "y[y_at + i] = x[x_at + i] + 0.0f * x[x_at + i - 1];",
    "global race": "y[y_at] = x[x_at]; y[y_at + i] = x[x_at + i];",
    "local race": "__local float l[8]; l[i] = x[x_at + i]; "
                  "float other = l[7 - i] * 0.0f; y[y_at + i] = l[i] + other;",
    "uninitialised local": "__local float l[8]; y[y_at + i] = x[x_at + i] + 0.0f * l[i];",
    "uninitialised private": "float p[2]; if (i > 8) p[0] = 1.0f; "
                             "y[y_at + i] = x[x_at + i] + 0.0f * p[0];",
    "too many items": "y[y_at + i] = x[x_at + i];",
    "too much local memory": "__local float l[8193]; l[i * 1024] = x[x_at + i]; "
                             "barrier(CLK_LOCAL_MEM_FENCE); "
                             "y[y_at + i] = x[x_at + i] + 0.0f * l[(7 - i) * 1024];",
    "nothing": "y[y_at + i] = x[x_at + i];",
    "end of the process": "",
}


# Kernels of ours in the device's own tiles, told that a size is larger by one: rows, images,
# height of the picture, units. By kernel: the family of its cases, which of its scalars.
ONE_MORE = {"gemm_register": ("table", 0), "gemm_dot": ("table", 0), "bmm": ("bmm", 0),
            "conv_tile": ("conv", 0), "conv_weight": ("conv", 10), "rnn_forward": ("rnn", 1)}


def planted(phone: str) -> Iterator[Case]:
    spec = PHONES[phone]
    for name, body in FAULTS.items():
        items = 2 * spec.max_work_group if name == "too many items" else 8
        x = np.arange(items, dtype="f4")
        kernel = Kernel("planted", ("r", "w"), _one_group, defaults={"BODY": body}, text=_text)
        KERNELS["planted"] = kernel
        step = kernel.step([Value(0, x.shape), Value(1, x.shape)], {"ITEMS": items})
        yield Case(f"planted:{name}", (step,), {0: x}, {1: x.astype("f8")})
    for name, (family, at) in ONE_MORE.items():
        case = next(c for c in FAMILIES[family](spec) if c.steps[-1].kernel == name)
        *before, last = case.steps
        scalars = tuple((kind, size + (i == at)) for i, (kind, size) in enumerate(last.scalars))
        wrong = replace(last, scalars=scalars)
        yield replace(case, name=f"planted:one more {name}", steps=(*before, wrong))


def _one_group(_: Defines, sizes: Sizes) -> Geometry:
    return (int(sizes["ITEMS"]),), (int(sizes["ITEMS"]),)


def _text(defines: Defines) -> str:
    return f"""
__kernel void planted(__global const float *x, const uint x_at,
                      __global float *y, const uint y_at) {{
    const size_t i = get_global_id(0);
    {defines["BODY"]}
}}"""


def cases(phone: str, names: set[str]) -> Iterator[Case]:
    """Those of the names; no dearer than they are."""
    real = {n for n in names if not n.startswith("planted:")}
    chosen = phone_cases(PHONES[phone]) if phone in PHONES else ()
    for case in chain(chosen, all_cases()) if real else ():
        if case.name in real:
            real.remove(case.name)
            yield case
        if not real:
            break
    if any(n.startswith("planted:") for n in names):
        yield from (c for c in planted(phone) if c.name in names)


def main(log: Path, phone: str, names: set[str]) -> None:
    on = OpenCLContext(choose("oclgrind"))
    spec = on.spec
    print(json.dumps({"limits": [spec.max_work_group, spec.local_bytes, spec.constant_bytes]}),
          flush=True)
    for case in cases(phone, names):
        print(json.dumps({"starts": case.name}), flush=True)
        if case.name == "planted:end of the process":
            os.abort()
        start = log.stat().st_size if log.exists() else 0
        try:
            error, said = min(case.error(run_case(on, case)), 1e9), ""
        except (HandTorchError, on.cl.Error) as e:
            error, said = 1e9, f"{e}\n"
        report = said + (log.read_text()[start:].strip() if log.exists() else "")
        print(json.dumps({"case": case.name, "error": error, "report": report[:MOST_TOLD]}),
              flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], set(sys.argv[3:]))
