"""Study `recognize`: what is in a picture, found out here or on a server, and what each step costs.

After Guo, "Cloud-based or On-device: An Empirical Study of Mobile Deep Inference" (2018): three
networks, fifteen pictures, four modes (Table III, Fig. 4 to 6), and loading under memory pressure
(Table IV). The server is on this machine, on the same cores: so the device is not slower than it,
as a phone is. Rows that slow it by a published factor are `simulated`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from handtorch import knobs
from handtorch.baseline.fair import moment, share_of_others
from handtorch.cloud.engines import ZooModel
from handtorch.cloud.local_server import LocalServer
from handtorch.cloud.offers import Given, offer_of
from handtorch.cloud.on_device import captured
from handtorch.cloud.pressure import HEAPS_BYTES, Loading, Way
from handtorch.cloud.recipes import RECOGNIZERS
from handtorch.cloud.scenes import SCENES, Scene, make_scenes
from handtorch.record import Place
from handtorch.studies import recognize_places_findings as places_findings
from handtorch.studies.recognize_findings import (
    CLOUDS,
    NAME,
    QUESTION,
    Findings,
    judge,
    published,
    results,
)
from handtorch.studies.recognize_modes import (
    CLOUD_CL,
    CLOUD_CPU,
    DEVICE_CL,
    DEVICE_CPU,
    Model,
    ModeRun,
    run_mode,
    served,
)
from handtorch.studies.recognize_places import effort, run_places
from handtorch.studies.recognize_tables import text
from handtorch.studies.study import Setting

__all__ = ["QUESTION", "run"]

MODELS, QUICK_MODELS = ("alexnet", "nin", "squeezenet"), ("squeezenet",)
_WEIGHTS = {"squeezenet": "models/squeezenet1_1_fp16.safetensors"}
_LABELS = "models/imagenet_synset_words.txt"
# Of the photographs at hand those with one clear thing in them.
_PHOTOS = ("cat_1920x1080.jpg", "golden_retriever_1080x1080.jpg", "cock_600x398.jpg",
           "fox_squirrel_535x426.jpg", "hummingbird_450x450.jpg")


def run(at: Setting) -> str:
    """Every mode of every model, then loading under pressure; rows are kept as they come."""
    at.record.add(*published(), *(
        Place(name=name, kind="cloud", cores=None, cores_reason="a server on this machine, which "
              "uses the same cores") for name in CLOUDS.values()))
    begin = moment()
    with tempfile.TemporaryDirectory(prefix="handtorch-") as temporary, ExitStack() as stack:
        folder = Path(temporary)
        names = QUICK_MODELS if at.quick else MODELS
        models = [_model(name, folder) for name in names]
        servers = {CLOUD_CPU: stack.enter_context(
            LocalServer(served(models, "cpu", at.place)))}      # gets ready meanwhile
        at.progress(f"{NAME}: pictures")
        scenes = make_scenes(folder, _photos(), 1 if at.quick else SCENES)
        plain_ms = {m.name: _made(m, at) for m in models}
        servers[CLOUD_CL] = stack.enter_context(LocalServer(served(models, "opencl", at.place)))
        found = Findings(scenes, plain_ms=plain_ms)
        for model in models:
            for one in _modes(at, model, servers, scenes, found):
                found.runs.append(one)
        places = [run_places(model.name, found.runs, servers[CLOUD_CL].url, _some(scenes, at.quick),
                             effort(at.quick, every=model is models[-1]), at.progress)
                  for model in models]
        for server in servers.values():
            server.close()
        found.loadings.update(_pressed(at, models, scenes))
    found.others = share_of_others(begin)
    at.record.add(*results(found, at.place))
    verdicts = judge(found)
    at.record.add(*verdicts)
    told = [text(found, verdicts)]
    for place in places:
        verdict = places_findings.judge(place, found.others)
        at.record.add(*places_findings.results(place), verdict)
        told.append(places_findings.text(place, verdict, found.others))
    return "\n\n".join(told)


def _some(scenes: Sequence[Scene], quick: bool) -> list[Scene]:
    """For places: one scene in all sizes, for the quick form without the largest."""
    return [s for s in scenes if s.number == scenes[0].number and (s.size > 0 or not quick)]


def _model(name: str, folder: Path) -> Model:
    data = _data()
    weights = data / _WEIGHTS[name] if data and name in _WEIGHTS else None
    labels = data / _LABELS if data else None
    return Model(name, weights if weights and weights.is_file() else None,
                 labels if labels and labels.is_file() else None, RECOGNIZERS[name].recipe.name,
                 folder / f"{name}.ht")


def _data() -> Path | None:
    folder = knobs.value("HANDTORCH_SHARED")
    return Path(folder).expanduser() / "data" if folder else None


def _photos() -> list[Path]:
    data = _data()
    found = [data / "photos" / name for name in _PHOTOS] if data else []
    return [path for path in found if path.is_file()]


def _made(model: Model, at: Setting) -> float:
    """The model's file is there; gives what torch and the compiler took for it, a plain load.

    Compiled programs go into the file in the whole study; the quick one has them in the cache."""
    at.progress(f"{NAME}: {model.name}, captured and compiled")
    given = Given("opencl", at.place, weights=str(model.weights or ""))
    source = offer_of(model.name, "1", model.name, given).source
    assert isinstance(source, ZooModel)
    begin_ns = time.perf_counter_ns()
    made = captured(source, at.place)
    taken_ms = (time.perf_counter_ns() - begin_ns) / 1e6
    made.save(model.file, programs=not at.quick)
    made.close()
    return taken_ms


def _modes(at: Setting, model: Model, servers: dict[str, LocalServer], scenes: Sequence[Scene],
           found: Findings) -> Iterator[ModeRun]:
    """On the device, then through both servers; small, and once as the pictures are."""
    paths = [scene.path for scene in scenes]
    for mode in (DEVICE_CL, DEVICE_CPU):
        at.progress(f"{NAME}: {model.name}, {mode}")
        watched = mode == DEVICE_CL and found.series is None
        one = run_mode(model, mode, paths, at.place, sensors=watched)
        found.series = found.series or one.readings
        yield one
    for mode, server in servers.items():
        at.progress(f"{NAME}: {model.name}, {mode}")
        yield run_mode(model, mode, paths, at.place, server.url)
        if mode == CLOUD_CL:
            found.as_they_are.append(run_mode(model, mode, paths, at.place, server.url,
                                              sending="original"))


def _pressed(at: Setting, models: Sequence[Model], scenes: Sequence[Scene]
             ) -> dict[tuple[str, str, int], Loading]:
    """By model, way and heap; the quick form has the quickest way, and the smaller heap."""
    found: dict[tuple[str, str, int], Loading] = {}
    pictures = [scene.path for scene in scenes[-3:]]
    for model in models:
        given = Given("opencl", at.place, recipe=model.recipe)
        ways = {"file, mapped": Way(str(model.file), given, mapped=True)}
        if not at.quick:
            ways["file, copied"] = Way(str(model.file), given)
            ways["plain"] = Way(model.name, Given("opencl", at.place,
                                                  weights=str(model.weights or "")))
        for name, way in ways.items():
            at.progress(f"{NAME}: {model.name}, {name}, under memory pressure")
            for heap in (0, *(HEAPS_BYTES[:1] if at.quick else HEAPS_BYTES)):
                found[model.name, name, heap] = way.loaded(pictures, heap)
        if not at.quick:
            found[model.name, "killed, and again", 0] = _again(ways["file, mapped"], pictures)
    return found


def _again(way: Way, pictures: Sequence[Path]) -> Loading:
    """Killed as soon as it could answer, and started once more."""
    way.loaded(pictures, kill=True)
    return way.loaded(pictures)

