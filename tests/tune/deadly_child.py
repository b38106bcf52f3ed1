"""The tuner's child with a driver from hell: some variants of gemm_register, bmm and conv_tile
really crash, hang, compute nonsense or do not compile. Everything else is as it ships."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

from handtorch.kernels.catalog import KERNELS
from handtorch.kernels.render import shared_text
from handtorch.kernels.spec import Defines
from handtorch.tune import child

# Values of R.
CRASH, HANG, WRONG, BROKEN, WRONG_EPILOGUE, WRONG_UPDATE, SLOW = 2, 3, 5, 7, 9, 10, 11
# Of each kernel: its first line, what makes a problem more than the smallest, and other work.
_KERNELS = {"gemm_register": ("    const size_t m = M, n = N,", "K > 8", "BIAS", "SGD"),
            "bmm": ("    const size_t m = M, n = N,", "K > 8", "0", "0"),
            "conv_tile": ("    const int GH = ", "N > 1", "BIAS", "0")}


def text_of(kernel: str, defines: Defines) -> str:
    body, (start, large, epilogue, update) = shared_text(f"{kernel}.cl"), _KERNELS[kernel]
    assert body.count(start) == 1
    first = {CRASH: "*(volatile __global float *)(size_t)16 = 1.0f;",
             HANG: "for (volatile int on = 1; on;) {}",
             WRONG: "if (get_global_id(0) == 0) return;",
             BROKEN: "this is no C;",
             WRONG_EPILOGUE: f"if ({epilogue} && get_global_id(0) == 0) return;",
             SLOW: f"for (volatile int on = {large}; on;) {{}}",
             WRONG_UPDATE: f"if ({update} && get_global_id(0) == 0) return;"}
    macros = "".join(f"#define {k} {v}\n" for k, v in defines.items())
    return macros + body.replace(start, f"    {first.get(int(defines['R']), '')}\n{start}")


if __name__ == "__main__":
    for name in _KERNELS:
        KERNELS[name] = replace(KERNELS[name], text=partial(text_of, name))
    child.main(sys.argv[1])
