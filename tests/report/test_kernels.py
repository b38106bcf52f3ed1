from __future__ import annotations

from dataclasses import replace
from typing import Any

from handtorch.record import Launch, Run
from handtorch.report.kernels import breakdowns, kernel_table, middle_steps, said
from tests.report.profiled import profiled_run


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


def plain(html: str, parse: Any) -> str:
    return str(parse(html).all("p")[-1].text.replace("\N{NO-BREAK SPACE}", " "))


def test_the_middle_step_is_said_in_a_sentence(run: Run, parse: Any) -> None:
    assert plain(said(middle_steps(run)[0]), parse) == (
        "In step 1, the one of median time among those recorded, the device was busy for 320 ns of "
        "330 ns (97 %), in 3 launches.")


def test_launches_without_times_are_counted(run: Run, parse: Any) -> None:
    garbled = replace(run.launches[0], number=9, start_ns=None, end_ns=None,
                      times_reason="END before START")
    (timed,) = middle_steps(replace(run, launches=(*run.launches, garbled)))
    assert plain(said(timed), parse).endswith("1 more have no usable time stamps.")
    assert middle_steps(replace(run, launches=(garbled,))) == ()


def test_one_launch_of_no_length(run: Run) -> None:
    point = replace(run.launches[0], start_ns=5, end_ns=5)
    (timed,) = middle_steps(replace(run, launches=(point,)))
    assert kernel_table(timed) and said(timed)


def test_a_step_is_broken_down_into_phases_and_idle_causes(parse: Any) -> None:
    page = parse(breakdowns(profiled_run()))
    assert [(e.attrs["class"], e.attrs["style"]) for e in page.all("i") if "style" in e.attrs] == [
        ("c0", "width:36.273%"), ("c1", "width:27.273%"), ("c2", "width:27.273%"),
        ("g2", "width:0.091%"), ("g2", "width:9.091%")]
    assert [e.text.replace("\N{NO-BREAK SPACE}", " ") for e in page.all("li")] == [
        "forward 399 µs", "backward 300 µs", "optimizer 300 µs", "idle: input 1 µs",
        "idle: wake 100 µs"]


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
