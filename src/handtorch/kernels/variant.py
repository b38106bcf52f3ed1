"""Problem: what a family of kernels is asked to compute. Variant: one way to do it.

Which variant a problem gets: what `handtorch tune` measured best on this device and driver, handed
down in `DeviceSpec.tuned` (`tuned_variant`); else what the family's table says. A variant in
`DeviceSpec.avoid` is chosen by neither."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from math import log2
from typing import Self

from handtorch.errors import BadInput, KernelError
from handtorch.graph.device_spec import DeviceSpec
from handtorch.graph.step import Step

MOST = (1 << 31) - 1                        # the kernels' sizes are int


class Problem(ABC):
    """Frozen and hashable; `str` is what results are kept in, and `read` understands it."""

    @classmethod
    @abstractmethod
    def read(cls, text: str) -> Self | None:
        """The problem that the text tells; None if it tells none of this family."""

    @abstractmethod
    def forms(self) -> tuple[str, ...]:
        """Which forms can compute it at all."""

    @abstractmethod
    def takes(self, variant: Variant) -> bool:
        """Whether this variant, of one of its forms, computes it."""

    @abstractmethod
    def table_variant(self, spec: DeviceSpec) -> Variant:
        """What is chosen on a device where nothing was measured."""

    @abstractmethod
    def kind(self) -> Hashable:
        """What problems must have in common for one's variant to be worth using for another."""

    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """As many in all problems of a kind, each at least 1."""

    def is_like(self, other: Problem) -> bool:
        """Of the same class: the same kind, and each size up to the same power of two."""
        return self.kind() == other.kind() and all(
            (a - 1).bit_length() == (b - 1).bit_length()
            for a, b in zip(self.sizes(), other.sizes(), strict=True))

    def distance(self, other: Problem) -> float:
        return sum(abs(log2(a / b)) for a, b in zip(self.sizes(), other.sizes(), strict=True))


@dataclass(frozen=True)
class Variant:
    """A form and its macros; as text, what results are kept and handed on in."""

    form: str
    defines: tuple[tuple[str, int], ...]    # sorted; all of the form's macros

    @classmethod
    def of(cls, form: str, defines: Mapping[str, int]) -> Variant:
        return cls(form, tuple(sorted(defines.items())))

    def __str__(self) -> str:
        return " ".join([self.form, *(f"{k}{v}" for k, v in self.defines)])

    @property
    def built(self) -> str:
        """What a compiler sees of it; what has failed is kept as this."""
        return " ".join([self.form, *(f"{k}{v}" for k, v in self.defines if k not in SHARES)])

    def but(self, **macros: int) -> Variant:
        """The same with these macros."""
        return Variant.of(self.form, {**dict(self.defines), **macros})

    def fits(self, problem: Problem, spec: DeviceSpec) -> bool:
        """Whether it computes this problem, within the device's limits."""
        macros = dict(self.defines)
        group = macros.get("WGX", 1), macros.get("WGY", 1)
        return (self.form in problem.forms() and problem.takes(self)
                and (spec.kind == "cpu" or self.form not in FOR_CACHES)
                and group[0] * group[1] <= spec.max_work_group
                and all(g <= most for g, most in zip(group, spec.max_work_items, strict=False)))


# Whose items hold more than a GPU's registers do: they lean on a core's caches.
FOR_CACHES = ("conv_weight_packed", "conv_winograd", "conv_weight_winograd")
# No macros but how the work is shared out over items (conv_launches.py).
SHARES = ("CHUNK", "ITEMS", "LINES", "SOME")
# What the kernels can be built with: unroll.h's limits, OpenCL's vectors, any phone's groups.
_GROUP: dict[str, Container[int]] = {"WGX": range(1, 1025), "WGY": range(1, 1025)}
_TILE: dict[str, Container[int]] = {
    "NV": range(1, 9), "R": range(1, 17), "V": (1, 2, 4, 8, 16), **_GROUP}
