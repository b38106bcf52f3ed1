"""A room imports only rooms of a lower rank; a heavy library has one home; files stay small.

Every import counts: late ones, those under TYPE_CHECKING, and `import_module("...")`. The last part
of this file plants each violation in a small tree, so that the check itself is known to bite.
"""

from __future__ import annotations

import ast
import graphlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "handtorch"

RANK = {
    "errors": -1,  # below the other foundations: they raise too
    "dtypes": 0, "knobs": 0, "callable_room": 0, "late_dynamo": 0,
    "graph": 1, "record": 1,
    "capture": 2, "passes": 2, "kernels": 2, "plan": 2, "meters": 2, "place": 2, "report": 2,
    "store": 2,
    "lower": 3, "program": 3,
    "pipeline": 4, "runtime": 4,
    "tune": 5, "zoo": 5, "baseline": 5, "api": 5, "selftest": 5,
    "profile": 6, "offload": 6, "cloud": 6, "bench": 6,
    "studies": 7, "doctor": 7,
    "cli": 8,
    "__init__": 9, "__main__": 9,
}  # fmt: skip
# A library that is not listed here is not a dependency of ours. "" is every room.
HOMES = {
    "numpy": ("",),
    "torch": ("capture/", "zoo/", "baseline/", "bench/sides/"),
    "tinygrad": ("bench/sides/",), "MNN": ("bench/sides/",), "onnxruntime": ("bench/sides/",),
    "pyopencl": ("runtime/opencl/",),
    "sklearn": ("zoo/", "baseline/", "studies/"),
    "jinja2": ("report/",),
    "gymnasium": ("zoo/data/",), "ale_py": ("zoo/data/",),
    "PIL": ("cloud/",), "starlette": ("cloud/",), "uvicorn": ("cloud/",), "uvloop": ("cloud/",),
    "ray": ("cloud/replicas.py",),
    "httptools": ("cloud/",),
}
# Rooms that may read less than their rank allows.
READS_ONLY = {"report": {"errors", "record"}, "graph": {"errors", "dtypes"}}
STANDARD_LIBRARY_ONLY = {"graph", "meters"}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
READ_ELSEWHERE = "the environment is read in knobs.py only"

FILE_LINES, FUNCTION_LINES = 400, 50


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each import of a file as (line, dotted name), wherever in the file it hides."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func).rsplit(".", 1)[-1]
            first = node.args[0]
            if (
                called in ("import_module", "__import__")
                and isinstance(first, ast.Constant)
                and isinstance(first.value, str)
            ):
                yield node.lineno, first.value


def room_of(name: str) -> str:
    """The room a dotted name of ours belongs to; a public name counts as `__init__`."""
    part = name.split(".")[1] if "." in name else "__init__"
    return part if part in RANK else "__init__"


def wrong_imports(package: Path) -> list[str]:
    """Every line that breaks a rule, as `file:line what is wrong`."""
    wrong = []
    for path in sorted(package.rglob("*.py")):
        rel = path.relative_to(package).as_posix()
        room = rel.split("/")[0].removesuffix(".py")
        if room not in RANK:
            wrong.append(f"{rel}:1 room {room} has no rank")
            continue
        tree = ast.parse(path.read_text(), rel)
        wrong += [f"{rel}:{line} {why}" for line, why in _judge(rel, room, tree)]
    return wrong


