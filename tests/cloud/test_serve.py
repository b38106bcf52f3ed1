"""The server as its clients see it: the real tritonclient, and bytes."""

from __future__ import annotations

import io
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme

from handtorch import knobs
from handtorch.api.load import load_inference
from handtorch.cli import main as cli
from handtorch.cloud.pictures import encode
from handtorch.cloud.protocol import STEPS, Wanted, decode_response
from handtorch.cloud.serve import Settings, check_safety
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.store.sample import SAMPLE, data_of, model_file
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

triton = pytest.importorskip("tritonclient.http")
REF = ("--model", SAMPLE, "--device", "ref")


@pytest.fixture(scope="module")
def ref() -> Iterator[Running]:
    """The model that ships, on the reference executor, as two versions of one name."""
    with serving("--model", f"digits={SAMPLE}", "--model", f"digits={SAMPLE}", "--model",
                 f"other={SAMPLE}", "--device", "ref") as running:
        yield running


@pytest.fixture
def client(ref: Running) -> Iterator[Any]:
    client = triton.InferenceServerClient(ref.url.partition("://")[2])
    yield client
    client.close()


def given(x: np.ndarray[Any, Any], binary: bool = True) -> list[Any]:
    tensor = triton.InferInput("x", x.shape, "FP32")
    tensor.set_data_from_numpy(x, binary_data=binary)
    return [tensor]


def test_tritonclient_sees_health_and_metadata(client: Any) -> None:
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("digits") and client.is_model_ready("digits", "2")
    assert not client.is_model_ready("nothing") and not client.is_model_ready("digits", "3")
    server = client.get_server_metadata()
    assert server["name"] == "handtorch" and "binary_tensor_data" in server["extensions"]
    model = client.get_model_metadata("digits")
    assert model["versions"] == ["1", "2"]
    assert model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 64]}]
    assert model["outputs"] == [{"name": "out", "datatype": "FP32", "shape": [-1, 10]}]
    assert client.get_model_config("digits")["max_batch_size"] == 8


def test_tritonclient_loads_and_unloads(client: Any) -> None:
    client.unload_model("other")
    assert not client.is_model_ready("other") and client.is_model_ready("digits")
    states = {(m["name"], m["version"]): m["state"] for m in client.get_model_repository_index()}
    assert states == {("digits", "1"): "READY", ("digits", "2"): "READY",
                      ("other", "1"): "UNAVAILABLE"}
    with pytest.raises(triton.InferenceServerException, match="other is not loaded"):
        client.infer("other", given(digits()))
    client.load_model("other")
    assert client.infer("other", given(digits())).as_numpy("out").shape == (1, 10)
    with pytest.raises(triton.InferenceServerException, match="nowhere else"):
        client.load_model("other", config=json.dumps({"backend": "python"}))
    with pytest.raises(triton.InferenceServerException, match="Not Found"):
        client.load_model("../../etc/passwd")


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
@pytest.mark.parametrize("packing", [None, "gzip", "deflate"])
def test_tritonclient_infers(client: Any, binary_in: bool, binary_out: bool,
                             packing: str | None) -> None:
    x = data_of(SAMPLE).unseen["x"][:3]
    with_model = load_inference(model_file(SAMPLE), "ref")
    answer = client.infer("digits", given(x, binary_in), request_id="a7", model_version="2",
                          outputs=[triton.InferRequestedOutput("out", binary_data=binary_out)],
                          request_compression_algorithm=packing,
                          response_compression_algorithm=packing, timeout=20_000_000)
    np.testing.assert_array_equal(answer.as_numpy("out"), with_model.over(x)[0])
    told = answer.get_response()
    assert (told["id"], told["model_version"], told["parameters"]["batch_rows"]) == ("a7", "2", 3)


def test_top_classes(client: Any) -> None:
    x = data_of(SAMPLE).unseen["x"][:2]
    scores = load_inference(model_file(SAMPLE), "ref").over(x)[0]
    best = client.infer("digits", given(x), outputs=[
        triton.InferRequestedOutput("out", class_count=3)]).as_numpy("out")
    assert best.shape == (2, 3)
    for row, told in zip(scores, best, strict=True):
        order = np.argsort(-row, kind="stable")[:3]
        assert [t.decode() for t in told] == [f"{row[i]:.6f}:{i}" for i in order]


def test_timing_is_told_twice(ref: Running) -> None:
    status, headers, body = asked(ref, raw(tensors(digits())))
    assert status == 200
    steps = decode_response(body, int(headers["inference-header-content-length"])
                            ).parameters["timing_ms"]
    assert tuple(steps) == STEPS and all(ms >= 0 for ms in steps.values())
    assert headers["server-timing"] == ", ".join(f"{s};dur={ms:.4f}" for s, ms in steps.items())


