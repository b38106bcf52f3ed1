"""Runs cases under Oclgrind, one after another; a child process of `test_oclgrind.py`.

    python oclgrind_sweep.py LOG NAME...       the kernels' own cases, all if none is named
    python oclgrind_sweep.py LOG planted:NAME  kernels with a fault, to see it found

Prints a line of JSON before and after each case, so that a crash can be laid to its case too.
Settings come by environment: see `run` in the test."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from handtorch.errors import HandTorchError
from handtorch.graph.node import Value
from handtorch.kernels.case import Case
from handtorch.kernels.catalog import KERNELS, all_cases
from handtorch.kernels.spec import Defines, Kernel
from handtorch.runtime.opencl.context import OpenCLContext
from handtorch.runtime.opencl.discover import choose
from handtorch.selftest import run_case

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
    "nothing": "y[y_at + i] = x[x_at + i];",
    "end of the process": "",
}


def planted() -> Iterator[Case]:
    x = np.arange(8, dtype="f4")
    for name, body in FAULTS.items():
        kernel = Kernel("planted", ("r", "w"), lambda _, __: ((8,), (8,)),
                        defaults={"BODY": body}, text=_text)
        KERNELS["planted"] = kernel
        step = kernel.step([Value(0, (8,)), Value(1, (8,))])
        yield Case(f"planted:{name}", (step,), {0: x}, {1: x.astype("f8")})


def _text(defines: Defines) -> str:
    return f"""
__kernel void planted(__global const float *x, const uint x_at,
                      __global float *y, const uint y_at) {{
    const size_t i = get_global_id(0);
    {defines["BODY"]}
}}"""


def main(log: Path, names: list[str]) -> None:
    on = OpenCLContext(choose("oclgrind"))
    limits = {"work_group": on.spec.max_work_group, "local_bytes": on.spec.local_bytes}
    print(json.dumps({"limits": limits}), flush=True)
    for case in (*all_cases(), *planted()):
        wanted = case.name in names if names else not case.name.startswith("planted:")
        if not wanted:
            continue
        print(json.dumps({"starts": case.name}), flush=True)
        if case.name == "planted:end of the process":
            os.abort()
        start = log.stat().st_size if log.exists() else 0
        try:
            error, said = min(case.error(run_case(on, case)), 1e9), ""
        except (HandTorchError, on.cl.Error) as e:
            error, said = 1e9, f"{e}\n"
        report = said + (log.read_text()[start:].strip() if log.exists() else "")
        print(json.dumps({"case": case.name, "error": error, "report": report}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
