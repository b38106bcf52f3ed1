"""The room that captures torch, where torch is installed and is the one it reads."""

from __future__ import annotations

from types import ModuleType

from handtorch.errors import CannotCapture


def capturing() -> ModuleType:
    """`handtorch.capture.step`; or a refusal that says which torch to install."""
    try:
        from handtorch.capture.torch_version import check_torch
    except ModuleNotFoundError as e:
        if e.name != "torch":
            raise
        raise CannotCapture("a torch model", why="torch is not installed",
                            fix="`pip install torch==2.13.0`; or capture and save it where torch "
                                "is: ht.load and saved .ht files need none") from e
    check_torch()
    from handtorch.capture import step
    return step
