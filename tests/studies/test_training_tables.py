"""What the terminal shows of the study `training`."""

from __future__ import annotations

from dataclasses import replace

from handtorch.studies.training_cells import DEVICE, TORCH, Cell, Kind
from handtorch.studies.training_observations import OBSERVATIONS, Day, Finding, Seen, judged
from handtorch.studies.training_run import Measured
from handtorch.studies.training_tables import cell_table, observations_text


def test_what_cannot_be_judged_is_one_sentence_for_each_reason() -> None:
    no_power = Finding(None, "Nothing.", "no sensor of power here")
    found = [Finding(True, f"Figures of {n}.") for n in range(1, 13)]
    found[5:8] = [no_power] * 3
    found[0] = replace(no_power, reason="the device is the CPU itself")
    told = observations_text(found).splitlines()
    assert told[:2] == [f"  2. {OBSERVATIONS[1][0]}: holds.", "     Figures of 2."]
    assert len(told) == 2 * 8 + 3
    assert told[-3:] == ["4 of the paper's 12 observations cannot be judged here:",
                         "  1: the device is the CPU itself", "  6, 7, 8: no sensor of power here"]
    assert "cannot" not in observations_text([found[1]] * 12)


def test_the_twelfth_is_judged_by_the_days_of_daily_in_the_same_run() -> None:
    days = tuple(Day(4, 0, day, 0.6 + day / 100, 0.5) for day in range(3))
    found = judged(Seen(days=days, scene="digits"))[11]
    assert found.holds and found.figures.startswith(
        "By the study daily, on digits: after 2 days training accuracy went from 60.00% by +2.00")
    alone = judged(Seen())[11]
    assert alone.holds is None and "`handtorch study all` runs both" in alone.reason


def test_a_ratio_beside_other_programs_is_marked() -> None:
    cell = Cell(Kind("Model1"), 4, DEVICE, "measured", step_s=(0.1, 0.1), losses=((1.0,),) * 3,
                others=0.3)
    twin = replace(cell, side=TORCH, step_s=(0.3, 0.3))
    found = Measured([], [cell, twin], {})
    busy = cell_table(found, "gpu", Seen(cells=(cell, twin)).others).splitlines()
    assert busy[2].split()[:6] == ["Model1", "4", "13.3", "40", "3.00", "*"]
    assert busy[3] == ("(*) Other programs used 30 % of this machine's cores while this was timed: "
                       "no speed is judged by it.")
    assert "*" not in cell_table(found, "gpu", 0.01)
