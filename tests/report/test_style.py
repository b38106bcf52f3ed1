from __future__ import annotations

import re

import pytest

from handtorch.report.charts import COLOURS, GREYS
from handtorch.report.style import CSS

LIGHT, DARK = (dict(re.findall(r"(--\w+):(#[0-9a-f]+)", block))
               for block in re.findall(r":root\{(--[^}]*)\}", CSS))


def brightness(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    digits = colour[1:] if len(colour) == 7 else "".join(c * 2 for c in colour[1:])
    parts = [int(digits[i:i + 2], 16) / 255 for i in (0, 2, 4)]
    r, g, b = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    dim, bright = sorted((brightness(one), brightness(other)))
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_lines_stand_out(theme: dict[str, str]) -> None:
    for text in ("--ink", "--soft", "--good", "--bad"):
        for ground in ("--bg", "--panel"):
            assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)
    assert contrast(theme["--ink"], theme["--warn"]) >= 4.5
    for line in [f"--c{i}" for i in range(COLOURS)] + [f"--g{i}" for i in range(GREYS)]:
        assert contrast(theme[line], theme["--panel"]) >= 3, line


def test_every_colour_of_a_series_has_its_class() -> None:
    for name in [f"c{i}" for i in range(COLOURS)] + [f"g{i}" for i in range(GREYS)]:
        assert f".{name}{{--s:var(--{name})}}" in CSS


def test_braces_are_balanced() -> None:
    assert CSS.count("{") == CSS.count("}")
