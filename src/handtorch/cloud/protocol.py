"""Open Inference Protocol v2 with the binary tensor extension: messages to bytes, and back.

Both sides use this file; it needs NumPy and nothing else. A message is a JSON head and, behind it,
the raw little-endian bytes of its binary tensors in the order of the head; the HTTP header
`Inference-Header-Content-Length` tells where the head ends, and is absent where all is JSON. A
BYTES tensor is a sequence of strings, each after its length as a little-endian u32.

    picture in    one input, datatype BYTES, shape [n]: n files in JPEG, PNG or WebP
    tensor in     one input as the model's metadata name it, shape [n, ...]
    tensor out    the model's output, FP32, shape [n, classes]
    top five out  the same output asked for with the parameter `classification: 5` (what
                  tritonclient calls `class_count`): BYTES, shape [n, 5], "score:index:label" each
    timing        response parameter `timing_ms`: receive, decode, queue, compute, send

Whatever arrives, decoding gives a message or raises BadInput: sizes and shapes are compared before
anything is allocated for them."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from handtorch.cloud.limits import WireLimits
from handtorch.errors import BadInput

Array = NDArray[Any]

HEAD_LENGTH = "Inference-Header-Content-Length"
TIMING = "timing_ms"
STEPS = ("receive", "decode", "queue", "compute", "send")
BYTES = "BYTES"
# Spelled little-endian: that is what travels, whatever the machine.
NUMPY = {"BOOL": "|b1", "UINT8": "|u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8",
         "INT8": "|i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8",
         "FP16": "<f2", "FP32": "<f4", "FP64": "<f8"}
_DATATYPE = {np.dtype(code): name for name, code in NUMPY.items()}


@dataclass(frozen=True)
class Tensor:
    """`values` has the shape, or is a flat tuple of byte strings where the datatype is BYTES."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    values: Array | tuple[bytes, ...]

    @staticmethod
    def of(name: str, values: Array) -> Tensor:
        return Tensor(name, _DATATYPE[values.dtype], values.shape, values)

    @staticmethod
    def strings(name: str, values: Sequence[bytes], shape: tuple[int, ...] = ()) -> Tensor:
        return Tensor(name, BYTES, shape or (len(values),), tuple(values))


@dataclass(frozen=True)
class Wanted:
    """An output that is asked for: as it is, or as its best `classes` with their labels."""

    name: str
    binary: bool = True
    classes: int = 0


@dataclass(frozen=True)
class Request:
    """`wanted` empty asks for every output, in the form that `binary` says."""

    inputs: tuple[Tensor, ...]
    wanted: tuple[Wanted, ...] = ()
    id: str = ""
    binary: bool = True
    timeout_us: int | None = None


@dataclass(frozen=True)
class Response:
    model: str
    version: str
    outputs: tuple[Tensor, ...]
    id: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Message:
    """What travels; `head_bytes` is None where all of it is JSON."""

    body: bytes
    head_bytes: int | None

    def headers(self) -> dict[str, str]:
        if self.head_bytes is None:
            return {"Content-Type": "application/json"}
        return {"Content-Type": "application/octet-stream", HEAD_LENGTH: str(self.head_bytes)}


def encode_request(request: Request) -> Message:
    """All inputs binary."""
    packed = [pack(t) for t in request.inputs]
    head: dict[str, Any] = {"inputs": [_described(t, len(raw)) for t, raw in
                                       zip(request.inputs, packed, strict=True)]}
    if request.wanted:
        head["outputs"] = [{"name": w.name, "parameters": {
            "binary_data": w.binary, **({"classification": w.classes} if w.classes else {})}}
            for w in request.wanted]
    parameters: dict[str, Any] = {"binary_data_output": True} if request.binary else {}
    if request.timeout_us is not None:
        parameters["timeout"] = request.timeout_us
    if parameters:
        head["parameters"] = parameters
    if request.id:
        head["id"] = request.id
    return _message(head, packed)


def encode_response(response: Response, binary: Sequence[bool],
                    packed: Sequence[bytes | list[Any]]) -> Message:
    """`packed` holds what `pack` or `listed` gave for each output, as `binary` says.

    They come ready made, so that the time it takes can be told in the head."""
    outputs, raw = [], []
    for tensor, as_bytes, value in zip(response.outputs, binary, packed, strict=True):
        if as_bytes:
            assert isinstance(value, bytes)
            outputs.append(_described(tensor, len(value)))
            raw.append(value)
        else:
            outputs.append({**_described(tensor, None), "data": value})
    head: dict[str, Any] = {"model_name": response.model, "model_version": response.version,
                            "outputs": outputs}
    if response.parameters:
        head["parameters"] = dict(response.parameters)
    if response.id:
        head["id"] = response.id
    return _message(head, raw) if any(binary) else Message(to_json(head), None)


