"""What kernels, lowering and planning need to know of a device: facts only, no handles.

A spec comes from a live device (`runtime/opencl/discover.py`), from a JSON record, or from the
`clinfo` text of a phone that is not here.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypedDict

from handtorch.errors import BadInput
from handtorch.graph import clinfo

KINDS = ("gpu", "cpu", "accelerator", "other")


@dataclass(frozen=True)
class DeviceSpec:
    """The facts of one OpenCL device; sizes in bytes, `None` where the source did not say.

    `assumed` names facts that the source left out and that hold the weakest value the OpenCL
    specification allows, so code that relies on them is safe, though not always best.

    `tuned` and `avoid` are no facts of the device but what `handtorch tune` found on it, in the
    words of `kernels/variant.py`: the best variant of a problem, and what failed as built.
    They are no part of `to_dict`; `pipeline.with_tuned` fills them in.

    >>> spec = step.program.spec
    >>> spec.kind in ("gpu", "cpu", "accelerator", "other") and spec.global_bytes > 0
    True
    """

    name: str
    vendor: str
    platform: str
    platform_version: str
    device_version: str
    opencl_c: str
    driver: str
    kind: str
    compute_units: int
    max_work_group: int
    max_work_items: tuple[int, int, int]
    local_bytes: int
    local_is_dedicated: bool | None
    global_bytes: int
    largest_allocation_bytes: int
    base_align_bytes: int
    constant_bytes: int
    float_width: int
    group_multiple: int | None
    clock_mhz: int | None
    fp16: bool
    fp64: bool
    subgroups: bool
    command_buffers: bool
    images: bool
    unified_memory: bool | None
    max_parameter_bytes: int
    timer_ns: int | None
    extensions: tuple[str, ...]
    assumed: tuple[str, ...] = ()
    tuned: tuple[tuple[str, str], ...] = ()
    avoid: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Equal for equal hardware, platform and driver; what caches and verdicts are filed under.

        Part of a device has the key of the whole: its compiler is the same.

        >>> len(step.program.spec.key)
        16
        """
        # Adreno puts the model in the device's version: the name is the same for all of them.
        parts = (self.platform, self.platform_version, self.name, self.device_version, self.driver)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def has(self, extension: str) -> bool:
        """Whether the driver names this OpenCL extension.

        >>> step.program.spec.has("cl_khr_no_such_thing")
        False
        """
        return extension in self.extensions

    def to_dict(self) -> dict[str, object]:
        """The facts as plain JSON values; `from_dict` gives a spec with equal facts back.

        >>> step.program.spec.to_dict()["name"] == step.device_name
        True
        """
        values = {f.name: getattr(self, f.name) for f in _facts()}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> DeviceSpec:
        """The spec that `to_dict` wrote; refuses anything missing, unknown or of another type.

        >>> facts = step.program.spec.to_dict()
        >>> ht.DeviceSpec.from_dict(facts).key == step.program.spec.key
        True
        """
        names = {f.name for f in _facts()}
        if names != set(values):
            odd = sorted(names.symmetric_difference(values))
            raise BadInput("device spec", why=f"missing or unknown facts: {', '.join(odd)}",
                           fix="write it again with this version of handtorch")
        for f in _facts():
            if not _CHECKS[str(f.type)](values[f.name]):
                raise BadInput("device spec",
                               why=f"{f.name} is {values[f.name]!r}, expected {f.type}")
        if values["kind"] not in KINDS:
            raise BadInput("device spec",
                           why=f"kind is {values['kind']!r}, expected one of {', '.join(KINDS)}")
        plain = {k: tuple(v) if isinstance(v, list | tuple) else v for k, v in values.items()}
        return cls(**plain)  # type: ignore[arg-type]  # each value was checked above

    @classmethod
    def from_clinfo(cls, text: str, device: int = 0) -> DeviceSpec:
        """The `device`-th device of a `clinfo` text or of a dump of `CL_DEVICE_...` lines.

        Facts the text lacks take the OpenCL minimum and are listed in `assumed`; a text without
        the sizes that have no useful minimum is refused with their names.

        >>> ht.DeviceSpec.from_clinfo("no device at all")
        Traceback (most recent call last):
        handtorch.errors.BadInput: clinfo text, device 0: the text describes 0 device(s)
          try: give the unshortened output of `clinfo`
        """
        found = clinfo.devices(text)
        if not 0 <= device < len(found):
            raise BadInput(f"clinfo text, device {device}",
                           why=f"the text describes {len(found)} device(s)",
                           fix="give the unshortened output of `clinfo`" if not found
                           else f"a device from 0 to {len(found) - 1}")
        return _from_facts(cls, found[device], f"clinfo text, device {device}")


