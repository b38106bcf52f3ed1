"""Everything public has a docstring with an example, and each example runs as it stands there."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import handtorch as ht
from dev.reference import CALLED, GIVEN, SHARED, Entry, entries

ENTRIES = tuple(entries())
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The names that examples begin with, and a folder for what they write."""
    folder = tmp_path_factory.mktemp("examples")
    zone = folder / "machine/sys/class/thermal/thermal_zone0"
    zone.mkdir(parents=True)
    (zone / "type").write_text("cpu-thermal\n")
    (zone / "temp").write_text("41000\n")
    names: dict[str, Any] = {"__name__": "examples"}
    exec(compile(SHARED, "shared.py", "exec"), names)
    yield folder, names
    names["step"].close()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.heading.partition(":")[0])
def test_it_has_an_example_that_runs(
        entry: Entry, shared: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, names = shared
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HANDTORCH_SENSORS", str(folder / "machine"))
    (folder / "run.htr").unlink(missing_ok=True)
    assert entry.text and entry.example, "a docstring with an example"
    test = doctest.DocTestParser().get_doctest(entry.example + "\n", dict(names), entry.heading,
                                               None, 0)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append)
    assert not said, "".join(said)


def test_all_that_is_exported_is_among_them() -> None:
    assert set(ht.__all__) - {"__version__"} <= CALLED.keys() | GIVEN.keys()
    for name in CALLED:
        assert getattr(ht, name) is not None


def test_the_page_is_up_to_date() -> None:
    from dev import reference

    assert reference.PAGE.read_text() == reference.page(), "try: python3 -m dev reference"
