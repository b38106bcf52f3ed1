from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

from handtorch.report.script import data_block, script


def test_no_text_of_a_run_ends_its_block(parse: Any) -> None:
    given = {"name": "</script><script>alert(1)</script> &amp; <!-- é"}
    page = parse(data_block(given))
    (block,) = page.all("script")
    assert block.attrs == {"type": "application/json"}
    assert json.loads(block.text) == given


def test_the_script_asks_for_nothing_from_elsewhere() -> None:
    assert not re.search(r"https?:|fetch\(|XMLHttpRequest|import\(|eval\(|innerHTML", script())
    assert "</" not in script()          # or it would end early


def test_every_file_of_the_folder_is_in_it() -> None:
    folder = files("handtorch.report") / "web"
    for file in folder.iterdir():
        text = file.read_text(encoding="utf-8")
        assert text in script()
        assert len(text.splitlines()) <= 400 and max(map(len, text.splitlines())) <= 100
