"""What every page has around its sections: the head, the policy, the way to each section."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from handtorch.report.script import policy, script
from handtorch.report.spell import esc
from handtorch.report.style import CSS

_PROVENANCE = {
    "measured": "read from a clock, a counter or a sensor during this run",
    "estimated": "worked out from measured figures and a model or a data sheet",
    "simulated": "made by a stand-in: an emulated network, a slowed core, a device not present",
    "published": "printed by somebody else; drawn dashed and never mixed with ours",
}


@dataclass(frozen=True)
class Section:
    """A part of a page; nobody sees it if nothing is in it."""

    title: str
    html: str


def section(title: str, parts: Iterable[str]) -> Section:
    return Section(title, "".join(parts))


def document(title: str, head: str, sections: Sequence[Section]) -> str:
    """A whole page. Its texts are HTML already, but for the title."""
    shown = [s for s in sections if s.html]
    ids = _ids([s.title for s in shown])
    links = "".join(f'<li><a href="#{i}">{esc(s.title)}</a></li>'
                    for i, s in zip(ids, shown, strict=True))
    body = "".join(f'<section id="{i}"><h2>{esc(s.title)}</h2>{s.html}</section>'
                   for i, s in zip(ids, shown, strict=True))
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{policy()}">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>{esc(title)}</title><style>{CSS}</style>"
            f"<script>{script()}</script></head>"
            '<body><a class="skip" href="#main">Skip to the figures</a>'
            f'<header class="top"><div class="bar-top"><p class="brand">HandTorch</p>'
            f'<button type="button" class="theme" hidden></button></div>{head}</header>'
            f'<nav aria-label="Sections"><ul>{links}</ul></nav>'
            f'<main id="main" tabindex="-1">{body}</main></body></html>\n')


def _ids(titles: Sequence[str]) -> list[str]:
    """Names for links: plain letters, each once."""
    made: list[str] = []
    for title in titles:
        plain = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "part"
        count = sum(re.fullmatch(rf"{plain}(-\d+)?", m) is not None for m in made)
        made.append(f"{plain}-{count + 1}" if count else plain)
    return made


def reading() -> Section:
    """How to read the figures: what the words of provenance mean."""
    items = "".join(f'<dt><span class="badge {word}">{word}</span></dt><dd>{meaning}</dd>'
                    for word, meaning in _PROVENANCE.items())
    return section("How to read the figures", [
        f"<dl>{items}</dl><p>A median stands with its interquartile spread: the middle half of the "
        "repeats lies that far apart. A dash is a figure that was not asked for or is not known; "
        "the reason is given beside it. Where a row mixes them, <sup>e</sup> and <sup>s</sup> mark "
        "estimated and simulated figures.</p>"])
