from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.errors import BadFile, BadInput
from handtorch.zoo.data import opened
from tests.zoo.data.damage import text_of_error


def test_a_text_loses_its_mark_and_its_returns(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\rc\n")
    assert opened.text_of(path) == "a\nb\nc\n"


def test_a_byte_that_is_no_text_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"abc\xff\n")
    with pytest.raises(BadFile) as error:
        opened.text_of(path)
    assert text_of_error(error, path) == (
        "FILE cannot be used: at byte 3: byte 0xff is not UTF-8 (invalid start byte)\n"
        "  try: convert the file to UTF-8, for example with iconv")


def test_what_cannot_be_opened_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="No such file"):
        opened.size_of(tmp_path / "none")
    with pytest.raises(BadInput, match="it is not a file"):
        opened.contents(tmp_path)
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(opened._MOST_BYTES + 1)          # takes no room on the disk
    with pytest.raises(BadInput, match="and at most 4294967296 are read"):
        opened.contents(path)
