from __future__ import annotations

from dataclasses import replace

from handtorch.place.sheet import CoreKind, Figure, Sheet
from handtorch.profile.energy.from_sheet import estimated_rows
from handtorch.profile.energy.told import told
from handtorch.profile.group import groups
from handtorch.record import Energy, Result, Run
from tests.profile.energy.runs import PLACE, SUBJECT, run

SHEET = Sheet("board", Figure(2.0, "a"), (CoreKind("big", 2, 1.5, "a"),), Figure(3.0, "a"),
              Figure(None, "no"))


def shown(given: Run) -> str:
    (group,) = groups(given)
    return "\n\n".join(told(given, group))


def energy(level: str, name: str = "", total: float | None = 0.9, **more: object) -> Energy:
    given = {"instances": 3, "seconds": 0.03, "readings": 40, "total_j": total,
             "total_reason": "" if total is not None else "not enough data: 3 readings",
             "dynamic_j": None, "dynamic_reason": "never idle", "how": "least squares",
             "provenance": "measured"} | more
    return Energy(place=PLACE, subject=SUBJECT, meter="rapl", quantity="package_energy_j",
                  level=level, name=name, **given)  # type: ignore[arg-type]


def test_an_estimate() -> None:
    given = run()
    assert shown(replace(given, energies=tuple(estimated_rows(given, SHEET)))) == """\
energy estimated by sheet device_power_w: 38 mJ a step, 0.01056 mWh, 3.8 W on average, 21.1 % idle \
(sheet of board: idle 2 W, GPU 3.0 W more, memory not counted)

mean power in step        4      5
sheet device_power_w  3.8 W  3.8 W

joules by phase  a step  95 %  above idle   share  power
forward           20 mJ             12 mJ  52.6 %    5 W
backward          10 mJ              6 mJ  26.3 %    5 W

joules by layer  a step  95 %  above idle   share  power
fc                20 mJ             12 mJ  52.6 %    5 W
(no layer)        10 mJ              6 mJ  26.3 %    5 W

joules by op         a step  95 %  above idle   share  power
fc addmm #0 forward   20 mJ             12 mJ  52.6 %    5 W
relu #1 backward      10 mJ              6 mJ  26.3 %    5 W"""


def test_measured_joules_have_an_interval_or_a_reason() -> None:
    rows = (energy("rail"), energy("idle", total=0.09), energy("unattributed", total=0.0),
            energy("op", "a", 0.6, low_j=0.51, high_j=0.72), energy("op", "b", None),
            *(energy("step", str(i), (i + 1) / 100, seconds=0.01) for i in range(6)))
    assert shown(replace(run(), energies=rows)) == """\
energy measured by rapl package_energy_j: 300 mJ a step, 0.08333 mWh, 30 W on average, 10.0 % idle,\
 0.0 % unattributed (least squares)

mean power in step       3    4    5
rapl package_energy_j  4 W  5 W  6 W

joules by op  a step              95 %  above idle   share  power
a             200 mJ  170 mJ to 240 mJ              66.7 %   20 W
1 not known                                                        not enough data"""


def test_joules_of_a_sample_where_its_rate_is_known() -> None:
    rate = Result(study="profile", name="throughput", subject=SUBJECT, place=PLACE, value=800.0,
                  unit="samples/s", better="higher", repeats=1, provenance="measured")
    given = replace(run(), energies=(energy("rail"),), results=(rate,))
    assert "30 W on average, 37.5 mJ a sample (least squares)" in shown(given)


def test_of_many_operations_the_rest_is_one_line() -> None:
    rows = (energy("rail"), *(energy("op", f"op {i}", 0.03) for i in range(15)))
    assert "\n3 more         30 mJ" in shown(replace(run(), energies=rows))


def test_a_rail_of_which_nothing_is_known() -> None:
    assert shown(replace(run(), energies=(energy("rail", total=None),))) == (
        "energy measured by rapl package_energy_j: none, not enough data: 3 readings")


def test_a_run_without_joules_says_nothing() -> None:
    assert shown(run()) == ""
