"""The page from docstrings: whether it is up to date, and how what is called is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev import reference


def test_a_page_that_is_not_up_to_date_is_told(tmp_path: Path,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "reference.md"
    assert reference.main(["--check"], page) == 1
    assert "try: python3 -m dev reference" in capsys.readouterr().out
    assert reference.main([], page) == 0 and reference.main(["--check"], page) == 0
    page.write_text(page.read_text() + "more\n")
    assert reference.main(["--check"], page) == 1


def test_a_signature_is_as_it_is_written() -> None:
    calls = {entry.heading.partition(":")[0]: entry.call for entry in reference.entries()}
    assert calls["ht.inference"] == (
        "ht.inference(model: Any, *, example: Sequence[Any], device: str | None = None)"
        " -> Inference")
    assert calls["ht.Place"].startswith("ht.Place(\n    name: str,\n    call: Callable[..., Any],")
    assert calls["TrainStep.call"] == "(*batch: Any, timed: bool = False, **named: Any) -> Any"
    assert calls["TrainStep.paused"] == ".paused", "of the class it is made of"
    assert calls["DeviceSpec.from_dict"] == ".from_dict(values: Mapping[str, object]) -> DeviceSpec"
    assert "0x" not in reference.page(), "no address of an object, which is another each time"
