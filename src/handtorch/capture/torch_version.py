"""The torch whose graphs capture reads; another one is refused before anything is made of it."""

from __future__ import annotations

import torch

from handtorch.errors import CannotCapture

READS = "2.13"


def is_read() -> bool:
    """Whether it is a torch of the release whose inside is known here."""
    return str(torch.__version__).split(".")[:2] == READS.split(".")


def check_torch() -> None:
    """Refuses a torch of another release: what it traces has other operations in it."""
    if not is_read():
        found = str(torch.__version__)
        raise CannotCapture(
            f"torch {found}",
            why=f"a model is captured with torch {READS}; what is traced differs from release to "
                "release",
            fix="`pip install torch==2.13.0`, in an environment of its own where another is "
                "needed; saved .ht files need no torch at all")
