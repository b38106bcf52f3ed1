"""docs/tour.md is rebuilt: its program is run, and each excerpt is looked for in what it leaves."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "tour.md").read_text()
EXCERPT = re.compile(r"^```text (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(\d\d-[a-z-]+)` \| (\d+) \|", re.MULTILINE)


@pytest.fixture(scope="module")
def left(opencl_device: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What every stage wrote, by the name of its file, and what the program printed."""
    if opencl_device.spec.kind != "cpu":
        pytest.skip("the tour's launches are those of a CPU")
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    folder, out = tmp_path_factory.mktemp("tour"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.chdir(folder)
        patch.setenv("HANDTORCH_DUMP", "dump")
        patch.setenv("HANDTORCH_DEVICE", opencl_device.label)
        Path("tour.py").write_text(code)
        linecache.clearcache()
        exec(compile(code, "tour.py", "exec"), {"__name__": "tour"})
    return {**{p.name: p.read_text() for p in (folder / "dump").iterdir()},
            "printed": out.getvalue()}


def test_every_excerpt_is_in_what_the_stages_write(left: dict[str, str]) -> None:
    excerpts = EXCERPT.findall(PAGE)
    assert {name for name, _ in excerpts} >= {"00-capture.txt", "13-order.txt", "14-lower.txt",
                                              "15-program.txt", "printed"}
    for name, text in excerpts:
        rest = iter(left[name].splitlines())
        for line in text.splitlines():
            pattern = re.escape(line.strip()).replace(re.escape("..."), ".*")
            assert any(re.fullmatch(pattern, seen.strip()) for seen in rest), (
                f"{name} has no line (here, in this order)\n{line}\n{left[name][:4000]}")


def test_the_table_counts_the_nodes_of_each_stage(left: dict[str, str]) -> None:
    rows = ROW.findall(PAGE)
    assert len(rows) == 14
    for name, count in rows:
        lines = left[f"{name}.txt"].splitlines()
        assert sum(line.lstrip().startswith("%") for line in lines) == int(count), name


def test_torch_gives_the_same_losses() -> None:
    """The page says so, whatever the device."""
    import torch

    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {"__name__": "tour"}
    exec(compile(code.partition("step = ")[0], "tour.py", "exec"), names)
    losses = []
    for _ in range(3):
        names["optimizer"].zero_grad()
        loss = torch.nn.functional.cross_entropy(names["model"](names["x"]), names["y"])
        loss.backward()
        names["optimizer"].step()
        losses.append(f"{loss:.4f}")
    assert f"\n{' '.join(losses)}\n" in PAGE
