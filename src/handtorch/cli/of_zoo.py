"""A training step of a model of the zoo, as commands ask for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handtorch.errors import BadInput

if TYPE_CHECKING:
    from handtorch.graph.node import Graph


def captured_model(name: str, batch: int, form: str = "", *, asked: str, example: str,
                   without_torch: str = "") -> Graph:
    """The captured step of a batch of so many rows. Refusals call it what was `asked`, and tell an
    `example` that works and what goes `without_torch`."""
    try:
        from handtorch.capture.step import capture_user_step
        from handtorch.zoo.registry import MODELS
    except ImportError as e:
        raise BadInput(asked, why=f"the zoo needs torch ({e})",
                       fix=f"pip install handtorch[torch]{without_torch}") from e
    if name not in MODELS:
        raise BadInput(f"no model {name!r} in the zoo", why=f"there is {', '.join(MODELS)}",
                       fix=example)
    if batch < 1:
        raise BadInput(f"--batch {batch}", why="a batch has one row or more")
    entry = MODELS[name]
    model, data = entry.make(form), entry.batch(batch, form)
    optimizers = entry.optimizers(model)
    return capture_user_step(entry.step(model, optimizers), [model], optimizers, data).graph
