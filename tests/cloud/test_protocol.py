"""Messages there and back, and everything that is no message."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handtorch.cloud.limits import WireLimits
from handtorch.cloud.protocol import (
    NUMPY,
    STEPS,
    TIMING,
    Message,
    Request,
    Response,
    Tensor,
    Wanted,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    listed,
    pack,
)
from handtorch.errors import BadInput


def test_a_request_comes_back_as_it_was() -> None:
    x = np.arange(24, dtype="f4").reshape(2, 3, 4)
    sent = Request((Tensor.of("x", x), Tensor.strings("picture", [b"\xff\xd8", b""])),
                   (Wanted("out", classes=5), Wanted("raw", binary=False)), "7", True, 9000)
    message = encode_request(sent)
    got = decode_request(message.body, message.head_bytes)
    assert (got.wanted, got.id, got.binary, got.timeout_us) == (sent.wanted, "7", True, 9000)
    assert [(t.name, t.datatype, t.shape) for t in got.inputs] == [
        ("x", "FP32", (2, 3, 4)), ("picture", "BYTES", (2,))]
    np.testing.assert_array_equal(got.inputs[0].values, x)
    assert got.inputs[1].values == (b"\xff\xd8", b"")


@pytest.mark.parametrize("datatype", NUMPY)
@pytest.mark.parametrize("binary", [True, False])
def test_every_datatype_comes_back(datatype: str, binary: bool) -> None:
    values = np.array([[0, 1], [1, 0]]).astype(NUMPY[datatype])
    tensor = Tensor.of("y", values)
    assert tensor.datatype == datatype
    message = encode_response(
        Response("m", "1", (tensor,), "a", {TIMING: dict.fromkeys(STEPS, 1.5)}), [binary],
        [pack(tensor) if binary else listed(tensor)])
    assert (message.head_bytes is None) != binary
    got = decode_response(message.body, message.head_bytes)
    assert (got.model, got.version, got.id) == ("m", "1", "a")
    assert got.parameters[TIMING] == dict.fromkeys(STEPS, 1.5)
    np.testing.assert_array_equal(got.outputs[0].values, values)
    assert got.outputs[0].datatype == datatype


def test_json_is_as_the_standard_has_it() -> None:
    bad = Tensor.of("y", np.array([np.nan], "f4"))
    with pytest.raises(BadInput, match="cannot be written as JSON"):
        encode_response(Response("m", "1", (bad,)), [False], [listed(bad)])


def head(**entry: Any) -> bytes:
    return json.dumps({"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", **entry}]}
                      ).encode()


BINARY = {"parameters": {"binary_data_size": 8}}


@pytest.mark.parametrize(("body", "split", "said"), [
    (b"", None, "cannot be read"),
    (b"{}", None, "inputs: there is none"),
    (b"[]", None, "no JSON object but a list"),
    (b'{"inputs": NaN}', None, "NaN is no JSON"),
    (b"[" * 100_000, None, "too deep"),
    (b'{"inputs": ' + b"1" * 5000 + b"}", None, "cannot be read"),
    (b"\xff\xfe", None, "cannot be read"),
    (b"{}", 3, "3 B, the body has 2 B"),
    (b"{}", -1, "-1 B, the body has 2 B"),
    (head(), None, "0 elements, its shape has 2"),
    (head(data=[1, 2, 3]), None, "more than the 2 elements"),
    (head(data=[1, "a"]), None, "FP32 from a str"),
    (head(data=[True, False]), None, "FP32 from a bool"),
    (head(data=[1, None]), None, "FP32 from a NoneType"),
    (head(data=[1, 10**400]), None, "a number that FP32 cannot hold"),
    (head(data=[1, 300], datatype="INT8"), None, "a number that INT8 cannot hold"),
    (head(data=[1, 1.5], datatype="INT8"), None, "INT8 from a float"),
    (head(data=[1, 2], datatype="BF16"), None, "no datatype 'BF16'"),
    (head(data=[1, 2], datatype=["FP32"]), None, "no datatype"),
    (head(data={}), None, "no list but a dict"),
    (head(shape=[-1]), None, "no whole number"),
    (head(shape=[2.0]), None, "no whole number"),
    (head(shape=[True, 2]), None, "no whole number"),
    (head(shape=[1 << 40]), None, f"{1 << 40} elements, the limit is {1 << 22}"),
    (head(shape=[1 << 40, 1 << 40]), None, "elements, the limit is"),
    (head(shape=[1] * 9), None, "dimensions: 9 of them, the limit is 8"),
    (head(name=3), None, "name of a tensor: no string"),
    (head(name="n" * 201), None, "name of a tensor: no string"),
    (head(parameters={"binary_data_size": 9}), None, "binary_data_size 9, 0 B are left"),
    (head(parameters={"binary_data_size": "8"}), None, "no whole number"),
    (head(parameters=[]), None, "no JSON object"),
    (head(**BINARY) + b"\0" * 9, len(head(**BINARY)), "1 B belong to no tensor"),
    (head(shape=[3], **BINARY) + b"\0" * 8, len(head(shape=[3], **BINARY)), "takes 12 B, 8 B came"),
    (head(data=[1, 2], **BINARY), None, "both data and binary_data_size"),
    (head(datatype="BYTES", **BINARY) + b"\xff" * 8, len(head(datatype="BYTES", **BINARY)),
     "2 strings do not fit"),
    (head(datatype="BYTES", shape=[1], **BINARY) + b"\0" * 8,
     len(head(datatype="BYTES", shape=[1], **BINARY)), "4 B after its 1 strings"),
    (head(datatype="BYTES", shape=[65]), None, "65 elements, the limit is 64"),
    (head(datatype="BOOL", shape=[8], **BINARY) + b"\0\2" * 4,
     len(head(datatype="BOOL", shape=[8], **BINARY)), "neither 0 nor 1"),
])  # fmt: skip
def test_what_is_no_request_is_refused(body: bytes, split: int | None, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        decode_request(body, split)
    assert said in str(refused.value)


def test_long_json_is_not_even_parsed() -> None:
    with pytest.raises(BadInput, match="the limit is 100 B"):
        decode_request(b"[" * 101, None, WireLimits(json_bytes=100))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["inputs", "outputs", "parameters", "name", "shape", "datatype", "data",
                         "binary_data_size", "classification", "id", "timeout"]),
        inner, max_size=6), max_leaves=30)


@given(JSON, st.binary(max_size=40), st.integers(-2, 400) | st.none())
def test_any_json_is_a_request_or_refused(value: Any, raw: bytes, split: int | None) -> None:
    text = json.dumps(value).encode()
    for cut in (split, len(text)):
        try:
            decoded = decode_request(text + raw, cut)
        except BadInput:
            continue
        assert isinstance(decoded, Request)


@given(st.binary(max_size=200), st.integers(0, 200) | st.none())
def test_any_bytes_are_a_response_or_refused(body: bytes, split: int | None) -> None:
    try:
        decoded = decode_response(body, split)
    except BadInput:
        return
    assert isinstance(decoded, Response)


def test_headers_tell_where_the_head_ends() -> None:
    assert Message(b"{}", None).headers() == {"Content-Type": "application/json"}
    assert Message(b"{}", 2).headers()["Inference-Header-Content-Length"] == "2"
