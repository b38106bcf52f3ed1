from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from handtorch.record import Launch, Run
from handtorch.report.timeline import kernel_table, middle_steps, timeline


def test_the_middle_step_among_those_with_launches_is_shown(run: Run) -> None:
    (only,) = middle_steps(run)
    assert only.step.number == 1
    of_all = tuple(replace(la, step=s) for s in range(3) for la in run.launches)
    assert middle_steps(replace(run, launches=of_all))[0].step.number == 1
    assert middle_steps(replace(run, launches=())) == ()


def test_busy_time_counts_overlaps_once(run: Run) -> None:
    (timed,) = middle_steps(run)
    assert timed.span_ns == (0, 330)
    assert timed.busy_ns == 30 + 290  # 40 to 330, though two launches overlap from 130 to 140


def test_blocks_are_to_scale_and_parallel_ones_lie_in_lanes(run: Run, parse: Any) -> None:
    page = parse(timeline(middle_steps(run)[0]))
    blocks = [(e.attrs["class"], float(e.attrs["x"]), float(e.attrs["width"]), e.attrs["y"])
              for e in page.all("rect")]
    assert blocks == [("c3", 0, pytest.approx(90.91), "2"),
                      ("c0", pytest.approx(121.21), pytest.approx(303.03), "2"),
                      ("c1", pytest.approx(393.94), pytest.approx(606.06), "28")]
    assert [e.text for e in page.all("li")] == ["forward", "backward", "transfer"]
    assert page.all("title")[1].text == (
        "gemm: 100\N{NO-BREAK SPACE}ns, addmm, fc1, forward, train.py:41")
    assert page.all("p")[-1].text.replace("\N{NO-BREAK SPACE}", " ") == (
        "The device was busy for 320 ns of 330 ns (97 %), in 3 launches.")


def test_launches_without_times_are_counted_not_drawn(run: Run, parse: Any) -> None:
    garbled = replace(run.launches[0], number=9, start_ns=None, end_ns=None,
                      times_reason="END before START")
    page = parse(timeline(middle_steps(replace(run, launches=(*run.launches, garbled)))[0]))
    assert len(page.all("rect")) == 3
    assert page.all("p")[-1].text.endswith("1 more have no usable time stamps.")
    assert middle_steps(replace(run, launches=(garbled,))) == ()


def test_one_launch_of_no_length(run: Run, parse: Any) -> None:
    point = replace(run.launches[0], start_ns=5, end_ns=5)
    (timed,) = middle_steps(replace(run, launches=(point,)))
    assert len(parse(timeline(timed)).all("rect")) == 1
    assert kernel_table(timed)


def test_of_very_many_launches_the_longest_are_drawn(run: Run, parse: Any) -> None:
    many = tuple(replace(run.launches[0], number=i, start_ns=10 * i, end_ns=10 * i + 1 + i % 7)
                 for i in range(5000))
    page = parse(timeline(middle_steps(replace(run, launches=many))[0]))
    assert len(page.all("rect")) == 4000
    assert "Only the 4,000 longest are drawn." in page.all("p")[-1].text


def test_kernels_are_summed_by_time_with_their_rates(run: Run, parse: Any) -> None:
    known: tuple[Launch, ...] = tuple(replace(la, moved_bytes=600, work_reason="")
                                      if la.kernel == "gemm" else la for la in run.launches)
    page = parse(kernel_table(middle_steps(replace(run, launches=known))[0]))
    rows = [e.text.replace("\N{NO-BREAK SPACE}", " ") for e in page.all("td")]
    assert rows[:6] == ["forward, backward", "2", "300 ns", "90.9 %", "13.3", "4"]
    assert rows[6:] == ["transfer", "1", "30 ns", "9.1 %", "66.7", "\N{EN DASH}"]


def test_what_the_host_did_is_no_work_of_the_device(run: Run) -> None:
    fed = replace(run.launches[0], number=9, lane="host", start_ns=0, end_ns=9000)
    assert middle_steps(replace(run, launches=(*run.launches, fed))) == middle_steps(run)
    assert middle_steps(replace(run, launches=(fed,))) == ()
