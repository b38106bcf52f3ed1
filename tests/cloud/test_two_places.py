from __future__ import annotations

import socket
import threading
import time
from math import inf
from pathlib import Path

import pytest

from handtorch.cloud import two_places
from handtorch.cloud.client import InCloud
from handtorch.cloud.recognised import Recognised
from handtorch.cloud.two_places import TwoPlaces
from handtorch.errors import HandTorchError
from tests.cloud.scripted import Device, Server, photo


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    return photo(tmp_path)


def test_the_server_answers_in_time(picture: Path) -> None:
    device, server = Device(), Server()
    places = TwoPlaces({"device": device}, lambda: server)
    found = places.there("png", picture, 1.0, "device")
    assert (found.local, found.said, found.fault, device.calls) == (None, "", None, 0)
    assert found.found.sent_bytes == 100_000
    places.close()
    assert server.closed == 1


def test_a_late_server_is_overtaken_and_cut(picture: Path) -> None:
    device, server = Device(said=False), Server(stalls_s=30.0)
    places = TwoPlaces({"device": device}, lambda: server)
    begin = time.monotonic()
    found = places.there("png", picture, 0.05, "device")
    assert time.monotonic() - begin < 5 and server.was_cut.is_set()
    assert found.local == "device" and device.calls == 1
    assert found.said == ("the server had not answered after 50 ms; device was started too, and "
                          "was first")
    assert found.fault is not None and found.fault.why == "within 50 ms"
    server.stalls_s = 0.0
    assert places.there("png", picture, 5.0, "device").local is None     # connected anew
    assert server.closed == 1
    places.close()


def test_a_late_server_may_still_be_first(picture: Path) -> None:
    device, server = Device(compute_ms=400, said=False), Server(stalls_s=0.1)
    places = TwoPlaces({"device": device}, lambda: server)
    found = places.there("png", picture, 0.02, "device")
    assert found.local is None and found.fault is None
    assert found.said.endswith("device was started too, and the server was first after all")
    places.close()


def test_a_server_that_fails_is_replaced(picture: Path) -> None:
    places = TwoPlaces({"device": Device()}, lambda: Server(fails=True))
    found = places.there("png", picture, 1.0, "device")
    assert found.local == "device" and found.fault is not None
    assert found.said == ("the server failed (no answer from the script: it fails); device did it")
    with pytest.raises(HandTorchError, match="no answer from the script"):
        places.there("png", picture, 1.0, None)
    places.close()


def test_a_server_that_cannot_be_reached_is_a_fault_too(picture: Path) -> None:
    def connect() -> Server:
        raise HandTorchError("no answer from nowhere")
    places = TwoPlaces({"device": Device()}, connect)
    assert isinstance(places.rtt_s(1, 1.0), HandTorchError)
    assert places.there("png", picture, inf, "device").local == "device"
    places.close()


def test_what_was_given_up_is_never_sent_later(picture: Path) -> None:
    """A second picture that waits behind a first that hangs is taken back."""
    server, free = Server(), threading.Event()

    def connect() -> Server:
        free.wait(30)
        return server
    places = TwoPlaces({"device": Device()}, connect)
    for _ in range(2):
        assert places.there("png", picture, 0.02, "device").local == "device"
    free.set()
    places.close()
    assert len(server.sent) <= 1            # the first was on its way when it was given up


def test_a_connect_that_hangs_holds_nobody_for_long(picture: Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_places, "_END_S", 0.2)
    server, free, made = Server(), threading.Event(), threading.Event()

    def connect() -> Server:
        free.wait(30)
        made.set()
        return server
    places = TwoPlaces({"device": Device()}, connect)
    assert places.there("png", picture, 0.02, "device").local == "device"
    begin = time.monotonic()
    places.close()
    places.close()
    assert time.monotonic() - begin < 15 and not made.is_set()
    free.set()
    assert made.wait(30)
    places._cloud.shutdown(wait=True)
    assert server.closed == 1 and not server.sent       # once it was there, and nothing was sent


def test_a_server_that_does_not_even_say_what_it_has(picture: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the connection and is silent: the real client waits for a minute, we do not."""
    monkeypatch.setattr(two_places, "_END_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        places = TwoPlaces({"device": Device()}, lambda: InCloud(url, "net"))
        assert places.there("png", picture, 0.02, "device").local == "device"
        begin = time.monotonic()
        places.close()
        assert time.monotonic() - begin < 15
    places._cloud.shutdown(wait=True)                   # the end of the listener ends it


def test_a_bug_of_ours_is_not_the_servers_fault(picture: Path) -> None:
    class Broken(Server):
        def __call__(self, path: Path, sending: str | None = None) -> Recognised:
            raise ZeroDivisionError
    places = TwoPlaces({"device": Device()}, Broken)
    with pytest.raises(ZeroDivisionError):
        places.there("png", picture, 1.0, "device")
    places.close()


def test_a_model_is_loaded_and_run_in_one_thread(picture: Path) -> None:
    device = Device()
    places = TwoPlaces({"device": device}, None)
    places.load()
    assert places.here("device", picture).local == "device"
    assert len(device.threads) == 1 and threading.get_ident() not in device.threads
    places.close()
