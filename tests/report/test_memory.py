from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from handtorch.record import Memory, Run
from handtorch.report.memory import ALIVE, memory
from tests.report.profiled import profiled_run

NBSP = "\N{NO-BREAK SPACE}"


def test_the_peak_is_stacked_in_the_order_of_roles(run: Run, parse: Any) -> None:
    html = memory(run)
    assert re.findall(r'title="([^"]+)" style="width:([\d.]+)%"', html) == [
        (f"parameters: 3{NBSP}KiB", "75.000"), (f"gradients: 1{NBSP}KiB", "25.000")]
    assert f"mlp b32 on gpu, peak: 4{NBSP}KiB" in [
        e.text for e in parse(html).all("p", "ylabel")]


def test_bars_of_one_moment_are_to_one_scale(run: Run) -> None:
    more = tuple(replace(m, subject="mlp b64", bytes=2 * (m.bytes or 0)) for m in run.memory)
    process = replace(run.memory[0], moment="process peak", role="process", bytes=1 << 30)
    widths = re.findall(r"width:([\d.]+)%", memory(replace(
        run, memory=(*run.memory, *more, process))))
    assert widths == ["37.500", "12.500", "75.000", "25.000", "100.000"]


def test_memory_over_a_step_is_drawn_and_its_peak_marked(parse: Any) -> None:
    page = parse(memory(profiled_run()))
    assert page.all("figcaption")[0].text == (
        f"mlp b32 on gpu: memory over a step most at launch 1: 1,024{NBSP}GiB")
    wide = [e for e in page.all("path", "area") if "svg.wide" in e.inside]
    assert [e.attrs["class"] for e in wide] == ["area c0", "area c1"]
    assert len([e for e in page.all("path", "peak") if "svg.wide" in e.inside]) == 1
    said = [e.text for e in page.all("title") if "svg.wide" in e.inside]
    assert said == [f"launch 0: 4{NBSP}KiB\nparameters 4{NBSP}KiB",
                    f"launch 1: 1,024{NBSP}GiB\nparameters 4{NBSP}KiB\ngradients 1,024{NBSP}GiB"]


def test_a_long_step_stays_small(run: Run) -> None:
    curve = tuple(replace(run.memory[0], moment="launch", launch=i, bytes=i * 7 % 1000)
                  for i in range(3000))
    assert len(memory(replace(run, memory=curve))) < 400_000


def test_the_peak_is_opened_up(run: Run, parse: Any) -> None:
    rows = tuple(Memory(place="gpu", subject="mlp b32", moment=ALIVE, role=f"intermediates: v{i}",
                        bytes=1024 * (i + 1), provenance="measured") for i in range(30))
    page = parse(memory(replace(run, memory=rows)))
    heads = [e.text for e in page.all("th") if e.attrs["scope"] == "row"]
    assert heads[0] == "intermediates: v29" and heads[-1] == "5 more" and len(heads) == 26
    assert page.all("td")[0].text == f"30{NBSP}KiB"
    assert page.all("td")[1].text == "6.5 %"


def test_nothing_known_is_nothing_drawn(run: Run) -> None:
    assert memory(replace(run, memory=())) == ""
