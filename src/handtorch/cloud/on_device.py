"""Recognition here: torch on the CPU, or ours on an OpenCL device."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from handtorch.cloud.engines import CPU, Array, File, ZooModel, open_engine, read_weights
from handtorch.cloud.headers import read_header
from handtorch.cloud.models import Offer
from handtorch.cloud.picture_file import read_picture
from handtorch.cloud.pictures import decode, prepare
from handtorch.cloud.recipes import TORCHVISION, Recipe, fitted, top
from handtorch.cloud.recognised import Recognised, Steps
from handtorch.errors import BadInput, DeviceError
from handtorch.meters.used import Span, resident_bytes

if TYPE_CHECKING:
    from handtorch.api.inference import Inference

UNTRAINED = "random weights: no trained ones were given"
NO_NAMES = "no labels were given"


@dataclass(frozen=True)
class Made:
    """A model that is ready: `run` gives its scores and the device's own time for them."""

    place: str
    shape: tuple[int, ...]
    run: Callable[[Array], tuple[Array, int | None]]
    close: Callable[[], None]


class OnDevice:
    """Recognises pictures with the offered model; loads it for the first one, or when told."""

    def __init__(self, offer: Offer, *, mapped: bool = True) -> None:
        self.offer, self._mapped = offer, mapped
        self._made: Made | None = None
        self._recipe: Recipe | None = None

    @property
    def place(self) -> str:
        return "" if self._made is None else self._made.place

    @property
    def recipe(self) -> Recipe:
        assert self._recipe is not None, "loaded before"
        return self._recipe

    def load(self) -> None:
        """The model is in memory and has run once."""
        self._made = _opened(self.offer, self._mapped)
        shape = self._made.shape
        if len(shape) != 3 or shape[0] != 3:
            raise BadInput(f"{self.offer.name} does not recognise pictures",
                           why=f"its input is {list(shape)}, not 3 channels of one")
        self._recipe = fitted(self.offer.recipe or TORCHVISION, *shape[1:])

    def close(self) -> None:
        """The model is not in memory any more."""
        if self._made is not None:
            self._made.close()
        self._made = None

    def __call__(self, path: Path) -> Recognised:
        steps, begin_ns, cpu_ns = Steps(), time.perf_counter_ns(), time.process_time_ns()
        if self._made is None:
            with steps.of("load"):
                self.load()
        made = self._made
        assert made is not None
        with steps.of("rescale"):
            data = read_picture(path)
            header = read_header(data)
            given = prepare(decode(data), self.recipe)
        with steps.of("compute"):
            scores, device_ns = made.run(given)
        no_labels = _why_not(self.offer)
        labels = () if no_labels else top(scores, self.offer.labels)
        end_ns = time.perf_counter_ns()
        span = Span(begin_ns, end_ns, time.process_time_ns() - cpu_ns, device_ns,
                    resident_bytes())
        return Recognised(path.name, header.width, header.height, len(data), 0, labels, no_labels,
                          steps.ms(), span)


def _why_not(offer: Offer) -> str:
    return UNTRAINED if not offer.trained else "" if offer.labels else NO_NAMES


def _opened(offer: Offer, mapped: bool) -> Made:
    source = offer.source
    if offer.engine == CPU:
        engine = open_engine(source, CPU, rows=1)
        return Made(engine.place, engine.inputs[0].shape,
                    lambda x: (engine.run((x,))[0], None), engine.close)
    if isinstance(source, File):
        from handtorch.api.load import load_inference
        model = load_inference(source.path, offer.device,
                                    trust_programs=source.trust_programs, mapped=mapped)
    else:
        model = captured(source, offer.device)
    shape = tuple(model.program.graph.inputs[0].value.shape)
    if shape[0] != 1:
        raise BadInput(f"{offer.name} takes {shape[0]} pictures at once",
                       why="one is to be recognised", fix="a model saved for a batch of one")

    clocked = _has_clock(model, shape)      # the first run, which is slower than all others

    def run(x: Array) -> tuple[Array, int | None]:
        ticket = model.session.run((x,), timed=clocked)
        scores = ticket.result()[0]
        return scores, sum(t.end_ns - t.start_ns for t in ticket.launch_times()
                           ) if clocked else None
    return Made(model.device_name, shape[1:], run, model.close)


def _has_clock(model: Inference, shape: tuple[int, ...]) -> bool:
    """Whether the device tells when it works; the reference, which is NumPy, does not."""
    ticket = model.session.run((np.zeros(shape, "f4"),), timed=True)
    ticket.result()
    try:
        ticket.launch_times()
    except DeviceError:
        return False
    return True


def captured(source: ZooModel, device: str | None) -> Inference:
    """A model of the zoo for one picture at a time, compiled for the device."""
    from handtorch.api.make import inference
    from handtorch.zoo.serving import example_inputs, served_model
    model = served_model(source.name, source.form, source.seed, read_weights(source))
    return inference(model, example=example_inputs(source.name, source.form, 1, source.side),
                     device=device)
