"""`clinfo` text -> plain facts, one dict per device, keyed by the field names of `DeviceSpec`.

Understood: what `clinfo` prints for people, `clinfo --raw`, and lists of `CL_DEVICE_...: value`
as small query programs print them. A fact the text does not tell is absent from the dict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from handtorch.errors import BadInput

Facts = dict[str, object]


def devices(text: str) -> list[Facts]:
    """The facts of every device described in `text`, in its order; may be empty."""
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(_AFTERWORD):
            break
        if pair := _pair(line):
            try:
                reader.take(*pair)
            except ValueError as bad:
                raise BadInput(f"clinfo text, line {number}",
                               why=f"{pair[0]} is {pair[1]!r}, expected {bad}",
                               fix="give the unshortened output of `clinfo`") from bad
    return reader.found


# What follows repeats names of devices already described, or tells of a kernel, not of a device.
_AFTERWORD = ("NULL platform behavior", "ICD loader properties", "Kernel info")

_RAW_PREFIX = re.compile(r"^\[[^\]]*\]\s*")
_LINES = (
    re.compile(r"^(?:---- )+\d+ ([^:]+):\s*(.*)$"),        # ---- ---- 0 Device Name: X
    re.compile(r"^\s*(CL_\w+)(?::\s*|\s{2,}|$)(.*)$"),      # CL_DEVICE_NAME: X, or --raw
    re.compile(r"^\s*(Platform index|Platform info|Device info)\s*:\s*(\d+)$"),
    re.compile(r"^\s+(\d): (\d+) in work group$"),          # one line per dimension
    re.compile(r"^ {0,6}(\S.*?)(?:\s{2,}(\S.*)|\s*)$"),     # clinfo: label, spaces, value
)


def _pair(line: str) -> tuple[str, str] | None:
    """Label and value of a line; continuation lines and noise give None or an unknown label."""
    line = _RAW_PREFIX.sub("", line.rstrip())
    for form in _LINES:
        if found := form.match(line):
            return found[1].strip(), (found[2] or "").strip()
    return None


class _Reader:
    """Files each pair under the device it belongs to.

    A device begins at `Device info`, at the first fact after a platform's name, and when a label
    comes a second time.
    """

    def __init__(self) -> None:
        self.found: list[Facts] = []
        self._platforms: list[Facts] = []
        self._platform: Facts = {}
        self._seen: set[str] = set()
        self._open = False

    def take(self, label: str, value: str) -> None:
        if label in ("Platform Name", "CL_PLATFORM_NAME"):
            self._enter_platform(value)
        elif label in ("Platform Version", "CL_PLATFORM_VERSION"):
            self._platform.setdefault("platform_version", value)
        elif label == "Platform index":
            if int(value) >= len(self._platforms):
                raise ValueError("the index of a platform listed above")
            self._platform, self._open = self._platforms[int(value)], False
        elif label == "Device info":
            self._open = False
        elif label in _LABELS:
            self._take_fact(label, value)
        elif label.isdigit() and self._open:    # "0: 256 in work group"
            sizes = self.found[-1].get("max_work_items", ())
            assert isinstance(sizes, tuple)
            self.found[-1]["max_work_items"] = (*sizes, int(value))

    def _enter_platform(self, name: str) -> None:
        """clinfo lists all platforms first and names each again above its devices."""
        self._open = False
        for known in self._platforms:
            if known["platform"] == name:
                self._platform = known
                return
        self._platform = {"platform": name}
        self._platforms.append(self._platform)

    def _take_fact(self, label: str, value: str) -> None:
        if not self._open or label in self._seen:
            self.found.append(dict(self._platform))
            self._seen, self._open = set(), True
        self._seen.add(label)
        fact, read = _LABELS[label]
        if value or fact == "extensions":
            known = read(value)
            if known is not None:
                self.found[-1][fact] = known


def _text(value: str) -> str:
    return value


def _number(value: str) -> int:
    """Leading digits: `8055664640 (7.502GiB)`, `1000ns`, `1024 bits (128 bytes)`."""
    if not (digits := re.match(r"\d+", value)):
        raise ValueError("a number")
    return int(digits[0])


def _bits(value: str) -> int:
    return _number(value) // 8


def clock(value: str) -> int | None:
    """Megahertz; some drivers say 0 or 1 (Adreno 650 and 730 do): that is not a clock."""
    mhz = _number(value)
    return mhz if mhz > 1 else None


def _sizes(value: str) -> tuple[int, ...]:
    sizes = tuple(map(int, re.findall(r"\d+", value)))
    if len(sizes) != 3:
        raise ValueError("three sizes")
    return sizes


def _width(value: str) -> int:
    """`native`, or `preferred / native` as clinfo writes it."""
    return _number(value.rpartition("/")[2].strip())


def _yes(value: str) -> bool:
    if value in ("Yes", "1", "CL_TRUE", "true"):
        return True
    if value in ("No", "0", "CL_FALSE", "false"):
        return False
    raise ValueError("yes or no")


def _dedicated(value: str) -> bool:
    return value.removeprefix("CL_").upper() == "LOCAL"


def _kind(value: str) -> str:
    """Exactly one of the three words; a simulator that claims to be all of them is `other`."""
    words = [w for w in ("gpu", "cpu", "accelerator") if w in value.lower()]
    return words[0] if len(words) == 1 else "other"


def c_version(value: str) -> str:
    """`OpenCL C 1.2 PoCL` -> `1.2`."""
    if not (found := re.match(r"OpenCL C (\d+\.\d+)", value)):
        raise ValueError("`OpenCL C` and a version")
    return found[1]


def _words(value: str) -> tuple[str, ...]:
    return tuple(value.split())


Read = Callable[[str], object]
# fact, how to read it, its label in clinfo, its name in the OpenCL API
_TABLE: tuple[tuple[str, Read, str, str], ...] = (
    ("name", _text, "Device Name", "CL_DEVICE_NAME"),
    ("vendor", _text, "Device Vendor", "CL_DEVICE_VENDOR"),
    ("device_version", _text, "Device Version", "CL_DEVICE_VERSION"),
    ("driver", _text, "Driver Version", "CL_DRIVER_VERSION"),
    ("opencl_c", c_version, "Device OpenCL C Version", "CL_DEVICE_OPENCL_C_VERSION"),
    ("kind", _kind, "Device Type", "CL_DEVICE_TYPE"),
    ("compute_units", _number, "Max compute units", "CL_DEVICE_MAX_COMPUTE_UNITS"),
    ("clock_mhz", clock, "Max clock frequency", "CL_DEVICE_MAX_CLOCK_FREQUENCY"),
    ("max_work_items", _sizes, "Max work item sizes", "CL_DEVICE_MAX_WORK_ITEM_SIZES"),
    ("max_work_group", _number, "Max work group size", "CL_DEVICE_MAX_WORK_GROUP_SIZE"),
    ("group_multiple", _number, "Preferred work group size multiple (device)",
     "CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE"),
    ("group_multiple", _number, "Preferred work group size multiple (kernel)",
     "CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE"),
    ("float_width", _width, "float", "CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT"),
    ("global_bytes", _number, "Global memory size", "CL_DEVICE_GLOBAL_MEM_SIZE"),
    ("largest_allocation_bytes", _number, "Max memory allocation", "CL_DEVICE_MAX_MEM_ALLOC_SIZE"),
    ("unified_memory", _yes, "Unified memory for Host and Device", "CL_DEVICE_HOST_UNIFIED_MEMORY"),
    ("base_align_bytes", _bits, "Alignment of base address", "CL_DEVICE_MEM_BASE_ADDR_ALIGN"),
    ("images", _yes, "Image support", "CL_DEVICE_IMAGE_SUPPORT"),
    ("local_is_dedicated", _dedicated, "Local memory type", "CL_DEVICE_LOCAL_MEM_TYPE"),
    ("local_bytes", _number, "Local memory size", "CL_DEVICE_LOCAL_MEM_SIZE"),
    ("constant_bytes", _number, "Max constant buffer size", "CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE"),
    ("max_parameter_bytes", _number, "Max size of kernel argument", "CL_DEVICE_MAX_PARAMETER_SIZE"),
    ("timer_ns", _number, "Profiling timer resolution", "CL_DEVICE_PROFILING_TIMER_RESOLUTION"),
    ("extensions", _words, "Device Extensions", "CL_DEVICE_EXTENSIONS"),
)
_LABELS: Mapping[str, tuple[str, Read]] = {
    label: (fact, read) for fact, read, *both in _TABLE for label in both
}
