"""RAPL: the energy counters of x86 processors, as the kernel's powercap zones.

Documentation/power/powercap/powercap.rst has the files. A zone intel-rapl:P is a package (or the
whole platform, "psys"), intel-rapl:P:S is inside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from handtorch.meters.file import called, hint, within
from handtorch.meters.parse import count, plain
from handtorch.meters.reading import gather, joined, lacking, nothing, once, single, usable
from handtorch.meters.signal import FAST_NS, Basis, Found, Signal

METER = "rapl"
SPAN_NS = 1_000_000                 # the hardware brings its counters up to date about every ms
_COUNTS = 2**32                     # drivers/powercap/intel_rapl_common.c: 32 bits times a unit
_FOLDER = Path("sys/class/powercap")
# Since CVE-2020-8694 only root may read the counters.
_FIX = "run as root, or: sudo chmod a+r /sys/class/powercap/*/energy_uj (until the next boot)"


@dataclass(frozen=True, slots=True)
class _Zone:
    folder: Path
    id: str                         # "0" or "0:1"
    name: str                       # "package-0", "core"

    @property
    def energy(self) -> Path:
        return self.folder / "energy_uj"

    def joules(self, text: str) -> float:
        """A domain that the processor lacks may be listed all the same, and then stands at 0."""
        if (uj := count(text)) == 0:
            raise ValueError(f"the counter of {self.name} stands at 0")
        return uj / 1e6


def find(root: Path) -> Found:
    """Every energy counter that can be read below `root`.

    `intel-rapl-mmio` gives the same package a second time: left out, with that reason, unless it
    is all there is. A counter whose range cannot be read has no `wraps_at`, and that is said."""
    groups = [_zones(root, kind) for kind in ("intel-rapl", "intel-rapl-mmio")]
    zones = groups[0] or groups[1]
    if not zones:
        return lacking(METER, root, root / _FOLDER, "intel-rapl zone")
    notes, entries = [], []
    if groups[0] and groups[1]:
        names = ", ".join(zone.name for zone in groups[1])
        notes.append(nothing(METER, f"intel-rapl-mmio ({names}): the same counters once more"))
    moving = [zone for zone in zones if usable(zone.energy, zone.joules)]
    for zone in zones:
        range_uj = once(zone.folder / "max_energy_range_uj", count)
        if zone in moving and (isinstance(range_uj, str) or range_uj == 0):
            why = range_uj or "it is 0"
            notes.append(nothing(
                METER, f"{called(root, zone.folder)}: its range is unknown ({why}): "
                       "what it counts across a wrap is lost",
            ))  # fmt: skip
        range_j = 0.0 if isinstance(range_uj, str) else range_uj / 1e6
        signal = _signal(zone, zones, moving, range_j)
        entries.append(single(root, zone.energy, signal, zone.joules))
    return joined((*notes, gather(METER, entries, fix=_FIX)))


def _zones(root: Path, kind: str) -> list[_Zone]:
    """The zones of one control type. They lie side by side in /sys/class, or inside each other."""
    found: dict[str, _Zone] = {}
    top, zone = root / _FOLDER, f"{kind}:.*"
    inside = within(top / kind, zone)
    for folder in (*within(top, zone), *inside, *(f for one in inside for f in within(one, zone))):
        id = folder.name.partition(":")[2]
        found.setdefault(id, _Zone(folder, id, hint(folder / "name") or folder.name))
    return list(found.values())


def _signal(zone: _Zone, zones: list[_Zone], moving: list[_Zone], range_j: float) -> Signal:
    """A parent is one of the zones that can be read."""
    step = range_j / (_COUNTS - 1)
    return Signal(
        METER,
        _quantity(zone, zones),
        "counter",
        _part(zone, zones),
        FAST_NS,
        SPAN_NS,
        parent=_parent(zone, zones, moving),
        step=step,
        wraps_at=range_j + step if range_j > 0 else None,
        basis=_basis(zone),
    )


def _above(zone: _Zone, zones: list[_Zone]) -> _Zone | None:
    outer = zone.id.rpartition(":")[0]
    return next((other for other in zones if other.id == outer), None) if outer else None


def _quantity(zone: _Zone, zones: list[_Zone]) -> str:
    """Its name, behind that of its package; behind its number where two zones have one name."""
    above = _above(zone, zones)
    beside = [other for other in zones if _above(other, zones) is above]
    name = plain(zone.name)
    if sum(plain(other.name) == name for other in beside) > 1:
        name = f"{name}_{plain(zone.id)}"
    return f"{plain(above.name)}_{name}_energy_j" if above else f"{name}_energy_j"


def _parent(zone: _Zone, zones: list[_Zone], moving: list[_Zone]) -> str:
    """The platform holds the packages, a package its cores and its graphics.

    A package does not hold its memory, although the zone lies inside: Intel's manual (volume 3,
    "Package RAPL domain") has DRAM as a domain of its own."""
    above = _above(zone, zones)
    if above in moving and zone.name != "dram":
        return _quantity(above, zones)
    whole = [other for other in moving if other.name == "psys"]
    return _quantity(whole[0], zones) if len(whole) == 1 and whole[0] is not zone else ""


def _part(zone: _Zone, zones: list[_Zone]) -> str:
    inner = {other.name for other in zones if _above(other, zones) is zone}
    if zone.name.startswith("package") and "uncore" in inner:
        return "cpu+gpu"
    return {"psys": "machine", "dram": "memory", "uncore": "gpu"}.get(zone.name, "cpu")


def _basis(zone: _Zone) -> Basis:
    captured = zone.name == "core" or zone.name.startswith("package")
    return "captured" if captured else "documented"
