"""Recognition on the device and in the cloud: the same labels, every step, and real photographs."""

from __future__ import annotations

import csv
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handtorch.cloud.client import Connection, InCloud
from handtorch.cloud.local_server import LocalServer
from handtorch.cloud.offers import Given, offer_of
from handtorch.cloud.on_device import NO_NAMES, UNTRAINED, OnDevice
from handtorch.cloud.pictures import encode
from handtorch.cloud.recognised import STEPS, Recognised, Steps
from handtorch.cloud.scenes import SIZES, make_scenes
from handtorch.errors import BadInput, HandTorchError
from handtorch.runtime.opencl.discover import FoundDevice
from tests.cloud.small_net import NAMES, saved_net


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "noise.png"
    path.write_bytes(encode(np.random.default_rng(3).integers(0, 256, (60, 97, 3), np.uint8),
                            "PNG"))
    return path


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labels") / "labels.txt"
    path.write_text("\n".join(NAMES))
    return path


def seen(one: Recognised) -> list[str]:
    return [label.name for label in one.labels]


def test_steps_have_two_stamps_each_and_one_that_was_not_needed_is_zero() -> None:
    steps = Steps()
    with steps.of("rescale"):
        time.sleep(0.002)
    assert list(steps.ms()) == list(STEPS)
    assert steps.ms()["rescale"] >= 2 and steps.ms()["load"] == 0
    with pytest.raises(AssertionError), steps.of("rescale"):
        pass


def test_a_file_on_the_device_and_the_same_file_on_a_server(
        opencl_device: FoundDevice, tmp_path: Path, picture: Path, labels: Path) -> None:
    """Cold, then warm; then through HTTP, small and as it is: the labels are the same."""
    file, place = saved_net(tmp_path, opencl_device.label), opencl_device.label
    here = OnDevice(offer_of("net", "1", str(file), Given("opencl", place, labels=str(labels))))
    first, second = here(picture), here(picture)
    here.close()
    assert first.steps_ms["load"] > 0 and second.steps_ms["load"] == 0
    assert second.span.device_ns and second.span.device_ns < second.span.end_ns
    for one in (first, second):
        assert len(one.labels) == 5 and seen(one) == seen(first) and not one.no_labels
        assert one.steps_ms["rescale"] > 0 and one.steps_ms["compute"] > 0
        assert one.steps_ms["upload"] == one.sent_bytes == 0
        assert one.sum_ms <= one.end_to_end_ms
        assert (one.width, one.height) == (97, 60)
    options = ["--model", str(file), "--device", place, "--labels", str(labels), "--rows", "1"]
    with LocalServer(options) as server:
        for sending in ("png", "original"):
            there = InCloud(server.url, "net", labels=NAMES, sending=sending)
            got = there(picture)
            assert seen(got) == seen(first)
            assert [label.probability for label in got.labels] == pytest.approx(
                [label.probability for label in first.labels], rel=1e-5)
            assert got.sent_bytes == picture.stat().st_size or sending == "png"
            assert all(got.steps_ms[s] > 0 for s in STEPS if s not in ("load", "queue"))
            there.close()
        of_theirs = InCloud(server.url, "net")          # the server's own labels
        assert seen(of_theirs(picture)) == seen(first)
        assert of_theirs.rtt_ms(2) > 0
        with pytest.raises(BadInput, match=r"the server refused .* with 400"):
            broken = picture.with_name("broken.png")
            broken.write_bytes(picture.read_bytes()[:60])
            InCloud(server.url, "net", sending="original")(broken)
        with pytest.raises(BadInput, match="the server refused /v2/models/other with 404"):
            InCloud(server.url, "other")
        of_theirs.close()


def test_no_trained_weights_no_labels(picture: Path) -> None:
    pytest.importorskip("torch")
    here = OnDevice(offer_of("squeezenet", "1", "squeezenet", Given("cpu")))
    got = here(picture)
    assert (got.labels, got.no_labels, here.place) == ((), UNTRAINED, "torch")
    assert got.span.device_ns is None
    here.close()


def test_no_names_no_labels(opencl_device: FoundDevice, tmp_path: Path, picture: Path) -> None:
    file = saved_net(tmp_path, opencl_device.label)
    here = OnDevice(offer_of("net", "1", str(file), Given("opencl", opencl_device.label)))
    assert here(picture).no_labels == NO_NAMES
    here.close()


