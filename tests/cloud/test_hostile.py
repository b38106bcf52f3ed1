"""Clients that are slow, silent, greedy or gone: each is answered, and the next one served."""

from __future__ import annotations

import gzip
import io
import json
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from handtorch.cloud.protocol import HEAD_LENGTH, Message, Request, Tensor, encode_request
from handtorch.store.sample import SAMPLE
from tests.cloud.serving import (
    Running,
    asked,
    digits,
    error,
    heard,
    raw,
    save_seeing,
    serving,
    tensors,
)

LIMITS = {"head_s": 1.0, "first_byte_s": 1.0, "body_s": 3.0, "least_bytes_per_s": 8192,
          "body_bytes": 1 << 20, "keep_alive_s": 2.0, "answer_s": 2.0, "picture_s": 5.0}
INFER = "/v2/models/digits/infer"


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("net") / "seeing.ht"
    save_seeing(path)
    return path


@pytest.fixture(scope="module")
def server(seeing: Path) -> Iterator[Running]:
    """One server for all of them: none may harm it."""
    limits = [part for n, v in LIMITS.items() for part in ("--limit", f"{n}={v}")]
    with serving("--model", SAMPLE, "--model", str(seeing), "--device", "ref", *limits) as running:
        yield running
        assert running.end() == 0
        assert running.said == ""


@pytest.fixture(autouse=True)
def still_there(server: Running) -> Iterator[None]:
    yield
    assert asked(server, raw(tensors(digits())))[0] == 200


def slowly(server: Running, first: bytes, each: bytes, pause_s: float = 0.1) -> tuple[int, float]:
    """Status and seconds of a client that sends `first`, then a little at a time for ever."""
    start = time.monotonic()
    with socket.create_connection(server.address, timeout=pause_s) as sock:
        sock.sendall(first)
        while time.monotonic() - start < 20:
            try:
                return heard(sock)[0], time.monotonic() - start
            except TimeoutError:
                if each:
                    sock.sendall(each)
            except ConnectionError:
                return 0, time.monotonic() - start
    raise AssertionError("nobody ended it")


HEAD = f"POST {INFER} HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n".encode()


def test_slow_clients_are_told_so(server: Running) -> None:
    """Each within its limit and well before the next; all at once, so that it takes no longer."""
    cases = [(b"", b"", 1.0), (HEAD, b"", 1.0), (HEAD, b"X", 1.0), (HEAD + b"\r\n", b"", 1.0),
             (HEAD + b"\r\n", b"x" * 10, 1.0), (HEAD + b"\r\n" + b"x" * 9000, b"", 2.0)]
    with ThreadPoolExecutor(len(cases)) as threads:
        ends = list(threads.map(lambda case: slowly(server, case[0], case[1]), cases))
    for (first, each, least_s), (status, took_s) in zip(cases, ends, strict=True):
        assert status == 408, (first[-20:], each, status)
        assert least_s * 0.9 < took_s < 15, (first[-20:], each, took_s)


def test_an_idle_connection_is_closed(server: Running) -> None:
    with socket.create_connection(server.address, timeout=15) as sock:
        sock.sendall(raw(tensors(digits())))
        assert heard(sock)[0] == 200
        assert sock.recv(1) == b""


METRICS = b"GET /metrics HTTP/1.1\r\nHost: t\r\n\r\n"


