"""The tuner's child with a driver from hell: some variants of gemm_register really crash, hang,
compute nonsense or do not compile. Everything else is as it ships."""

from __future__ import annotations

import sys
from dataclasses import replace

from handtorch.kernels.catalog import KERNELS
from handtorch.kernels.render import shared_text
from handtorch.kernels.spec import Defines
from handtorch.tune import child

# Values of R.
CRASH, HANG, WRONG, BROKEN, WRONG_EPILOGUE, WRONG_UPDATE, SLOW = 2, 3, 5, 7, 9, 10, 11
_START = "    const size_t m = M, n = N,"
_FIRST = {
    CRASH: "*(volatile __global float *)(size_t)16 = 1.0f;",
    HANG: "for (volatile int on = 1; on;) {}",
    WRONG: "if (get_global_id(0) == 0) return;",
    BROKEN: "this is no C;",
    WRONG_EPILOGUE: "if (BIAS && get_global_id(0) == 0) return;",
    SLOW: "for (volatile int on = K > 8; on;) {}",
    WRONG_UPDATE: "if (SGD && get_global_id(0) == 0) return;",
}


def text(defines: Defines) -> str:
    body = shared_text("gemm_register.cl")
    assert body.count(_START) == 1
    first = _FIRST.get(int(defines["R"]), "")
    macros = "".join(f"#define {k} {v}\n" for k, v in defines.items())
    return macros + body.replace(_START, f"    {first}\n{_START}")


if __name__ == "__main__":
    KERNELS["gemm_register"] = replace(KERNELS["gemm_register"], text=text)
    child.main(sys.argv[1])
