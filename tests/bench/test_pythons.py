"""Which Python has which peer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from handtorch.bench.pythons import chosen, environment, pythons_for
from handtorch.bench.sides import SideKind
from handtorch.errors import BadInput


def side(name: str, *needs: str) -> SideKind:
    return SideKind(name, "file", needs, ("train",), "")


def test_ours_before_the_other_and_reasons_where_none_fits() -> None:
    kinds = [side("both", "torch"), side("theirs", "MNN"), side("none", "jax"),
             side("apart", "torch", "MNN"), side("free")]
    found, absent = chosen(kinds, {"ours": ["torch"], "other": ["MNN", "torch"]})
    assert found == {"both": "ours", "theirs": "other", "apart": "other", "free": "ours"}
    assert absent == {"none": "jax is not installed; --peers names a Python that has it"}
    _, absent = chosen(kinds[3:4], {"ours": ["torch"], "other": ["MNN"]})
    assert absent == {"apart": "no one Python has all of torch, MNN"}


def test_a_real_one_is_asked() -> None:
    found, absent = pythons_for([side("a", "json"), side("b", "no_such")], None)
    assert found == {"a": sys.executable} and list(absent) == ["b"]


def test_what_is_no_python_is_refused(tmp_path: Path) -> None:
    for peers in ("/bin/true", str(tmp_path / "none")):
        with pytest.raises(BadInput, match="it is no Python that answers"):
            pythons_for([side("a", "json")], peers)


def test_another_python_sees_our_package_and_nothing_beside_it(tmp_path: Path) -> None:
    own = environment(sys.executable)
    other = environment("other", tmp_path / "package")
    assert other["PYTHONPATH"] == str(tmp_path / "package") != own["PYTHONPATH"]
    assert [p.name for p in (tmp_path / "package").iterdir()] == ["handtorch"]
    done = subprocess.run([sys.executable, "-c", "import handtorch; print(handtorch.__file__)"],
                          env=other, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path / "package" / "handtorch"))
    assert environment("other")["PYTHONPATH"] == ""