def test_who_does_not_read_is_cut_off(server: Running) -> None:
    """A few requests at a time, and no answer is ever read: its memory must come back."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(server.address)
        start = time.monotonic()
        with pytest.raises(ConnectionError):
            while time.monotonic() - start < 60:
                sock.sendall(METRICS * 5)
                time.sleep(0.01)


def test_many_requests_at_once_on_one_connection(server: Running) -> None:
    before = server.resident_bytes()
    with socket.create_connection(server.address, timeout=30) as sock, \
            pytest.raises(ConnectionError):
        while True:
            sock.sendall(METRICS * 20_000)
    assert server.resident_bytes() - before < 64 << 20
    with socket.create_connection(server.address, timeout=30) as sock:
        sock.sendall(METRICS * 10)          # a few are in order
        data = b""
        while data.count(b"HTTP/1.1 200 OK") < 10:
            got = sock.recv(1 << 16)
            assert got, data.count(b"HTTP/1.1 200 OK")
            data += got


def test_a_body_that_is_too_long(server: Running) -> None:
    """Told by its length, or by counting; also to a client that listens only after sending."""
    body = b"x" * (2 << 20)
    length = raw(Message(body, None))
    chunked = (f"POST {INFER} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
               + b"".join(b"10000\r\n" + b"x" * 65536 + b"\r\n" for _ in range(32)) + b"0\r\n\r\n")
    for request in (length, chunked, length[:300]):
        status, headers, told = asked(server, request)
        assert (status, headers["connection"]) == (413, "close")
        assert error(told) == "the body is longer than 1048576 B"


def packed(message: Message, body: bytes, packing: str) -> bytes:
    return raw(Message(body, message.head_bytes), headers={"Content-Encoding": packing})


def test_packed_bodies(server: Running) -> None:
    message = tensors(digits())
    good = gzip.compress(message.body)
    bomb = gzip.compress(bytes(64 << 20))
    assert len(bomb) < 1 << 17
    for body, packing, status, said in (
            (good, "gzip", 200, ""),
            (zlib.compress(message.body), "deflate", 200, ""),
            (bomb, "gzip", 413, "the body is longer than 1048576 B when unpacked"),
            (zlib.compress(bytes(64 << 20)), "deflate", 413, "when unpacked"),
            (good[:-9], "gzip", 400, "it is cut short"),
            (b"", "gzip", 400, "it is cut short"),
            (good + good, "gzip", 400, "more follows its end"),
            (b"nothing packed", "gzip", 400, "cannot be unpacked"),
            (good, "br", 415, "content encoding 'br'"),
            (good, "gzip, gzip", 415, "content encoding")):
        got, _, told = asked(server, packed(message, body, packing))
        assert (got, said in (error(told) if said else "")) == (status, True), (packing, told)


def test_heads_that_are_none(server: Running) -> None:
    long = b"GET / HTTP/1.1\r\nHost: t\r\n" + b"X-Long: " + b"y" * 300_000
    assert asked(server, long)[0] == 431
    many = b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(40_000))
    assert asked(server, many)[0] == 431
    for request in (b"\0\1\2\3\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
                    b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                    b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                    b"GET \xff\xfe HTTP/1.1\r\n\r\n"):
        assert asked(server, request)[0] == 400, request
    for text in ("x", "-1", "1" * 30, "9" * 19, "٣"):
        message = tensors(digits())
        request = raw(message).replace(
            f"{HEAD_LENGTH}: {message.head_bytes}".encode(), f"{HEAD_LENGTH}: {text}".encode())
        assert asked(server, request)[0] == 400, text


def test_who_vanishes_is_not_missed(server: Running) -> None:
    """In the head, in the body, and before the answer; with a reset as well."""
    whole = raw(tensors(digits()))
    for cut in (10, len(whole) - 100, len(whole)):
        for abrupt in (False, True):
            with socket.create_connection(server.address) as sock:
                if abrupt:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.sendall(whole[:cut])


def test_a_truncated_body_of_a_client_that_listens(server: Running) -> None:
    with socket.create_connection(server.address, timeout=15) as sock:
        sock.sendall(raw(tensors(digits()))[:-10])
        sock.shutdown(socket.SHUT_WR)
        assert heard(sock)[0] in (0, 400, 408)


def test_a_request_runs_out_of_time(server: Running) -> None:
    message = encode_request(Request((Tensor.of("x", digits()),), timeout_us=1))
    status, _, body = asked(server, raw(message))
    assert (status, error(body)) == (504, "the request ran out of time: after 1e-06 s")


def picture(server: Running, *data: bytes) -> tuple[int, bytes]:
    message = encode_request(Request((Tensor.strings("picture", data),), binary=False))
    status, _, body = asked(server, raw(message, "/v2/models/seeing/infer"))
    return status, body


def saved(kind: str, size: tuple[int, int] = (40, 30)) -> bytes:
    out = io.BytesIO()
    values = np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), dtype="u1")
    Image.fromarray(values).save(out, kind)
    return out.getvalue()


def png_claiming(width: int, height: int) -> bytes:
    """A small file that says it is a large picture."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))
    rows = zlib.compress(bytes((width // 8 + 1) * min(height, 2000)), 9)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0,
                                                            0)) + chunk(b"IDAT", rows)
            + chunk(b"IEND", b""))


def test_pictures_are_seen(server: Running) -> None:
    for kind in ("JPEG", "PNG", "WEBP"):
        status, body = picture(server, saved(kind), saved(kind, (9, 200)))
        assert status == 200, body
        output = json.loads(body)["outputs"][0]
        assert (output["datatype"], output["shape"]) == ("BYTES", [2, 5])


BAD: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "text": lambda: b"no picture",
    "cut JPEG": lambda: saved("JPEG")[:300],
    "cut PNG": lambda: saved("PNG")[:300],
    "cut WebP": lambda: saved("WEBP")[:300],
    "GIF": lambda: saved("GIF"),
    "BMP": lambda: saved("BMP"),
    "TIFF": lambda: saved("TIFF"),
    "PNG of 144 megapixels": lambda: png_claiming(12_000, 12_000),
    "PNG of 4 gigapixels": lambda: png_claiming(65_535, 65_535),
}


@pytest.mark.parametrize("kind", BAD)
def test_no_pictures_are_refused(server: Running, kind: str) -> None:
    status, body = picture(server, BAD[kind]())
    assert status == 400, body
    assert "Traceback" not in error(body)


def test_one_bad_picture_of_two(server: Running) -> None:
    status, body = picture(server, saved("PNG"), b"no picture")
    assert (status, "no picture that can be read" in error(body)) == (400, True)


def test_a_picture_for_a_model_that_sees_none(server: Running) -> None:
    message = encode_request(Request((Tensor.strings("picture", [saved("PNG")]),)))
    status, _, body = asked(server, raw(message))
    assert (status, error(body).splitlines()[0]) == (
        400, "a picture for digits: its input is no picture")
