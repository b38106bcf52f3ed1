"""What differs between two of the doctor's files, in words; times only beyond their spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from handtorch.baseline.fair import MOST_OTHERS

_FACTS = ("name", "vendor", "platform", "platform_version", "device_version", "opencl_c", "driver",
          "kind", "default", "embedded")
_MOST_SHOWN = 120           # characters of a value
_UNITS = (("G", 1e9), ("M", 1e6), ("k", 1e3))


@dataclass(frozen=True)
class Difference:
    """`of` is the part (`machine`, `device pocl`), `what` the fact; None where a side lacks it.

    `ratio` is that of two measurements, b by a, where they differ by more than their spreads."""

    of: str
    what: str
    a: Any
    b: Any
    said: str
    ratio: float | None = None


def compare(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    """Every difference, machine first; equal files have none."""
    found = [*_parts("machine", a["machine"], b["machine"]),
             *_parts("packages", a["packages"], b["packages"])]
    for of, mine, theirs in pairs(a["devices"], b["devices"]):
        if mine is None or theirs is None:
            one, side = (theirs, "B") if mine is None else (mine, "A")
            assert one is not None
            name = f"{one['name']}, driver {one['driver']}"
            found.append(Difference(of, "", mine and name, theirs and name,
                                    f"only in {side}: {shown(name)}"))
        else:
            found += _devices(of, mine, theirs)
    return [*found, *_sensors(a, b)]


def pairs(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]
          ) -> Iterator[tuple[str, Mapping[str, Any] | None, Mapping[str, Any] | None]]:
    """Devices of the same label together; then the default of one with the default of the other,
    as two phones have different ones; the rest alone."""
    mine, theirs = {d["label"]: d for d in a}, {d["label"]: d for d in b}
    both = [label for label in mine if label in theirs]
    for label in both:
        yield f"device {shown(label)}", mine.pop(label), theirs.pop(label)
    first, second = (next((d for d in some.values() if d["default"]), None)
                     for some in (mine, theirs))
    if first is not None and second is not None:
        del mine[first["label"]], theirs[second["label"]]
        yield f"default device, {shown(first['label'])} and {shown(second['label'])}", first, second
    yield from ((f"device {shown(label)}", d, None) for label, d in mine.items())
    yield from ((f"device {shown(label)}", None, d) for label, d in theirs.items())


def told(found: Sequence[Difference]) -> str:
    """For people: a heading for each part, a line for each difference."""
    if not found:
        return "They say the same.\n"
    lines: list[str] = []
    of = ""
    for d in found:
        if d.of != of:
            lines += ["", d.of] if lines else [d.of]
            of = d.of
        lines.append(f"  {d.what}: {d.said}" if d.what else f"  {d.said}")
    return "\n".join(lines) + "\n"


def _devices(of: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    yield from _parts(of, {k: a.get(k) for k in _FACTS}, {k: b.get(k) for k in _FACTS})
    yield from _parts(of, a["limits"], b["limits"])
    yield from _sets(of, "extensions", map(str, a["extensions"]), map(str, b["extensions"]))
    for part, names in (("self_test", ("state", "cases", "detail")),
                        ("tuning", ("source", "shapes", "avoided_count"))):
        word = part.replace("_", "-")
        yield from _parts(of, {f"{word} {n}": a[part].get(n) for n in names},
                          {f"{word} {n}": b[part].get(n) for n in names})
    measured = [d for name in dict.fromkeys((*a["benchmark"], *b["benchmark"]))
                for d in _measured(of, name, a["benchmark"].get(name), b["benchmark"].get(name))]
    yield from measured
    for side, device in (("A", a), ("B", b)):
        if measured and (share := busy_share(device)) is not None:
            yield Difference(of, "doubtful", a.get("others_share"), b.get("others_share"),
                             f"other programs used {share:.0%} of the cores while {side} was "
                             "measured")


def busy_share(device: Mapping[str, Any]) -> float | None:
    """How much of the cores others used meanwhile; None where that was little, or is not known."""
    share = device.get("others_share")
    return share if isinstance(share, float) and MOST_OTHERS < share <= 1 else None


def _parts(of: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys((*a, *b)):
        mine, theirs = a.get(name), b.get(name)
        if mine != theirs:
            yield Difference(of, shown(name.replace("_", " ")), mine, theirs,
                             f"{_word(mine)} in A, {_word(theirs)} in B")


def _sets(of: str, what: str, a: Iterator[str], b: Iterator[str]) -> Iterator[Difference]:
    mine, theirs = set(a), set(b)
    for side, more in (("A", sorted(mine - theirs)), ("B", sorted(theirs - mine))):
        if more:
            listed = ", ".join(map(shown, more[:8])) + (
                f" and {len(more) - 8} more" if len(more) > 8 else "")
            yield Difference(of, what, more if side == "A" else [], more if side == "B" else [],
                             f"only in {side}: {listed}")


def _sensors(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    yield from _sets("sensors", "can be read",
                     (f"{s['meter']} {s['quantity']}" for s in a["sensors"]),
                     (f"{s['meter']} {s['quantity']}" for s in b["sensors"]))


def _measured(of: str, name: str, a: Mapping[str, Any] | None, b: Mapping[str, Any] | None
              ) -> Iterator[Difference]:
    """Nothing where both lie within their spreads: then there is no difference to tell."""
    mine, theirs = (None if f is None else f["median"] for f in (a, b))
    if mine is None or theirs is None or a is None or b is None or a["unit"] != b["unit"]:
        if mine != theirs:
            yield Difference(of, shown(name), mine, theirs,
                             f"{figure_text(a)} in A, {figure_text(b)} in B")
        return
    spread = ((a["spread"] or 0.0) + (b["spread"] or 0.0)) / 2
    if abs(mine - theirs) <= spread:
        return
    ratio = theirs / mine if mine else None
    quicker = "" if ratio is None else (
        f": B does {ratio:.3g} times as much" if a["better"] == "higher"
        else f": B takes {ratio:.3g} times as long")
    yield Difference(of, shown(name), mine, theirs,
                     f"{figure_text(a)} in A, {figure_text(b)} in B{quicker}", ratio)


def figure_text(figure: Mapping[str, Any] | None) -> str:
    """`126 GFLOP/s`; the reading that a person compares."""
    if figure is None or figure["median"] is None:
        return "not measured"
    value, unit = figure["median"], shown(figure["unit"])
    for prefix, scale in _UNITS:
        if value >= scale and unit != "ns":
            return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:,.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


def _word(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else shown(str(value)) or "nothing"


def shown(text: str) -> str:
    """A text of somebody else's file, safe for a terminal: no controls, and not endless."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return plain if len(plain) <= _MOST_SHOWN else f"{plain[:_MOST_SHOWN]}..."
