"""The judge: days are what they were written down as, and no way of choosing beats the oracle."""

from __future__ import annotations

import random

import pytest

from handtorch.offload.days import JUDGING, TUNING, Course, Day, Segment, Track
from handtorch.offload.judge import judge, script
from handtorch.offload.policy import Policy
from handtorch.offload.table import LEVELS, Level, Table, Tables, read_tables


def table(name: str, base_s: float) -> Table:
    draw = random.Random(name)
    return Table(name, tuple(
        Level(u, u, tuple(base_s / (1 - u) * draw.lognormvariate(0, 0.1) for _ in range(30)),
              tuple(u + draw.gauss(0, 0.03) for _ in range(30))) for u in LEVELS))


TABLES = (table("cpu", 0.006), table("device", 0.004))
SHORT = Day("short", 1, (
    Segment(20, Track(0.1), Track(0.1)), Segment(20, Track(0.1), Track(0.85)),
    Segment(20, Track(0.0, 0.8), Track(0.3, burst=0.8, dwell_s=2, slow=1.5))))


def test_days_for_judging_are_no_days_for_tuning() -> None:
    assert len(TUNING) == len(JUDGING) == 3
    assert len({d.seed for d in (*TUNING, *JUDGING)}) == len({d.name for d in (*TUNING, *JUDGING)})
    assert {d.seconds for d in (*TUNING, *JUDGING)} == {600.0}


def test_a_course_follows_its_script() -> None:
    course = Course(SHORT, "device")
    assert course.at(10).share == 0.1 and course.at(30).share == 0.85
    seen = [course.at(40 + k / 10) for k in range(200)]
    assert {now.share for now in seen} == {0.3, 0.8} and {now.slow for now in seen} == {1.5}
    assert Course(SHORT, "cpu").at(50).share == pytest.approx(0.4)
    assert course.at(45) == Course(SHORT, "device").at(45), "the same every time"


def test_all_ways_see_the_same_calls_and_the_oracle_is_best() -> None:
    verdict = judge(SHORT, TABLES, {"ours": Policy(["cpu", "device"])})
    total = {name: o.total_s for name, o in verdict.outcomes.items()}
    moments = script(SHORT, TABLES)
    assert total["always cpu"] == pytest.approx(sum(m.latencies_s[0] for m in moments))
    assert total["oracle"] == pytest.approx(sum(min(m.latencies_s) for m in moments))
    assert all(total["oracle"] <= t for t in total.values())
    assert total["oracle"] <= verdict.mean_oracle_s < total["ours"]
    assert verdict.over_oracle() < 1.10 and verdict.over_fixed() < 1.05
    assert total["ours"] < total["70 % rule"] < total["always device"]


def test_tables_are_read_as_they_were_written(tmp_path: object) -> None:
    path = tmp_path / "t.json"                                          # type: ignore[operator]
    made = Tables({"machine": "x"}, (TABLES[0], Table("d", (Level(0.9, None, refused="no"),))))
    path.write_text(made.to_json())
    assert read_tables(path) == made
    assert read_tables(path).places[1].known == ()