def _judge(rel: str, room: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    for line, name in imports(tree):
        top = name.split(".")[0]
        if name.startswith("."):
            yield line, f"relative import {name}"
        elif top == "handtorch":
            other = room_of(name)
            if other == room:
                continue
            if RANK[other] >= RANK[room] or other not in READS_ONLY.get(room, RANK):
                yield line, f"{room} may not import {other}"
        elif top not in sys.stdlib_module_names:
            if room in STANDARD_LIBRARY_ONLY:
                yield line, f"{room} may import only the standard library, not {top}"
            elif not rel.startswith(HOMES.get(top, ())):
                homes = ", ".join(HOMES.get(top, ())) or "nowhere"
                yield line, f"{top} may be imported in: {homes}"
    if rel != "knobs.py":
        yield from ((line, READ_ELSEWHERE) for line in _reads(tree))


def _reads(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT:
            yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            yield from (node.lineno for alias in node.names if alias.name in ENVIRONMENT)


def cycle_inside_a_room(package: Path) -> list[str]:
    """The modules of one import cycle among modules of the same room, or nothing."""
    paths = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        dotted = ".".join(("handtorch", *parts)).removesuffix(".__init__")
        paths[dotted] = path
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        graph[module] = set()
        for _, name in imports(ast.parse(path.read_text())):
            # `from handtorch.graph.node import Value` names no module; its longest prefix does.
            while name and name not in paths:
                name = name.rpartition(".")[0]
            if name and name != module and room_of(name) == room_of(module):
                graph[module].add(name)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def too_large(folder: Path) -> list[str]:
    """Files and functions over the limit; a function's docstring does not count."""
    wrong = []
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".py", ".cl", ".h"):
            continue
        text, rel = path.read_text(), path.relative_to(folder.parent).as_posix()
        if (lines := len(text.splitlines())) > FILE_LINES:
            wrong.append(f"{rel}: {lines} lines, the limit is {FILE_LINES}")
        for node in ast.walk(ast.parse(text)) if path.suffix == ".py" else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = (node.end_lineno or 0) - node.lineno + 1
                if ast.get_docstring(node) is not None:
                    body -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
                if body > FUNCTION_LINES:
                    where = f"{rel}:{node.lineno} {node.name}"
                    wrong.append(f"{where}: {body} lines, the limit is {FUNCTION_LINES}")
    return wrong


def repository_texts(root: Path) -> Iterator[tuple[str, str]]:
    """Each text file that could be committed, as (path, text)."""
    skipped = {"__pycache__", "build", "dist", "runs"}
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(
            name for name in folders
            if name not in skipped and not name.endswith(".egg-info")
            and (name == ".ci" or not name.startswith("."))
        )  # fmt: skip
        for name in sorted(files):
            path = Path(folder, name)
            try:
                yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # not a text


def machine_paths(root: Path) -> list[str]:
    """Lines that name a folder of somebody's own machine."""
    own = re.compile(r"/(root|work|tmp)/[A-Za-z]|(?<![\w.])/home/[A-Za-z]")
    return [
        f"{rel}:{number} {line.strip()}"
        for rel, text in repository_texts(root)
        for number, line in enumerate(text.splitlines(), 1)
        if own.search(line)
    ]


def test_rooms_import_only_lower_rooms() -> None:
    assert wrong_imports(PACKAGE) == []


def test_no_cycle_inside_a_room() -> None:
    assert cycle_inside_a_room(PACKAGE) == []


@pytest.mark.parametrize("folder", ["src", "dev", "tests", "benchmarks"])
def test_files_and_functions_stay_small(folder: str) -> None:
    assert too_large(ROOT / folder) == []


def test_no_machine_paths() -> None:
    assert machine_paths(ROOT) == []


# The checks themselves, on planted trees.


def plant(root: Path, files: dict[str, str]) -> Path:
    for rel, text in files.items():
        path = root / rel
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("rel", "text", "said"),
    [
        ("graph/a.py", "import handtorch.lower.x", "1 graph may not import lower"),
        ("plan/a.py", "from handtorch.lower.x import y", "1 plan may not import lower"),
        ("plan/a.py", "def f():\n    import handtorch.runtime", "2 plan may not import runtime"),
        (
            "plan/a.py",
            "if TYPE_CHECKING:\n    from handtorch.cli import main",
            "2 plan may not import cli",
        ),
        ("plan/a.py", "from handtorch import runtime", "1 plan may not import runtime"),
        ("cli/a.py", "from handtorch import train_step", "1 cli may not import __init__"),
        ("cli/a.py", "import handtorch as ht", "1 cli may not import __init__"),
        ("plan/a.py", "from handtorch.passes import fold", "1 plan may not import passes"),
        ("lower/a.py", "from . import b", "1 relative import ..b"),
        ("lower/a.py", "from .b import c", "1 relative import .b.c"),
        ("report/a.py", "from handtorch.graph import node", "1 report may not import graph"),
        ("graph/a.py", "from handtorch import knobs", "1 graph may not import knobs"),
        (
            "graph/a.py",
            "import numpy as np",
            "1 graph may import only the standard library, not numpy",
        ),
        (
            "api.py",
            "def f():\n    import torch",
            "2 torch may be imported in: capture/, zoo/, baseline/, bench/sides/",
        ),
        (
            "runtime/ref.py",
            "import pyopencl as cl",
            "1 pyopencl may be imported in: runtime/opencl/",
        ),
        (
            "runtime/ref.py",
            "cl = importlib.import_module('pyopencl')",
            "1 pyopencl may be imported in: runtime/opencl/",
        ),
        ("record/io.py", "import pandas", "1 pandas may be imported in: nowhere"),
        ("runtime/a.py", "import os\nx = os.environ['A']", f"2 {READ_ELSEWHERE}"),
        ("runtime/a.py", "import os as o\no.getenv('A')", f"2 {READ_ELSEWHERE}"),
        ("runtime/a.py", "from os import environ", f"1 {READ_ELSEWHERE}"),
        ("helpers/a.py", "", "1 room helpers has no rank"),
    ],
)  # fmt: skip
def test_a_planted_import_is_caught(tmp_path: Path, rel: str, text: str, said: str) -> None:
    assert wrong_imports(plant(tmp_path, {rel: text})) == [f"{rel}:{said}"]


