"""What no query tells about a platform: the one table in which OpenCL platforms differ.

Learned by trying; a platform that is not listed gets the cautious `UNKNOWN` entry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class PlatformFacts:
    """`match` is a part of the platform's name, lower case.

    short             how users call its first device
    by_default        may be chosen when the user names no device
    own_kernel_cache  compiled kernels are kept by the platform itself (PoCL: `POCL_CACHE_DIR`)
    binaries_cheap    asking a built program for its binary costs nothing; on PoCL it compiles
                      every kernel again (18 s for 150)
    wide_grid         from this many work-items in one dimension on, a kernel is compiled once more;
                      0 where that makes no difference
    sub_devices       a part of the device really runs on that part only
    """

    match: str
    short: str
    by_default: bool = True
    own_kernel_cache: bool = False
    binaries_cheap: bool = True
    wide_grid: int = 0
    sub_devices: bool = True


# First match wins: Intel's GPU platform is named "Intel(R) OpenCL HD Graphics" or "... Graphics".
PLATFORMS = (
    PlatformFacts("portable computing language", "pocl", own_kernel_cache=True,
                  binaries_cheap=False, wide_grid=0xFFFF),
    PlatformFacts("fpga emulation", "fpga", by_default=False, sub_devices=False),
    PlatformFacts("opencl hd graphics", "intel-gpu"),
    PlatformFacts("opencl graphics", "intel-gpu"),
    # A sub-device of one core computed with both: 205 of 214 GFLOPS.
    PlatformFacts("intel(r) opencl", "intel", sub_devices=False),
    PlatformFacts("intel(r) cpu runtime", "intel", sub_devices=False),
    # A checker, thousands of times slower than the device it stands for.
    PlatformFacts("oclgrind", "oclgrind", by_default=False, sub_devices=False),
    PlatformFacts("qualcomm", "adreno"),
    PlatformFacts("arm platform", "mali"),
    PlatformFacts("powervr", "powervr"),
    PlatformFacts("nvidia", "nvidia"),
    PlatformFacts("amd accelerated", "amd"),
    PlatformFacts("rusticl", "rusticl"),
)
UNKNOWN = PlatformFacts("", "", binaries_cheap=False)


def facts_of(platform: str) -> PlatformFacts:
    """The entry for a platform's name; an unknown one is called by its first word."""
    for entry in PLATFORMS:
        if entry.match in platform.lower():
            return entry
    words = re.findall(r"[a-z0-9]+", platform.lower())
    return replace(UNKNOWN, short=words[0] if words else "opencl")
