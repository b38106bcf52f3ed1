from __future__ import annotations

from dataclasses import replace

import pytest

from handtorch.errors import BadInput
from handtorch.graph.device_spec import GENERIC
from handtorch.place.processor import doubts, rates_of, spec_of
from handtorch.place.sheet import Figure, read_sheet


def test_rates_are_the_sheets_and_an_unknown_copy_is_free_and_said() -> None:
    gpu = read_sheet("nexus-5").processor("gpu")
    rates = rates_of(gpu)
    assert (rates.flops_per_s, rates.bytes_per_s, rates.launch_s) == (129.8e9, 8.04e9, 160.66e-6)
    assert rates.copy_s == 0 and rates.copy_bytes_per_s == 1.43e9
    assert doubts(gpu) == ("copy_s is not counted: clpeak prints rates of copies, and not what a "
                           "copy costs before its first byte",)


def test_a_proxy_is_named() -> None:
    assert any("launch_s is of a OnePlus 3T (Adreno 530)" in line
               for line in doubts(read_sheet("nexus-6p").processor("gpu")))


def test_without_a_rate_there_is_no_time() -> None:
    gpu = replace(read_sheet("nexus-5").processor("gpu"), launch_s=Figure(None, "nobody timed it"))
    with pytest.raises(BadInput, match="no launch_s") as refused:
        rates_of(gpu)
    assert refused.value.why == "nobody timed it"


def test_limits_that_are_known_and_those_that_are_assumed() -> None:
    sheet = read_sheet("oneplus-8-pro")
    spec = spec_of(sheet, sheet.processor("gpu"))
    assert (spec.kind, spec.max_work_group, spec.local_bytes) == ("gpu", 1024, 32768)
    assert spec.max_work_items == (1024, 1024, 1024)
    assert spec.global_bytes == 3992293376 and spec.largest_allocation_bytes == 998073344
    assert spec.assumed == ("float_width",)


def test_memory_is_the_capacity_where_no_driver_told_it() -> None:
    sheet = read_sheet("nexus-5")
    spec = spec_of(sheet, sheet.processor("gpu"))
    assert spec.global_bytes == 2 << 30 and spec.largest_allocation_bytes == 512 << 20
    assert spec.local_bytes == GENERIC.local_bytes and "local_bytes" in spec.assumed