def receive_ms(answer: tuple[int, dict[str, str], bytes]) -> float:
    status, headers, body = answer
    assert status == 200
    return float(decode_response(body, int(headers["inference-header-content-length"])
                                 ).parameters["timing_ms"]["receive"])


def test_receiving_begins_with_the_first_byte_of_the_head(ref: Running) -> None:
    request = raw(tensors(digits()))
    with socket.create_connection(ref.address, timeout=60) as sock:
        sock.sendall(request[:10])
        time.sleep(0.3)
        sock.sendall(request[10:])
        assert receive_ms(heard(sock)) >= 290


def test_waiting_for_another_answer_is_no_receiving(ref: Running) -> None:
    request = raw(tensors(digits()))
    with socket.create_connection(ref.address, timeout=60) as sock:
        sock.sendall(request + request[:10])
        heard(sock)
        time.sleep(0.3)
        sock.sendall(request[10:])
        assert receive_ms(heard(sock)) < 290


def test_every_device_serves(opencl_device: FoundDevice) -> None:
    x = data_of(SAMPLE).unseen["x"][:8]
    expected = load_inference(model_file(SAMPLE), opencl_device.label).over(x)[0]
    with serving("--model", SAMPLE, "--device", opencl_device.label) as running:
        status, headers, body = asked(running, raw(tensors(x)))
        assert status == 200, body
        response = decode_response(body, int(headers["inference-header-content-length"]))
        np.testing.assert_array_equal(response.outputs[0].values, expected)
        assert running.end() == 0


@pytest.mark.parametrize(("message", "said"), [
    (tensors(digits()[:, :63]), "input 'x' is FP32[1, 63]: the model takes x as FP32[-1, 64]"),
    (tensors(digits().astype("f8")), "input 'x' is FP64[1, 64]"),
    (tensors(digits()[0]), "input 'x' is FP32[64]"),
    (tensors(digits(), name="y"), "inputs 'y': digits takes x as FP32[-1, 64]"),
    (tensors(digits(), digits(), name="x"), "tensor 'x': it is there twice"),
    (tensors(digits(9)), "9 rows: a request has 1 to 8"),
    (tensors(digits(0)), "0 rows: a request has 1 to 8"),
    (tensors(np.full((1, 64), np.nan, "f4")), "a number in it is NaN or infinite"),
    (tensors(np.full((1, 64), np.inf, "f4")), "a number in it is NaN or infinite"),
    (tensors(digits(), wanted=(Wanted("scores"),)), "no output 'scores': digits has out"),
    (tensors(digits(), wanted=(Wanted("out"), Wanted("out"))), "asked for twice"),
    # Finite, and too large to be summed up: JSON has no word for what comes out.
    (tensors(np.full((1, 64), 3e38, "f4"), wanted=(Wanted("out", binary=False),)),
     "cannot be written as JSON: NaN or infinite"),
])  # fmt: skip
def test_wrong_tensors_are_told(ref: Running, message: Any, said: str) -> None:
    status, _, body = asked(ref, raw(message))
    assert status == 400
    assert said in error(body)


@pytest.mark.parametrize("path", [
    "/v2/models/nothing/infer", "/v2/models/..%2f..%2fetc%2fpasswd/infer", "/v2/models/../infer",
    "/v2/models/digits/versions/9/infer", "/v2/models/%00/infer", "/etc/passwd", "//", "/v2/",
    "/v2/repository/models/..%2f..%2fx/load", "/v2/models/digits/versions/..%2f1/infer"])
def test_names_lead_nowhere(ref: Running, path: str) -> None:
    status, _, body = asked(ref, raw(tensors(digits()), path))
    assert status == 404, body
    assert "/etc" not in error(body)


def test_metrics_count(ref: Running) -> None:
    def counted() -> float:
        text = asked(ref, b"GET /metrics HTTP/1.1\r\nHost: t\r\n\r\n")[2].decode()
        assert '# TYPE handtorch_step_seconds histogram' in text
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(
            'handtorch_requests_total{model="digits",status="200"}'))
    before = counted()
    for _ in range(3):
        assert asked(ref, raw(tensors(digits())))[0] == 200
    assert counted() == before + 3


TOKEN = "a-token-of-this-test"


