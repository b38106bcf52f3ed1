"""A training step or a run of a model of the zoo, as commands ask for one."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, TextIO

from handtorch.cli.main import EXIT_OK
from handtorch.errors import BadInput, nearest

if TYPE_CHECKING:
    from handtorch.graph.node import Graph
    from handtorch.zoo.entry import Entry


@contextmanager
def _torch_for(asked: str, without_torch: str) -> Iterator[None]:
    try:
        from handtorch.capture.torch_version import check_torch
        check_torch()
        yield
    except ImportError as e:
        raise BadInput(asked, why=f"the zoo needs torch ({e})",
                       fix=f"pip install handtorch[torch]{without_torch}") from e


def add_list(parser: ArgumentParser) -> None:
    parser.add_argument("--list", action="store_true", help="list the models of the zoo, their "
                        "forms and how many parameters they have, and nothing else")


def show_list(args: Namespace, out: TextIO) -> int:
    """Every form of every model, a line each."""
    with _torch_for("--list", ""):
        from handtorch.zoo.listing import listed
    from handtorch.profile.columns import table

    found = list(listed())
    if args.json:
        out.write(json.dumps({"models": [asdict(one) for one in found]}) + "\n")
        return EXIT_OK
    wide = max(len(one.form) for one in found)
    rows = [(one.name, f"{one.form:<{wide}}", f"{one.parameters:,}", f"{one.narrow_parameters:,}",
             one.domain) for one in found]
    told = table(("model", f"{'form':<{wide}}", "parameters", "narrow", ""), rows)
    out.write(f"{told}\nThe first form of a model is the usual one, --form names another. Under "
              "`narrow` are\nthe parameters of its narrow twin, which quick studies train.\n")
    return EXIT_OK


def no_model(command: str) -> BadInput:
    """For who named none."""
    return BadInput("no model named", why=f"`handtorch {command}` needs one",
                    fix=f"`handtorch {command} --list` shows those of the zoo")


def entry_of(name: str, *, asked: str, example: str, without_torch: str = "") -> Entry:
    """What the zoo knows of a model. Refusals call it what was `asked`, and tell an `example` that
    works and what goes `without_torch`."""
    with _torch_for(asked, without_torch):
        from handtorch.zoo.registry import MODELS
    if name not in MODELS:
        raise BadInput(f"no model {name!r} in the zoo", why=f"there is {', '.join(MODELS)}",
                       fix=nearest(name, MODELS, example))
    return MODELS[name]


def captured_model(name: str, batch: int, form: str = "", *, asked: str, example: str,
                   without_torch: str = "") -> Graph:
    """The captured step of a batch of so many rows; refusals as those of `entry_of`."""
    entry = entry_of(name, asked=asked, example=example, without_torch=without_torch)
    if batch < 1:
        raise BadInput(f"--batch {batch}", why="a batch has one row or more")
    with _torch_for(asked, without_torch):
        from handtorch.capture.step import capture_user_step
    model, data = entry.make(form), entry.batch(batch, form)
    optimizers = entry.optimizers(model)
    return capture_user_step(entry.step(model, optimizers), [model], optimizers, data).graph


def captured_run(name: str, batch: int, form: str = "", *, asked: str, example: str) -> Graph:
    """The captured inference of a batch of so many rows; refusals as those of `entry_of`."""
    entry = entry_of(name, asked=asked, example=example)
    if batch < 1:
        raise BadInput(f"--batch {batch}", why="a batch has one row or more")
    with _torch_for(asked, ""):
        from handtorch.capture.step import capture_inference
    return capture_inference(entry.make(form).eval(), entry.inputs(entry.batch(batch, form))).graph
