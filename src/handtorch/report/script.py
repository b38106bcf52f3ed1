"""The page's one script, from the files of `web/`, and the policy that lets it run and no other."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from importlib.resources import files
from typing import Any

_FILES = ("page.js", "packed.js", "draw.js", "timeline.js")


@functools.cache
def script() -> str:
    """All files in order, as one strict script that leaves no name behind."""
    folder = files("handtorch.report") / "web"
    inner = "".join((folder / name).read_text(encoding="utf-8") for name in _FILES)
    return f'(()=>{{"use strict";\n{inner}}})();\n'


@functools.cache
def policy() -> str:
    """A Content-Security-Policy under which a planted tag could load and run nothing."""
    digest = base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def data_block(value: Any) -> str:
    """JSON for the script to read; whatever its texts are, none ends the block."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    safe = text.replace("&", "\\u0026").replace("<", "\\u003c")
    return f'<script type="application/json">{safe}</script>'