def test_a_token_is_asked_for_before_the_body() -> None:
    with serving(*REF, environment={"HANDTORCH_TOKEN": TOKEN}) as running:
        message = tensors(digits())
        body_bytes = len(message.body)
        for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
            request = raw(message, headers=given)
            status, headers, body = asked(running, request[:-body_bytes])   # no body is awaited
            assert (status, headers["www-authenticate"]) == (401, "Bearer")
            assert error(body) == "no token, or not the right one"
            assert asked(running, request)[0] == 401
        right = {"Authorization": f"Bearer {TOKEN}"}
        assert asked(running, raw(message, headers=right))[0] == 200
        get = "GET {} HTTP/1.1\r\nHost: t\r\n\r\n"
        assert asked(running, get.format("/v2/health/ready").encode())[0] == 200
        for path in ("/metrics", "/v2", "/v2/models/digits"):
            assert asked(running, get.format(path).encode())[0] == 401
        assert running.end() == 0


def test_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    chain = authority.issue_cert("127.0.0.1")
    chain.private_key_pem.write_to_path(str(tmp_path / "key"))
    chain.cert_chain_pems[0].write_to_path(str(tmp_path / "cert"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca"))
    with serving(*REF, "--certificate", str(tmp_path / "cert"), "--key",
                 str(tmp_path / "key")) as running:
        assert running.url.startswith("https://")
        client = triton.InferenceServerClient(
            running.url.partition("://")[2], ssl=True,
            ssl_options={"ca_certs": str(tmp_path / "ca")})
        assert client.infer("digits", given(digits())).as_numpy("out").shape == (1, 10)
        client.close()
        assert running.end() == 0


def refused(*argv: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    code = cli.main(["serve", *argv], out, err)
    assert out.getvalue() == ""
    return code, err.getvalue()


@pytest.mark.parametrize(("argv", "said"), [
    ((*REF, "--host", "0.0.0.0"), "--host 0.0.0.0 without a token"),
    ((*REF, "--certificate", "x.pem"), "TLS with half of what it needs"),
    ((*REF, "--limit", "nothing=3"), "no limit 'nothing'"),
    ((*REF, "--limit", "body_s=-3"), "limit body_s=-3: no float above 0"),
    ((*REF, "--rows", "300"), "a queue of 256 samples: a batch has up to 300"),
    (("--model", f"a/b={SAMPLE}"), "a model called 'a/b'"),
    (("--model", "none.ht", "--device", "ref"), "none.ht cannot be read"),
    (("--model", SAMPLE, "--engine", "cpu"), "torch does not read .ht files"),
    (("--model", "Nothing"), "no model 'Nothing' in the zoo"),
    (("--model", SAMPLE, "--recipe", "caffe"), "a recipe for digits: its input is no picture"),
    (("--model", SAMPLE, "--weights", "w.npz"), "a .ht file brings its own"),
])  # fmt: skip
def test_what_is_not_served_is_said(argv: tuple[str, ...], said: str) -> None:
    code, err = refused(*argv)
    assert code == 2
    assert said in err


def test_a_short_token_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDTORCH_TOKEN", "short")
    code, err = refused(*REF)
    assert code == 2 and "fewer than 16 characters" in err


def test_a_bind_without_tls_warns_loudly() -> None:
    """Looked at without listening: a test is no reason to open a port to others."""
    said: list[str] = []
    check_safety(Settings((), "0.0.0.0", token=TOKEN), said.append)
    check_safety(Settings((), "127.0.0.1"), said.append)
    check_safety(Settings((), "0.0.0.0", 0, TOKEN, Path("c"), Path("k")), said.append)
    assert len(said) == 1
    assert said[0].startswith("WARNING: 0.0.0.0 is not this machine alone, and there is no TLS")


def test_import_handtorch_loads_no_server() -> None:
    code = ("import sys, handtorch, handtorch.cli.serve\n"
            "assert not {'starlette', 'uvicorn', 'uvloop', 'PIL'} & sys.modules.keys()")
    subprocess.run([sys.executable, "-c", code], env=knobs.environment_for_child(), check=True)


def test_the_example_of_the_docs(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    save_seeing(tmp_path / "seeing.ht")
    (tmp_path / "cat.jpg").write_bytes(encode(np.zeros((9, 9, 3), "u1"), "JPEG"))
    with serving("--model", f"squeezenet={tmp_path / 'seeing.ht'}", "--device", "ref") as running:
        for there, here in (("127.0.0.1:8000", running.url.partition("://")[2]),
                            ("cat.jpg", str(tmp_path / "cat.jpg")), ('"output"', '"out"')):
            assert there in code
            code = code.replace(there, here)
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(code, "serving.md", "exec"), {})
        assert running.end() == 0
    assert out.getvalue().count("b'") == 5
    assert "'receive'" in out.getvalue()
