from __future__ import annotations

from dataclasses import replace

from handtorch.record import Place, Published, Run
from handtorch.report.series import figures, unmatched


def test_results_are_grouped_by_quantity_in_the_order_written(run: Run) -> None:
    rate, time = figures(run)
    assert (rate.study, rate.name, rate.unit, rate.x_label) == ("sgemm", "rate", "GFLOPS", "n")
    assert [s.label for s in rate.series] == ["naive", "register", "numpy", "torch"]
    assert rate.xs == (32, 64, 512)
    assert rate.has_curve and not time.has_curve
    assert rate.published == run.published and time.published == ()


def test_the_host_cpu_beside_a_device_is_the_yardstick(run: Run) -> None:
    rate, time = figures(run)
    assert [(s.look, s.neutral) for s in rate.series] == [
        (0, False), (1, False), (0, True), (1, True)]
    assert not any(s.neutral for s in time.series)  # no places named
    alone = tuple(Place(name=p.name, kind="host cpu", cores="0") for p in run.places)
    assert not any(s.neutral for s in figures(replace(run, places=alone))[0].series)


def test_one_subject_at_two_places_is_two_series(run: Run) -> None:
    both = replace(run, results=tuple(replace(r, place=p) for r in run.results[:3]
                                      for p in ("gpu", "cpu")))
    assert [s.label for s in figures(both)[0].series] == ["naive · gpu", "naive · cpu"]


def test_points_are_sorted_and_the_unknown_left_out_of_known(run: Run) -> None:
    backwards = replace(run, results=run.results[::-1])
    rate = figures(backwards)[1]
    naive = next(s for s in rate.series if s.label == "naive")
    assert [r.x_value for r in naive.results] == [32, 64, 512]
    torch = next(s for s in rate.series if s.label == "torch")
    assert (len(torch.results), torch.known) == (1, ())


def test_a_title_says_what_is_not_measured(run: Run) -> None:
    ours, nexus = figures(run)[1].series
    assert (ours.title, nexus.title) == ("ours", "Nexus 5 (simulated)")
    mixed = replace(run, results=(run.results[0], replace(run.results[1], provenance="estimated")))
    assert figures(mixed)[0].series[0].title == "naive (estimated, measured)"


def test_published_values_without_results_are_not_lost(run: Run) -> None:
    alone = Published(study="backprop", name="time", subject="Nord", value=9.0, unit="ms",
                      source="Fig. 4")
    other_unit = replace(run.published[0], unit="ms")
    assert unmatched(run) == ()
    extended = replace(run, published=(*run.published, alone, other_unit))
    assert unmatched(extended) == (alone, other_unit)
