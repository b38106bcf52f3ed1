from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from handtorch.place.predict import Rates, Software, predict
from handtorch.place.published.fit import BYTES_PER_FLOP, fit, work_of
from handtorch.place.published.nets import layers_of
from handtorch.place.published.row import Row

NETWORKS = ("resnet18", "alexnet-227", "mobilenet1.0-224")
TRUE = Software({"conv3x3": 2.0}, winograd=True)


def made(setting: str, rates: Rates, *networks: str) -> Iterator[Row]:
    """Rows as a device with these constants would have printed them."""
    for network in networks:
        took = predict(map(work_of, layers_of(network)), rates, TRUE).total_s
        yield Row(f"{setting}.{network}", "made", setting, network, 1e3 * took, "ms",
                  "calibration", framework="ncnn-cpu", network=network)


def phones() -> list[tuple[str, Rates]]:
    return [(f"phone {i}", Rates(10e9 * 2**i, BYTES_PER_FLOP * 10e9 * 2**i, 7e-6))
            for i in range(4)]


def test_what_printed_the_rows_is_found_again() -> None:
    rows = [row for name, rates in phones() for row in made(name, rates, *NETWORKS)]
    fitted = fit("ncnn-cpu", rows)
    for name, rates in phones():
        for network in ("resnet50", "vgg16", "mobilenetv2"):
            works = [work_of(layer) for layer in layers_of(network)]
            told = predict(works, fitted.rates[name], fitted.software).total_s
            assert told == pytest.approx(predict(works, rates, TRUE).total_s, rel=0.12), network
    assert 1.4 < fitted.software.share("conv3x3") < 2.2


def test_a_held_out_row_changes_nothing() -> None:
    rows = [row for name, rates in phones() for row in made(name, rates, *NETWORKS)]
    spoilt = [replace(rows[0], id="x", tag="held-out", network="vgg16", value=1.0), *rows]
    assert fit("ncnn-cpu", spoilt) == fit("ncnn-cpu", rows)


def test_one_row_gives_a_rate_and_the_rest_is_what_is_known() -> None:
    (name, rates), *_ = phones()
    fitted = fit("ncnn-cpu", list(made(name, rates, "resnet18")))
    assert fitted.rates[name].launch_s == pytest.approx(7e-6, rel=0.1)
    found = fitted.rates[name]
    assert found.bytes_per_s / found.flops_per_s == pytest.approx(BYTES_PER_FLOP, rel=0.2)
