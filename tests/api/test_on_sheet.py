from __future__ import annotations

from dataclasses import replace

import pytest

from handtorch.api.budget import device_bytes
from handtorch.api.on_sheet import Simulated, roofline_of, simulated
from handtorch.graph.node import Graph, Node, Port, Value
from handtorch.pipeline import compile_graph
from handtorch.place.processor import spec_of
from handtorch.place.sheet import Figure, Sheet, read_sheet
from handtorch.program import Program

NEXUS = read_sheet("nexus-5")


def product(sheet: Sheet, n: int = 256) -> Program:
    a, b, c = (Value(i, (n, n)) for i in range(3))
    graph = Graph((Node("matmul", (a, b), (c,)),), (Port("a", a), Port("b", b)), (),
                  (Port("c", c),))
    return compile_graph(graph, spec_of(sheet, sheet.processor("gpu")))


def test_a_product_on_a_phone_by_hand() -> None:
    program = product(NEXUS)
    found = simulated(program, NEXUS)
    pack, gemm = program.steps                  # only the product computes
    assert found.provenance == "simulated" and found.times.launches == 2
    assert found.times.compute_s == pytest.approx(gemm.flops / (0.055 * 129.8e9))
    assert found.times.busy_s == pytest.approx(pack.bytes / 8.04e9 + found.times.compute_s)
    assert found.times.launch_s == pytest.approx(2 * 160.66e-6)
    assert found.times.copy_s == pytest.approx(3 * 256 * 256 * 4 / 1.43e9)
    assert found.held_bytes == device_bytes(program.plan) and found.fits
    assert found.energy_j == pytest.approx((1.079 + 2.816) * found.times.total_s)


def test_a_busy_gpu_is_slower() -> None:
    program = product(NEXUS)
    alone, busy = (simulated(program, NEXUS, load=load).times for load in (0.0, 0.5))
    assert busy.busy_s == pytest.approx(2 * alone.busy_s)


def test_what_is_too_large_is_said() -> None:
    small = replace(NEXUS, capacity_bytes=Figure(1e5, "a joke"))
    found = simulated(product(NEXUS), small)
    assert found.fits is False
    assert "DOES NOT FIT into the device's 100,000" in found.text()


def test_what_the_driver_offers_counts_where_it_is_known() -> None:
    sheet = read_sheet("oneplus-8-pro")
    assert simulated(product(sheet), sheet).capacity_bytes == 3992293376
    assert simulated(product(NEXUS), NEXUS).capacity_bytes == 2 << 30


def test_limits_that_were_assumed_are_a_doubt() -> None:
    assert any(line.startswith("as on the weakest phone: max_work_group, local_bytes")
               for line in simulated(product(NEXUS), NEXUS).doubts)


def test_what_is_not_known_is_none_and_said() -> None:
    found = simulated(product(read_sheet("oneplus-nord")), read_sheet("oneplus-nord"))
    assert found.energy_j is None and "not known: no measurement was found" in found.text()
    nothing = replace(read_sheet("oneplus-nord"), capacity_bytes=Figure(None, "not told"))
    assert simulated(product(nothing), nothing).fits is None


def test_the_text_leads_with_simulated_and_names_every_doubt() -> None:
    found: Simulated = simulated(product(read_sheet("nexus-6p")), read_sheet("nexus-6p"))
    lines = found.text().splitlines()
    assert lines[0].startswith("simulated on Huawei Nexus 6P")
    assert sum("OnePlus 3T" in line for line in lines) == 4
    assert any("capacity is unconfirmed" in line for line in lines)
    assert any("5.5 % of the peak" in line for line in lines)


def test_budgets_trade_by_the_sheets_rates() -> None:
    roof = roofline_of(NEXUS.processor("gpu"))
    assert roof.flops_per_s == pytest.approx(0.055 * 129.8e9) and roof.bytes_per_s == 8.04e9
    assert roof.launch_ns == pytest.approx(160_660) and roof.source == "simulated"