def test_a_lawful_tree_passes(tmp_path: Path) -> None:
    tree = {
        "knobs.py": "import os\nx = os.environ",
        "graph/node.py": "from handtorch import dtypes\nfrom handtorch.graph import opset",
        "graph/opset.py": "import math",
        "capture/step.py": "import torch\nimport numpy",
        "runtime/opencl/load.py": "import pyopencl",
        "__init__.py": "from handtorch.api import train_step",
        "api.py": "from handtorch.capture.step import x\nfrom handtorch import pipeline",
        "pipeline.py": "",
    }
    assert wrong_imports(plant(tmp_path, tree)) == []
    assert cycle_inside_a_room(tmp_path) == []


@pytest.mark.parametrize(
    "back", ["from handtorch.plan.a import f", "def g():\n    from handtorch.plan import a"]
)
def test_a_planted_cycle_is_caught(tmp_path: Path, back: str) -> None:
    plant(tmp_path, {"plan/a.py": "import handtorch.plan.b", "plan/b.py": back})
    assert sorted(set(cycle_inside_a_room(tmp_path))) == ["handtorch.plan.a", "handtorch.plan.b"]


def test_a_cycle_through_the_rooms_own_door_is_caught(tmp_path: Path) -> None:
    door = {"plan/__init__.py": "from handtorch.plan.a import f"}
    plant(tmp_path, door | {"plan/a.py": "from handtorch.plan import f"})
    assert sorted(set(cycle_inside_a_room(tmp_path))) == ["handtorch.plan", "handtorch.plan.a"]


def test_size_limits_bite(tmp_path: Path) -> None:
    body = "    x = 1\n" * FUNCTION_LINES
    plant(tmp_path / "s", {"a.py": "\n" * 401, "b.py": f"def f():\n{body}", "c.cl": "\n" * 400})
    assert too_large(tmp_path / "s") == [
        "s/a.py: 401 lines, the limit is 400",
        "s/b.py:1 f: 51 lines, the limit is 50",
    ]


def test_a_docstring_is_not_counted(tmp_path: Path) -> None:
    doc = '    """' + "a line\n" * 30 + '    """\n'
    body = "    x = 1\n" * (FUNCTION_LINES - 1)
    plant(tmp_path / "s", {"a.py": f"def f():\n{doc}{body}"})
    assert too_large(tmp_path / "s") == []


def test_planted_machine_paths_are_caught(tmp_path: Path) -> None:
    folder = "/" + "tmp" + "/x"
    plant(tmp_path, {"a.md": f"see {folder}", "b.md": "see /usr/lib/x", ".venv/c.md": folder})
    assert machine_paths(tmp_path) == [f"a.md:1 see {folder}"]
