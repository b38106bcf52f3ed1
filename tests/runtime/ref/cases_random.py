"""Cases of the random family: bits that the authors of Philox published, and what follows."""

from __future__ import annotations

import numpy as np
import torch

_ONES = np.array([0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF], "u4")
_ZERO = np.zeros(3, "u4")
# Counter and key all 0 (Random123's kat_vectors).
_BLOCK = np.array([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], "u4")
_U = (_BLOCK >> np.uint32(8)) * 2.0**-24
_F = _U.astype("f4")                      # normal numbers are rounded as the reference rounds them
_R, _A = np.sqrt(np.float32(-2) * np.log(1 - _F[::2])), np.float32(2 * np.pi) * _F[1::2]
_N = np.stack([_R * np.cos(_A), _R * np.sin(_A)], -1).reshape(-1)

CASES = [
    ("rand", [_ZERO], {"shape": (4,), "stream": 0}, lambda s: torch.from_numpy(_U)),
    ("rand", [_ZERO], {"shape": (3, 1), "stream": 0}, lambda s: torch.from_numpy(_U[:3, None])),
    ("randn", [_ZERO], {"shape": (3,), "stream": 0}, lambda s: torch.from_numpy(_N[:3])),
    ("randint", [_ZERO], {"shape": (2, 2), "stream": 0, "low": -5, "high": 6},
     lambda s: torch.from_numpy((_BLOCK.astype("f8") * 11 / 2**32).astype("i4").reshape(2, 2) - 5)),
    ("rng_next", [_ONES], {}, lambda s: torch.from_numpy(np.array([2**32 - 1, 2**32 - 1, 0]))),
]
