"""Format and size of a picture, read from its first bytes without any decoder.

Decoders allocate by what a header claims, and Pillow's WebP reader does so while it opens a file:
so the claim is read here first, by code that allocates nothing."""

from __future__ import annotations

from dataclasses import dataclass

from handtorch.errors import BadInput

# Start of frame in JPEG: all of 0xC0 to 0xCF but the tables and the arithmetic conditioning.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_MOST_SEGMENTS = 1000       # a photograph has some twenty before its frame


@dataclass(frozen=True)
class Header:
    """What the file claims; nothing of it has been decoded."""

    format: str
    width: int
    height: int

    @property
    def pixels(self) -> int:
        return self.width * self.height


def read_header(data: bytes) -> Header:
    """Format and size of a JPEG, PNG or WebP picture; anything else is BadInput."""
    if data[:3] == b"\xff\xd8\xff":
        size = _jpeg(data)
    elif data[:8] == b"\x89PNG\r\n\x1a\n":
        size = _png(data)
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        size = _webp(data)
    else:
        raise BadInput("this is no picture that can be read",
                       why=f"its first bytes are {data[:8].hex() or 'missing'}",
                       fix="a JPEG, PNG or WebP file")
    kind = {0xFF: "JPEG", 0x89: "PNG"}.get(data[0], "WEBP")
    if size is None or min(size) < 1:
        raise BadInput(f"a {kind} picture without a size",
                       why=f"its {len(data)} bytes hold no whole header", fix="send it again")
    return Header(kind, *size)


def _png(data: bytes) -> tuple[int, int] | None:
    if data[12:16] != b"IHDR" or len(data) < 24:
        return None
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    for _ in range(_MOST_SEGMENTS):
        while at < len(data) - 1 and data[at] == data[at + 1] == 0xFF:
            at += 1             # fill bytes
        if at + 9 > len(data) or data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker in _WITHOUT_LENGTH:
            at += 2
        elif marker in _FRAMES:
            return (int.from_bytes(data[at + 7:at + 9], "big"),
                    int.from_bytes(data[at + 5:at + 7], "big"))
        else:
            at += 2 + max(2, int.from_bytes(data[at + 2:at + 4], "big"))
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    chunk = data[12:16]
    if len(data) < 30:
        return None
    if chunk == b"VP8X":
        return (int.from_bytes(data[24:27], "little") + 1,
                int.from_bytes(data[27:30], "little") + 1)
    if chunk == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        return (int.from_bytes(data[26:28], "little") & 0x3FFF,
                int.from_bytes(data[28:30], "little") & 0x3FFF)
    return None
