"""The `handtorch` command: finds the module of the asked command and runs it.

A command is a module with `HELP`, `EXAMPLE`, `COMMON`, `add_args` and `run`. It writes its result
to `out` and nothing else there; progress goes to standard error. `--json` belongs to every
command and is added here; `COMMON` lists which other shared options it takes. What a command
needs beyond the standard library is imported inside `run`, so that `--help` stays quick.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import NoReturn, Protocol, TextIO, cast

from handtorch import knobs
from handtorch.errors import BadInput, HandTorchError, nearest

COMMANDS = {
    "bench": "handtorch.cli.bench",
    "devices": "handtorch.cli.devices",
    "doctor": "handtorch.cli.doctor",
    "infer": "handtorch.cli.infer",
    "place": "handtorch.cli.place",
    "plan": "handtorch.cli.plan",
    "profile": "handtorch.cli.profile",
    "recognize": "handtorch.cli.recognize",
    "relay": "handtorch.cli.relay",
    "report": "handtorch.cli.report",
    "serve": "handtorch.cli.serve",
    "study": "handtorch.cli.study",
    "train": "handtorch.cli.train",
    "tune": "handtorch.cli.tune",
    "why": "handtorch.cli.why",
}

EXIT_OK = 0
EXIT_NOT_DONE = 1       # it ran, but what was asked for did not hold: a self-test failed, ...
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130  # as shells report SIGINT
EXIT_TERMINATED = 143   # as shells report SIGTERM
EXIT_PIPE_CLOSED = 141  # as shells report SIGPIPE


class Terminated(KeyboardInterrupt):
    """SIGTERM, which then ends a command as Ctrl-C does; see `run_file.ends_whole`."""


class Command(Protocol):
    HELP: str                   # one line, no full stop
    EXAMPLE: str                # one command line
    COMMON: tuple[str, ...]     # which of `device`, `quick` it takes

    def add_args(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace, out: TextIO) -> int: ...


def entry() -> int:
    """The console script."""
    try:
        code = main(sys.argv[1:], sys.stdout, sys.stderr)
        sys.stdout.flush()
        return code
    except OSError as failed:
        if failed.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        # Python flushes once more when it ends; what is left must go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if failed.errno == errno.EPIPE:     # `handtorch devices | head -1`: the reader has left
            return EXIT_PIPE_CLOSED
        sys.stderr.write(f"handtorch: the result cannot be written: {failed.strerror}\n")
        return EXIT_ERROR


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Run one command line; errors meant for the user end as text on `err`, or as JSON on `out`."""
    try:
        with redirect_stdout(out), redirect_stderr(err):
            args = _parse(argv)
        return args.run(args, out)      # type: ignore[no-any-return]
    except _HelpShown:
        return EXIT_OK
    except HandTorchError as error:
        if "--json" in argv:
            out.write(json.dumps({"error": _record(error)}, indent=2) + "\n")
        else:
            err.write(f"handtorch: {error}\n")
        return EXIT_ERROR
    except KeyboardInterrupt as how:
        err.write("handtorch: interrupted\n")
        return EXIT_TERMINATED if isinstance(how, Terminated) else EXIT_INTERRUPTED


def version() -> str:
    try:
        return importlib.metadata.version("handtorch")
    except importlib.metadata.PackageNotFoundError:
        return "from a source tree"


def _record(error: HandTorchError) -> dict[str, str]:
    return {"kind": type(error).__name__, "what": error.what, "why": error.why,
            "where": error.where, "fix": error.fix}


class _HelpShown(Exception):
    """The parser has printed what was asked for; nothing is left to do."""


class _Parser(argparse.ArgumentParser):
    """argparse that raises our errors instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(message, fix=f"`{self.prog} --help`")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise _HelpShown


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, with the function to call as `run`; imports the asked module, for help all."""
    # No abbreviations anywhere: a new option must not break a script that shortened an old one.
    parser = _Parser(
        prog="handtorch", allow_abbrev=False,
        description="Train and run PyTorch models on the OpenCL device in your hand.",
        epilog="`handtorch COMMAND --help` tells more about one command.")
    for name, run, text in (("--version", _show_version, "show the version"),
                            ("--help-knobs", _show_knobs,
                             "list the environment variables that are read")):
        parser.add_argument(name, dest="run", action="store_const", const=run, help=text)
    asked = next((a for a in argv if not a.startswith("-")), None)
    if asked is not None and asked not in COMMANDS:
        raise BadInput(f"no command {asked!r}", why=f"there is {', '.join(COMMANDS)}",
                       fix=nearest(asked, COMMANDS, "`handtorch --help`", "`handtorch {}`"))
    subparsers = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    for name in COMMANDS if asked is None else (asked,):
        command = cast(Command, importlib.import_module(COMMANDS[name]))
        sub = subparsers.add_parser(
            name, help=command.HELP, description=f"{command.HELP}.", allow_abbrev=False,
            epilog=f"example: {command.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter)   # an example stays one line
        command.add_args(sub)
        for option in ("json", *command.COMMON):
            _add_common(sub, option)
        sub.set_defaults(run=command.run)
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        of = f"handtorch {asked}" if asked else "handtorch"
        options = [o for action in sub._actions for o in action.option_strings] if asked else []
        raise BadInput(f"unknown argument {unknown[0]!r}", why=f"`{of}` does not take it",
                       fix=nearest(unknown[0], options, f"`{of} --help`"))
    if args.run is None:
        parser.print_help(sys.stderr)
        raise BadInput("no command given", fix="`handtorch devices`")
    return args


def _add_common(parser: argparse.ArgumentParser, option: str) -> None:
    if option == "device":
        parser.add_argument("--device", metavar="NAME", help="index, short name, or a part of the "
                            "name or vendor; `pocl/0-of-2` is a part of a device")
    else:
        text = {"json": "print one JSON record and nothing else",
                "quick": "a smaller form, done sooner"}[option]
        parser.add_argument(f"--{option}", action="store_true", help=text)


def _show_version(args: argparse.Namespace, out: TextIO) -> int:
    out.write(f"handtorch {version()} (Python {platform.python_version()})\n")
    return EXIT_OK


def _show_knobs(args: argparse.Namespace, out: TextIO) -> int:
    wide = max(len(k.name) for k in knobs.KNOBS)
    for k in knobs.KNOBS:
        default = f" [{k.default}]" if k.default else ""
        out.write(f"{k.name:<{wide}}  {k.help}{default}\n")
    return EXIT_OK
