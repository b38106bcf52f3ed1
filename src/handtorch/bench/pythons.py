"""Which Python has which peer: ours, or the one that the user names for them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from handtorch import knobs
from handtorch.bench.sides import SideKind
from handtorch.errors import BadInput

_PACKAGE = Path(knobs.__file__).resolve().parent
_ASK_S = 60
_ASK = ("import importlib.util, json, sys; "
        "print(json.dumps([m for m in sys.argv[1:] if importlib.util.find_spec(m)]))")


def pythons_for(kinds: Iterable[SideKind], peers: str | None
                ) -> tuple[dict[str, str], dict[str, str]]:
    """By side the Python that has all it needs, ours before the other; and by side why none has.

    Whether a library works there is only seen when it is used."""
    kinds = list(kinds)
    modules = sorted({name for kind in kinds for name in kind.needs})
    has = {sys.executable: [name for name in modules if find_spec(name) is not None]}
    if peers is not None:
        has[peers] = _modules(peers, modules)
    return chosen(kinds, has)


def chosen(kinds: Iterable[SideKind], has: Mapping[str, Sequence[str]]
           ) -> tuple[dict[str, str], dict[str, str]]:
    found: dict[str, str] = {}
    absent: dict[str, str] = {}
    for kind in kinds:
        fits = [python for python, there in has.items() if set(kind.needs) <= set(there)]
        if fits:
            found[kind.name] = fits[0]
        else:
            missing = [m for m in kind.needs if not any(m in there for there in has.values())]
            absent[kind.name] = (f"{', '.join(missing)} is not installed; --peers names a Python "
                                 "that has it" if missing else "no one Python has all of "
                                 f"{', '.join(kind.needs)}")
    return found, absent


def environment(python: str, package: Path | None = None) -> dict[str, str]:
    """Of a child in this Python. Another than ours gets our package alone, through `package`, a
    folder where it is linked: beside it may lie all of our own Python's libraries."""
    given = knobs.environment_for_child()
    if python == sys.executable:
        return given
    return {**given, "PYTHONPATH": "" if package is None else str(_linked(package))}


def _linked(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    link = folder / _PACKAGE.name
    if not link.exists():
        link.symlink_to(_PACKAGE, target_is_directory=True)
    return folder


def _modules(python: str, modules: Sequence[str]) -> list[str]:
    try:
        done = subprocess.run([python, "-c", _ASK, *modules], capture_output=True, text=True,
                              timeout=_ASK_S, check=True, env=environment(python))
        return [str(name) for name in json.loads(done.stdout)]
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        raise BadInput(f"--peers {python}", why=f"it is no Python that answers: {e}",
                       fix="the python of a virtual environment, as venv/bin/python") from e