_DOT: dict[str, Container[int]] = {"R": range(1, 17), "V": (4, 8, 16), **_GROUP}
_SHARED: dict[str, Container[int]] = {"CHUNK": range(1, 65537), "ITEMS": range(1, 65537)}
_IMAGES: dict[str, Container[int]] = {"IMAGES_FIRST": (0, 1)}
_WINOGRAD = {name: _TILE[name] for name in ("NV", "R", "V")}
FORMS: dict[str, dict[str, Container[int]]] = {
    # A product: B as it is; B packed into panels first; B transposed and read as it is.
    "register": {"KU": (1, 2, 4), **_TILE}, "packed": {"KU": (1, 2, 4), **_TILE}, "dot": _DOT,
    # A batch of them: B as it is; B turned first; B transposed and read as it is.
    "bmm": _TILE, "bmm_turned": _TILE, "bmm_dot": _DOT,
    # A convolution: w as it lies; in panels; by dot products over w as it lies. Then the others.
    "conv_direct": {**_TILE, **_IMAGES}, "conv_packed": {**_TILE, **_IMAGES},
    "conv_dot": {**_DOT, "NV": _TILE["NV"], **_IMAGES},
    "conv_winograd": _WINOGRAD, "conv_weight_winograd": _WINOGRAD,
    "conv_weight": {**_TILE, **_SHARED, "SOME": range(65537)},
    "conv_weight_packed": {"NV": _TILE["NV"], "R": (1, 2, 3, 4, 6, 8, 12, 16), "V": _TILE["V"],
                           "COPIED": (0, 1), "TURNED": (0, 1), **_SHARED},
    "depthwise": {"ITEMS": range(65537), "R": _TILE["R"], "V": _TILE["V"]},
    "depthwise_weight": {**_SHARED, "DOWN": range(1, 9), "LINES": (0, 1),
                         "NV": range(1, 5), "TAPS": range(1, 9),
                         "V": _TILE["V"]},
    "depthwise3": {"ITEMS": range(1, 65537), "V": _TILE["V"]},
    "depthwise_weight3": {**_SHARED, "V": _TILE["V"]}}


# Which kernel computes a form.
KERNELS = {"register": "gemm_register", "packed": "gemm_register", "dot": "gemm_dot",
           "bmm": "bmm", "bmm_turned": "bmm", "bmm_dot": "bmm_dot",
           "conv_direct": "conv_tile", "conv_packed": "conv_tile", "conv_dot": "conv_tile",
           "conv_winograd": "winograd", "conv_weight_winograd": "winograd_weight",
           "conv_weight": "conv_weight", "conv_weight_packed": "conv_weight_packed",
           "depthwise": "depthwise", "depthwise3": "depthwise3",
           "depthwise_weight": "depthwise_weight",
           "depthwise_weight3": "depthwise_weight3"}


@cache
def as_variant(text: str) -> Variant:
    """What `str` of a Variant gave; refuses macros that its kernel lacks or is never built with."""
    return _read(text, FORMS.get(text.split(" ")[0], {}))


@cache
def as_built(text: str) -> str:
    """What `Variant.built` gave, as it is; refuses what no variant is built as."""
    macros = FORMS.get(text.split(" ")[0], {})
    return str(_read(text, {k: v for k, v in macros.items() if k not in SHARES}))


def _read(text: str, macros: Mapping[str, Container[int]]) -> Variant:
    form, *words = text.split(" ")
    pairs = [re.fullmatch(r"([A-Z_]+)(0|[1-9]\d{0,4})", word, re.ASCII) for word in words]
    if macros and all(pairs):
        defines = {p[1]: int(p[2]) for p in pairs if p}
        made = Variant.of(form, defines)
        if (defines.keys() == macros.keys() and str(made) == text    # one spelling only
                and all(v in macros[k] for k, v in defines.items())):
            return made
    raise BadInput(f"variant {text!r}", why="no kernel can be built with that",
                   fix="`handtorch tune` writes the variants there are")


def built_by(step: Step) -> tuple[str, ...]:
    """The variants whose kernel this launch runs, built in the same way."""
    defines = dict(step.defines)
    found = []
    for form in (f for f, kernel in KERNELS.items() if kernel == step.kernel):
        if (form == "conv_dot") == bool(defines.get("DOT", 0)):
            macros = {k: v for k in FORMS[form] if isinstance(v := defines.get(k), int)}
            found.append(Variant.of(form, macros).built)
    return tuple(found)


def tuned_variant(problem: Problem, spec: DeviceSpec) -> Variant | None:
    """What was measured best on this device for this problem, else for the nearest of its class
    whose variant fits; None if there is none, or it has failed meanwhile."""
    read = {type(problem).read(p): as_variant(v) for p, v in spec.tuned}
    found = {p: v for p, v in read.items() if p is not None and v.built not in spec.avoid}
    near = [p for p in found if p.is_like(problem) and found[p].fits(problem, spec)]
    if not near:
        return None
    return found[min(near, key=lambda p: (p.distance(problem), str(p)))]


def chosen_variant(problem: Problem, spec: DeviceSpec) -> Variant:
    """What was tuned, else what the table says."""
    return tuned_variant(problem, spec) or problem.table_variant(spec)


def first_right(ranked: Iterable[Variant], problem: Problem, spec: DeviceSpec) -> Variant:
    """The first that fits and has not failed on this driver."""
    for variant in ranked:
        if variant.built not in spec.avoid and variant.fits(problem, spec):
            return variant
    raise none_right(f"no variant for {problem}", spec)


def none_right(what: str, spec: DeviceSpec) -> KernelError:
    return KernelError(f"{what} is right on {spec.name}",
                       why=f"{len(spec.avoid)} variants failed with driver {spec.driver}",
                       fix="another driver or device; `handtorch tune --fresh` if these failures "
                           "had another cause")
