"""A child's end of a conversation with its parent: JSON, a line each, in at stdin, out at stdout.

`bench.process.SideProcess` is the parent's end."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from handtorch.runtime.lifetime import end_with_parent


def answer_parent(answer: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
    """Answer each line until the input ends. Who does not answer any more ends with the parent."""
    end_with_parent()
    # What a library prints is no answer: it goes where errors go.
    private = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)     # else it would come behind an error's end
    for line in sys.stdin:
        private.write(json.dumps(answer(json.loads(line))) + "\n")
        private.flush()