def to_json(value: object) -> bytes:
    """JSON as the standard has it; a number that it has no word for is refused."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except ValueError as e:
        raise BadInput("the numbers cannot be written as JSON", why="NaN or infinite",
                       fix="ask for binary tensors") from e


def pack(tensor: Tensor) -> bytes:
    """The raw bytes of a tensor."""
    if isinstance(tensor.values, tuple):
        return b"".join(struct.pack("<I", len(s)) + s for s in tensor.values)
    return tensor.values.astype(NUMPY[tensor.datatype], copy=False).tobytes()


def listed(tensor: Tensor) -> list[Any]:
    """The elements as JSON has them, flat."""
    if isinstance(tensor.values, tuple):
        return [s.decode("utf-8", "replace") for s in tensor.values]
    flat: list[Any] = tensor.values.ravel().tolist()
    return flat


def decode_request(body: bytes, head_bytes: int | None,
                   limits: WireLimits | None = None) -> Request:
    """The request in `body`; its arrays are views of it."""
    limits = limits or WireLimits()
    head, raw = _parts(body, head_bytes, limits)
    parameters = _object(head, "parameters")
    tensors = tuple(_tensors(_list(head, "inputs"), raw, limits))
    if not tensors:
        _wrong("inputs", "there is none")
    binary = _flag(parameters, "binary_data_output")
    wanted = tuple(_wanted(_entry(o, "output"), binary, limits)
                   for o in _capped(_list(head, "outputs"), "outputs", limits.tensors))
    timeout = parameters.get("timeout")
    if timeout is not None:
        timeout = _count(timeout, "timeout")
    return Request(tensors, wanted, _text(head.get("id", ""), "id", limits), binary,
                   timeout or None)


def decode_response(body: bytes, head_bytes: int | None,
                    limits: WireLimits | None = None) -> Response:
    """The response in `body`; its arrays are views of it."""
    limits = limits or WireLimits(strings=4096)
    head, raw = _parts(body, head_bytes, limits)
    return Response(_text(head.get("model_name", ""), "model_name", limits),
                    _text(head.get("model_version", ""), "model_version", limits),
                    tuple(_tensors(_list(head, "outputs"), raw, limits)),
                    _text(head.get("id", ""), "id", limits), _object(head, "parameters"))


def read_json(text: bytes | memoryview, limit: int) -> Any:
    """Any JSON value; refuses what is too long, too deep, or no JSON."""
    if len(text) > limit:
        _wrong("the JSON part", f"{len(text)} B, the limit is {limit} B", fix="binary tensors")
    try:
        return json.loads(bytes(text).decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        why = "too deep" if isinstance(e, RecursionError) else str(e)[:200]
        raise BadInput("the JSON part cannot be read", why=why) from e


def _parts(body: bytes, head_bytes: int | None, limits: WireLimits
           ) -> tuple[dict[str, Any], memoryview]:
    view = memoryview(body)
    end = len(view) if head_bytes is None else head_bytes
    if not 0 <= end <= len(view):
        _wrong(HEAD_LENGTH, f"{end} B, the body has {len(view)} B")
    return _entry(read_json(view[:end], limits.json_bytes), "the body"), view[end:]


def _tensors(described: list[Any], raw: memoryview, limits: WireLimits) -> Iterator[Tensor]:
    """Each tensor of a head; all of `raw` must be used up."""
    names = set()
    for item in _capped(described, "tensors", limits.tensors):
        entry = _entry(item, "a tensor")
        name = _text(entry.get("name"), "name of a tensor", limits)
        if name in names:
            _wrong(f"tensor {name!r}", "it is there twice")
        names.add(name)
        size = _object(entry, "parameters").get("binary_data_size")
        if size is None:
            yield _of_json(name, entry, limits)
            continue
        if "data" in entry:
            _wrong(f"tensor {name!r}", "both data and binary_data_size")
        size = _count(size, "binary_data_size")
        if size > len(raw):
            _wrong(f"tensor {name!r}", f"binary_data_size {size}, {len(raw)} B are left")
        yield _of_bytes(name, entry, raw[:size], limits)
        raw = raw[size:]
    if len(raw):
        _wrong("the body", f"{len(raw)} B belong to no tensor")


def _of_bytes(name: str, entry: dict[str, Any], raw: memoryview, limits: WireLimits) -> Tensor:
    datatype, shape, count = _kind(name, entry, limits)
    if datatype == BYTES:
        return Tensor(name, BYTES, shape, tuple(_strings(name, raw, count)))
    need = count * np.dtype(NUMPY[datatype]).itemsize
    if need != len(raw):
        _wrong(f"tensor {name!r}", f"{datatype}{list(shape)} takes {need} B, {len(raw)} B came")
    if datatype == "BOOL" and count and np.frombuffer(raw, "u1").max() > 1:
        _wrong(f"tensor {name!r}", "a BOOL is neither 0 nor 1")
    return Tensor(name, datatype, shape, np.frombuffer(raw, NUMPY[datatype]).reshape(shape))


def _strings(name: str, raw: memoryview, count: int) -> Iterator[bytes]:
    for _ in range(count):
        size = int.from_bytes(raw[:4], "little")
        if len(raw) < 4 or size > len(raw) - 4:
            _wrong(f"tensor {name!r}", f"{count} strings do not fit into its bytes")
        yield bytes(raw[4:4 + size])
        raw = raw[4 + size:]
    if len(raw):
        _wrong(f"tensor {name!r}", f"{len(raw)} B after its {count} strings")


def _of_json(name: str, entry: dict[str, Any], limits: WireLimits) -> Tensor:
    datatype, shape, count = _kind(name, entry, limits)
    flat: list[Any] = []
    for item in _leaves(_list(entry, "data")):
        if len(flat) == count:
            _wrong(f"tensor {name!r}", f"more than the {count} elements of its shape")
        flat.append(item)
    if len(flat) != count:
        _wrong(f"tensor {name!r}", f"{len(flat)} elements, its shape has {count}")
    if datatype == BYTES:
        if not all(type(item) is str for item in flat):
            _wrong(f"tensor {name!r}", "an element is no string")
        return Tensor(name, BYTES, shape, tuple(s.encode("utf-8", "replace") for s in flat))
    return Tensor(name, datatype, shape, _numbers(name, datatype, flat).reshape(shape))


def _numbers(name: str, datatype: str, flat: list[Any]) -> Array:
    kinds = ({bool} if datatype == "BOOL" else
             {int, float} if datatype.startswith("FP") else {int})
    if odd := {type(item) for item in flat} - kinds:
        _wrong(f"tensor {name!r}", f"{datatype} from a {odd.pop().__name__}")
    try:
        return np.array(flat, NUMPY[datatype])
    except (OverflowError, ValueError) as e:
        raise BadInput(f"tensor {name!r}", why=f"a number that {datatype} cannot hold") from e


def _leaves(data: list[Any]) -> Iterator[Any]:
    """The elements of nested lists, row after row; without recursion: depth costs nothing."""
    stack = [iter(data)]
    while stack:
        for item in stack[-1]:
            if type(item) is list:
                stack.append(iter(item))
                break
            yield item
        else:
            stack.pop()


def _kind(name: str, entry: dict[str, Any], limits: WireLimits
          ) -> tuple[str, tuple[int, ...], int]:
    """Datatype, shape and count of elements, within the limits."""
    datatype, shape = entry.get("datatype"), _list(entry, "shape")
    if not isinstance(datatype, str) or (datatype != BYTES and datatype not in NUMPY):
        _wrong(f"tensor {name!r}", f"no datatype {str(datatype)[:40]!r}",
               fix=", ".join((*NUMPY, BYTES)))
    _capped(shape, "dimensions", limits.dims)
    sizes = tuple(_count(n, f"a dimension of tensor {name!r}") for n in shape)
    count = math.prod(sizes)
    most = (limits.strings if datatype == BYTES else
            limits.elements_bytes // np.dtype(NUMPY[datatype]).itemsize)
    if count > most:
        _wrong(f"tensor {name!r}", f"{count} elements, the limit is {most}")
    return datatype, sizes, count


def _wanted(entry: dict[str, Any], binary: bool, limits: WireLimits) -> Wanted:
    parameters = _object(entry, "parameters")
    return Wanted(_text(entry.get("name"), "name of an output", limits),
                  _flag(parameters, "binary_data", binary),
                  _count(parameters.get("classification", 0), "classification"))


def _described(tensor: Tensor, size: int | None) -> dict[str, Any]:
    told: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype,
                            "shape": list(tensor.shape)}
    return told if size is None else {**told, "parameters": {"binary_data_size": size}}


def _message(head: dict[str, Any], packed: Sequence[bytes]) -> Message:
    text = to_json(head)
    return Message(b"".join((text, *packed)), len(text))


def _entry(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _wrong(what, f"no JSON object but a {type(value).__name__}")
    return value


def _object(head: Mapping[str, Any], key: str) -> dict[str, Any]:
    return _entry(head.get(key, {}), key)


def _list(head: Mapping[str, Any], key: str) -> list[Any]:
    value = head.get(key, [])
    if not isinstance(value, list):
        _wrong(key, f"no list but a {type(value).__name__}")
    return value


def _capped(items: list[Any], what: str, most: int) -> list[Any]:
    if len(items) > most:
        _wrong(what, f"{len(items)} of them, the limit is {most}")
    return items


def _flag(parameters: Mapping[str, Any], key: str, default: bool = False) -> bool:
    value = parameters.get(key, default)
    if not isinstance(value, bool):
        _wrong(key, "neither true nor false")
    return value


def _count(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        _wrong(what, "no whole number from 0 to 2^63-1")
    return value


def _text(value: Any, what: str, limits: WireLimits) -> str:
    if not isinstance(value, str) or len(value) > limits.name_length:
        _wrong(what, f"no string of {limits.name_length} characters at most")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _wrong(what: str, why: str, fix: str = "") -> NoReturn:
    raise BadInput(what, why=why, fix=fix)
