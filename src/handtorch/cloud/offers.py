"""What a user says of a model, as an offer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from handtorch.cloud.engines import CPU, OPENCL, File, Source, ZooModel
from handtorch.cloud.models import Offer, Replicas
from handtorch.cloud.recipes import RECIPES, RECOGNIZERS, Recipe, read_labels
from handtorch.errors import BadInput
from handtorch.store.sample import SAMPLE, model_file

RAY = "ray"
_COUNTS = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
_MOST_REPLICAS = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Given:
    """Options; empty where they were not given."""

    engine: str | None = None           # cpu or opencl; ray, ray:cpu, ray:opencl for replicas
    device: str | None = None
    trust_programs: bool = False
    weights: str = ""
    labels: str = ""
    recipe: str = ""
    replicas: str = ""                  # how many, or from-to


def offer_of(name: str, version: str, model: str, given: Given) -> Offer:
    """A model of the zoo, one that recognises pictures, or a file; refuses what does not fit."""
    if not _NAME.fullmatch(name):
        raise BadInput(f"a model called {name!r}", why="names are letters, digits, . _ and -, at "
                       "most 64", fix=f"--model NAME={model}")
    if given.recipe and given.recipe not in RECIPES:
        raise BadInput(f"no recipe {given.recipe!r}", why=f"there is {', '.join(RECIPES)}")
    recipe = RECIPES[given.recipe] if given.recipe else None
    source, own = _source(model, given)
    engine, replicas = given.engine or "", None
    if engine.partition(":")[0] == RAY:
        engine, replicas = engine.partition(":")[2], _replicas(given.replicas)
    elif given.replicas:
        raise BadInput(f"--replicas {given.replicas}", why="only Ray starts any",
                       fix="--engine ray")
    engine = engine or (OPENCL if isinstance(source, File) else CPU)
    return Offer(name, version, source, engine, given.device, recipe or own,
                 read_labels(Path(given.labels)) if given.labels else (),
                 isinstance(source, File) or bool(given.weights), replicas)


def _replicas(text: str) -> Replicas:
    found = _COUNTS.fullmatch(text or "1")
    least, most = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= least <= most <= _MOST_REPLICAS:
        raise BadInput(f"--replicas {text}", why=f"no number from 1 to {_MOST_REPLICAS}, nor two",
                       fix="--replicas 2, or 1-4 for as many as are needed")
    return Replicas(least, most)


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
