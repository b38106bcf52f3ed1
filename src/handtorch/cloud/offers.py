"""What a user says of a model, as an offer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from handtorch.cloud.engines import CPU, OPENCL, File, Source, ZooModel
from handtorch.cloud.models import Offer
from handtorch.cloud.recipes import RECIPES, RECOGNIZERS, Recipe, read_labels
from handtorch.errors import BadInput
from handtorch.store.sample import SAMPLE, model_file

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Given:
    """Options; empty where they were not given."""

    engine: str | None = None
    device: str | None = None
    trust_programs: bool = False
    weights: str = ""
    labels: str = ""
    recipe: str = ""


def offer_of(name: str, version: str, model: str, given: Given) -> Offer:
    """A model of the zoo, one that recognises pictures, or a file; refuses what does not fit."""
    if not _NAME.fullmatch(name):
        raise BadInput(f"a model called {name!r}", why="names are letters, digits, . _ and -, at "
                       "most 64", fix=f"--model NAME={model}")
    if given.recipe and given.recipe not in RECIPES:
        raise BadInput(f"no recipe {given.recipe!r}", why=f"there is {', '.join(RECIPES)}")
    recipe = RECIPES[given.recipe] if given.recipe else None
    source, own = _source(model, given)
    engine = given.engine or (OPENCL if isinstance(source, File) else CPU)
    return Offer(name, version, source, engine, given.device, recipe or own,
                 read_labels(Path(given.labels)) if given.labels else (),
                 isinstance(source, File) or bool(given.weights))


def _source(model: str, given: Given) -> tuple[Source, Recipe | None]:
    if model.endswith(".ht") or model == SAMPLE:
        if given.weights:
            raise BadInput(f"--weights for {model}", why="a .ht file brings its own")
        return File(model_file(model), given.trust_programs), None
    weights = Path(given.weights) if given.weights else None
    if model in RECOGNIZERS:
        known = RECOGNIZERS[model]
        return ZooModel(known.zoo, "imagenet", known.recipe.crop, weights), known.recipe
    zoo, _, form = model.partition(":")
    return ZooModel(zoo, form, None, weights), None
