"""The stamp names the program."""

from __future__ import annotations

from importlib import metadata

import pytest

from handtorch.store.stamp import made_by


def test_the_version_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: {"handtorch": "7.8"}[name])
    assert made_by() == "handtorch 7.8"


def test_a_source_tree_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", nothing)
    assert made_by() == "handtorch from a source tree"