def test_a_file_for_a_larger_batch_is_refused(opencl_device: FoundDevice, tmp_path: Path) -> None:
    file = saved_net(tmp_path, opencl_device.label, rows=2)
    here = OnDevice(offer_of("net", "1", str(file), Given("opencl", opencl_device.label)))
    with pytest.raises(BadInput, match="net takes 2 pictures at once"):
        here.load()


def test_a_model_of_something_else_is_refused() -> None:
    here = OnDevice(offer_of("digits", "1", "digits", Given("opencl")))
    with pytest.raises(BadInput, match="digits"):
        here.load()


@pytest.mark.parametrize("url", ["localhost:80", "ftp://x", "http://", "http://x:99999"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(BadInput, match="--url"):
        Connection(url)


def test_nobody_listens() -> None:
    with pytest.raises(HandTorchError, match=r"no answer from http://127\.0\.0\.1:9"):
        Connection("http://127.0.0.1:9").get("/v2/health/live")


@pytest.mark.parametrize(("told", "said"), [
    (b"no JSON", "cannot be understood"), (b"[]", "cannot be understood"),
    (b'{"outputs": []}', "cannot be understood"),
    (b'{"outputs": [{"name": "y"}], "parameters": {"picture": {"name": "p"}}}',
     "cannot be understood"),
    (b'{"outputs": [{"name": "y"}]}', "takes no pictures"),
])
def test_a_server_that_speaks_otherwise(told: bytes, said: str) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.handle_request)
        thread.start()
        with pytest.raises(BadInput, match=said):
            InCloud(f"http://127.0.0.1:{other.server_port}", "net")
        thread.join()


def test_a_server_that_cannot_start_says_why() -> None:
    with (LocalServer(["--model", "no-such-model"]) as server,
          pytest.raises(HandTorchError, match="the server did not start")):
        _ = server.url


def test_scenes_have_the_papers_sizes(tmp_path: Path) -> None:
    scenes = make_scenes(tmp_path, (), 1)
    from handtorch.cloud.headers import read_header
    found = [read_header(s.path.read_bytes()) for s in scenes]
    assert [(h.height, h.width) for h in found] == list(SIZES)
    assert scenes[0].file_kb > scenes[1].file_kb > scenes[2].file_kb
    assert {s.made_of for s in scenes} == {"generated"}


# Real weights over real photographs.


def expected(shared: Path) -> dict[str, list[str]]:
    with (shared / "data/photos/photos.csv").open() as file:
        return {row["file"]: [e.strip().rsplit(" ", 1)[0] for e in
                              row["squeezenet1_1_top5"].split(";")] for row in csv.DictReader(file)}


def given(shared: Path, engine: str, device: str | None) -> Given:
    return Given(engine, device, weights=str(shared / "data/models/squeezenet1_1_fp16.safetensors"),
                 labels=str(shared / "data/models/imagenet_synset_words.txt"))


def check_photos(recognise: Any, shared: Path) -> Iterator[Recognised]:
    for name, top5 in expected(shared).items():
        got = recognise(shared / "data/photos" / name)
        assert [s.split(",")[0] for s in seen(got)] == top5, name
        yield got


def test_photographs_on_the_cpu(shared: Path) -> None:
    here = OnDevice(offer_of("squeezenet", "1", "squeezenet", given(shared, "cpu", None)))
    assert len(list(check_photos(here, shared))) == 12


@pytest.mark.slow
def test_photographs_on_the_device(opencl_device: FoundDevice, shared: Path) -> None:
    here = OnDevice(offer_of("squeezenet", "1", "squeezenet",
                             given(shared, "opencl", opencl_device.label)))
    assert len(list(check_photos(here, shared))) == 12
    here.close()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["cpu", "opencl"])
def test_photographs_in_the_cloud(shared: Path, engine: str) -> None:
    of = given(shared, engine, None)
    offer = offer_of("squeezenet", "1", "squeezenet", of)
    with LocalServer(["--model", "squeezenet", "--engine", engine, "--weights", of.weights,
                      "--labels", of.labels, "--rows", "1"]) as server:
        there = InCloud(server.url, "squeezenet", labels=offer.labels)
        assert len(list(check_photos(there, shared))) == 12
        there.close()
