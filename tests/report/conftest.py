"""A run to draw, rows to vary, and a reader of the page that notices broken HTML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import pytest

from handtorch.record import (
    Clock,
    Comparison,
    Device,
    Launch,
    Machine,
    Memory,
    Place,
    Published,
    Result,
    Run,
    RunInfo,
    Sample,
    Software,
    Step,
    Verdict,
)

VOID = {"meta", "input", "br"}
MakeResult = Callable[..., Result]
Parse = Callable[[str], "Page"]


@dataclass
class Element:
    tag: str
    attrs: dict[str, str]
    text: str = ""
    inside: tuple[str, ...] = ()


@dataclass
class Page(HTMLParser):
    """Elements of a page in order; feeding it a tag that is not closed in turn is an error."""

    elements: list[Element] = field(default_factory=list)
    open: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        around = tuple(f"{e.tag}.{e.attrs.get('class', '')}" for e in self.open)
        made = Element(tag, {k: v or "" for k, v in attrs}, inside=around)
        self.elements.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1].tag == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data

    def all(self, tag: str, css: str = "") -> list[Element]:
        return [e for e in self.elements
                if e.tag == tag and (not css or css in e.attrs.get("class", "").split())]


def _parse(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    assert not page.open, f"not closed: {[e.tag for e in page.open]}"
    return page


@pytest.fixture
def parse() -> Parse:
    return _parse


@pytest.fixture
def result() -> MakeResult:
    def make(**change: Any) -> Result:
        given: dict[str, Any] = {
            "study": "sgemm", "name": "rate", "subject": "naive", "x_name": "n", "x_value": 32.0,
            "value": 2.0, "unit": "GFLOPS", "better": "higher", "repeats": 1,
            "provenance": "measured"} | change
        return Result(**given)

    return make


@pytest.fixture
def info() -> RunInfo:
    return RunInfo(id="1", command="handtorch study sgemm", started_utc="2026-01-02T03:04:05.678Z",
                   duration_ns=14_200_000_000, status="complete")


@pytest.fixture
def run(info: RunInfo, result: MakeResult) -> Run:
    """Every table, with a curve, a bar chart, a published value, an unknown, launches, memory."""
    launches = [("copy", "transfer", 0, 30), ("gemm", "forward", 40, 140), ("gemm", "backward",
                                                                           130, 330)]
    return Run(
        info=info,
        machine=Machine(cpu_model=None, cpu_model_reason="/proc/cpuinfo does not say", cores=8,
                        architecture="aarch64", usable_cores=4, memory_bytes=8 << 30, os="Linux 6",
                        python="3.11.7"),
        software=(Software(name="torch", version=None, version_reason="not installed"),),
        devices=(Device(id=0, name="Adreno 640", vendor="QUALCOMM", platform="Snapdragon",
                        driver="512.0", kind="gpu", compute_units=2, global_bytes=4 << 30,
                        local_bytes=32768, largest_allocation_bytes=1 << 30, self_test="passed"),),
        places=(Place(name="gpu", kind="device", device=0, cores=None, cores_reason="not a host's"),
                Place(name="cpu", kind="host cpu", cores="4-7")),
        comparisons=(Comparison(first="gpu", second="cpu", same_silicon=True,
                                same_silicon_reason="One chip."),),
        clocks=(Clock(name="host", offset_ns=0, error_ns=0, provenance="measured"),),
        steps=tuple(Step(id=i, place="gpu", subject="mlp b32", number=i, kind="train", clock="host",
                         start_ns=1000 * i, end_ns=1000 * i + 300 + 100 * i, provenance="measured")
                    for i in range(3)),
        launches=tuple(Launch(step=1, number=i, kernel=kernel, op="addmm", layer="fc1", phase=phase,
                              source_line="train.py:41", clock="host", queued_ns=0, submit_ns=0,
                              start_ns=start, end_ns=end, flops=2000, moved_bytes=None,
                              work_reason="no rule", provenance="measured")
                       for i, (kernel, phase, start, end) in enumerate(launches)),
        samples=(Sample(time_ns=1, clock="host", meter="ina3221", quantity="gpu_power_w", value=1.5,
                        provenance="simulated"),),
        memory=(Memory(place="gpu", subject="mlp b32", moment="peak", role="gradients", bytes=1024,
                       provenance="estimated"),
                Memory(place="gpu", subject="mlp b32", moment="peak", role="parameters", bytes=3072,
                       provenance="estimated")),
        results=(*(result(subject=s, place=p, x_value=n, value=v * n, repeats=500, spread=0.5)
                   for s, p, v in (("naive", "gpu", 0.1), ("register", "gpu", 1.0),
                                   ("numpy", "cpu", 0.9)) for n in (32.0, 64.0, 512.0)),
                 result(subject="torch", place="cpu", value=None, repeats=0,
                        value_reason="torch is not installed"),
                 result(name="step time", subject="ours", x_name="", x_value=None, value=0.5,
                        unit="ms", better="lower", low=0.4, high=0.7, bounds="min to max"),
                 result(name="step time", subject="Nexus 5", x_name="", x_value=None, value=2.0,
                        unit="ms", better="lower", provenance="simulated")),
        published=(Published(study="sgemm", name="rate", subject="OnePlus 6", x_name="n",
                             x_value=512, value=40.0, unit="GFLOPS", source="Fig. 3"),),
        verdicts=(Verdict(study="sgemm", question="Level with BLAS?", answer="Yes, at 512.",
                          holds=True),),
    )
