"""A child answers line for line, whatever its libraries print."""

from __future__ import annotations

import subprocess
import sys

from handtorch.knobs import environment_for_child

CHILD = """
import os
from handtorch.runtime.answers import answer_parent

def answer(told):
    print("a library's banner")
    os.write(1, b"and one from C")
    return {"twice": 2 * told["number"]}

answer_parent(answer)
"""


def test_every_line_has_an_answer_and_the_end_of_the_input_is_the_end() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], input='{"number": 1}\n{"number": 4}\n',
                          text=True, capture_output=True, check=True, env=environment_for_child())
    assert done.stdout == '{"twice": 2}\n{"twice": 8}\n'
    assert "a library's banner" in done.stderr and "and one from C" in done.stderr
