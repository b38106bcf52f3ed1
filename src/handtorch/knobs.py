"""Every setting that comes from outside, in one place: the sole reader of `os.environ`.

`KNOBS` is the list shown by `handtorch --help-knobs`. Functions read the environment when called,
so a test may change it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from handtorch.errors import BadInput


@dataclass(frozen=True)
class Knob:
    name: str
    default: str
    help: str


KNOBS = (
    Knob("HANDTORCH_CAPTURE", "apart", "where a step is traced: `apart`, in a copy of the process "
         "that ends afterwards, or `here`, where a debugger sees it"),
    Knob("HANDTORCH_DEVICE", "", "device by index, name or vendor; `pocl/0-of-2` is a part of one"),
    Knob("HANDTORCH_CACHE", "", "folder for compiled kernels and verdicts (else the XDG cache)"),
    Knob("HANDTORCH_DUMP", "", "folder into which every compiler stage writes its product"),
    Knob("HANDTORCH_KEY", "", "file with the secret key that vouches for compiled programs in .ht "
         "files (else programs.key in the cache); machines that share one believe each other"),
    Knob("HANDTORCH_RUNS", "runs", "folder for run files and pages"),
    Knob("HANDTORCH_SENSORS", "/", "folder that stands for / when sensors are looked for; what is "
         "read below another one is called simulated"),
    Knob("HANDTORCH_SHARED", "", "folder with the optional real data sets, in `data` below it"),
    Knob("HANDTORCH_SPARE", "10", "percent of a training step's predicted time that may be spent "
         "on making values again instead of keeping them; 0 keeps all"),
    Knob("HANDTORCH_TOKEN", "", "the word that a server asks of its clients, and a client gives"),
)
_DEFAULTS = {k.name: k.default for k in KNOBS}
_PARENT = "HANDTORCH_PARENT"             # no setting: told to each child, see `parent_process`


def value(name: str) -> str:
    """The knob's value, or its default; asking for a knob that is not listed is our bug."""
    return os.environ.get(name, "") or _DEFAULTS[name]


def cache_folder() -> Path:
    """Where compiled kernels and verdicts lie; not created here."""
    if chosen := value("HANDTORCH_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "handtorch"


def dump_folder() -> Path | None:
    chosen = value("HANDTORCH_DUMP")
    return Path(chosen).expanduser() if chosen else None


def captures_apart() -> bool:
    """Whether a step may be traced in a copy of this process."""
    given = value("HANDTORCH_CAPTURE")
    if given not in ("apart", "here"):
        raise BadInput(f"HANDTORCH_CAPTURE={given}", why="it is `apart` or `here`",
                       fix="unset it, or `here` to trace in this process")
    return given == "apart"


def spare_share() -> float:
    """The part of a training step's time that may be spent on holding less."""
    given = value("HANDTORCH_SPARE")
    try:
        percent = float(given)
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise BadInput(f"HANDTORCH_SPARE={given}", why="it is a percentage, 0 to 100",
                       fix="unset it, or 0 to keep every value")
    return percent / 100


def loader_setting(name: str) -> str:
    """A setting of a library that we load (`OCL_ICD_VENDORS`, ...), empty if unset."""
    return os.environ.get(name, "")


def environment_for_child() -> dict[str, str]:
    """A child process finds this package and the settings as we have them."""
    here = str(Path(__file__).parents[1])
    path = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{path}" if path else here,
            _PARENT: str(os.getpid())}


def parent_process() -> int | None:
    """Who started us with `environment_for_child`, alive or not; None if nobody did."""
    told = os.environ.get(_PARENT, "")
    return int(told) if told.isdecimal() else None


def set_for_loader(name: str, setting: str) -> None:
    """Tell a library something; works only before it is loaded."""
    os.environ[name] = setting


_PEOPLE = ("USER", "LOGNAME", "USERNAME", "SUDO_USER", "HOSTNAME", "HOST", "EMAIL", "NAME")


def private_words() -> frozenset[str]:
    """What the environment tells of its owner: names, and every path in it."""
    names = {os.environ.get(name, "") for name in _PEOPLE}
    paths = {part for text in os.environ.values() for part in text.split(os.pathsep)
             if "/" in part}
    return frozenset(word for word in names | paths if word)