def _facts() -> list[dataclasses.Field[object]]:
    return [f for f in dataclasses.fields(DeviceSpec) if f.name not in ("tuned", "avoid")]


# The smallest value the OpenCL 1.2 full profile allows; None where a minimum would mislead.
_FLOOR: dict[str, object] = {
    "opencl_c": "1.2",
    "vendor": "",
    "local_is_dedicated": None,
    "base_align_bytes": 128,  # a long16
    "constant_bytes": 65536,
    "float_width": 1,
    "group_multiple": None,
    "clock_mhz": None,
    "images": False,
    "unified_memory": None,
    "max_parameter_bytes": 1024,
    "timer_ns": None,
}


def _from_facts(cls: type[DeviceSpec], facts: Mapping[str, object], what: str) -> DeviceSpec:
    """Add what follows from the extensions and the floor; refuse if a needed fact is missing."""
    values = dict(facts)
    if "extensions" in values:
        names = values["extensions"]
        assert isinstance(names, tuple)
        values |= from_extensions(names)
    derived = {*from_extensions(()), "assumed"}
    needed = [f.name for f in _facts() if f.name not in derived]
    missing = [n for n in needed if n not in values]
    if fatal := [n for n in missing if n not in _FLOOR]:
        name = f" ({values['name']})" if values.get("name") else ""
        raise BadInput(f"{what}{name}", why=f"it does not tell {', '.join(fatal)}",
                       fix="give the unshortened output of `clinfo`")
    values |= {n: _FLOOR[n] for n in missing}
    assumed = tuple(n for n in missing if _FLOOR[n] is not None)
    return cls(**values, assumed=assumed)  # type: ignore[arg-type]  # clinfo gives each its type


class _Extended(TypedDict):
    fp16: bool
    fp64: bool
    subgroups: bool
    command_buffers: bool


def from_extensions(extensions: tuple[str, ...]) -> _Extended:
    """The facts that extension names alone decide."""
    return {
        "fp16": "cl_khr_fp16" in extensions,
        "fp64": "cl_khr_fp64" in extensions,
        "subgroups": "cl_khr_subgroups" in extensions or "cl_intel_subgroups" in extensions,
        "command_buffers": "cl_khr_command_buffer" in extensions,
    }


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_CHECKS: dict[str, Callable[[object], bool]] = {
    "str": lambda v: isinstance(v, str),
    "int": _is_int,
    "bool": lambda v: isinstance(v, bool),
    "int | None": lambda v: v is None or _is_int(v),
    "bool | None": lambda v: v is None or isinstance(v, bool),
    "tuple[int, int, int]": lambda v: (isinstance(v, list | tuple) and len(v) == 3
                                       and all(map(_is_int, v))),
    "tuple[str, ...]": lambda v: (isinstance(v, list | tuple)
                                  and all(isinstance(x, str) for x in v)),
}

# For compiling with no device at hand: what the weakest phone of the last ten years offers.
GENERIC = DeviceSpec(
    name="generic", vendor="", platform="generic", platform_version="OpenCL 1.2",
    device_version="OpenCL 1.2", opencl_c="1.2", driver="", kind="gpu", compute_units=2,
    max_work_group=256, max_work_items=(256, 256, 256), local_bytes=32768,
    local_is_dedicated=None, global_bytes=1 << 30, largest_allocation_bytes=1 << 28,
    base_align_bytes=128, constant_bytes=65536, float_width=4, group_multiple=None,
    clock_mhz=None, fp16=False, fp64=False, subgroups=False, command_buffers=False,
    images=False, unified_memory=None, max_parameter_bytes=1024, timer_ns=None, extensions=(),
)
