from __future__ import annotations

from pathlib import Path

import pytest

from handtorch.errors import StorageError
from handtorch.meters.log import lines


def test_lines_keep_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"one\r\n\ntwo\xff\x85three")
    assert list(lines(tmp_path / "a.log")) == [(1, "one"), (2, ""), (3, "two\ufffd\ufffdthree")]


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as error:
        list(lines(tmp_path / "a.log"))
    assert str(error.value) == (
        f"{tmp_path / 'a.log'}: the log cannot be read: No such file or directory"
    )
