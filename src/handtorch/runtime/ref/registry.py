"""References by op name. They compute in the precision of their inputs."""

from __future__ import annotations

from collections.abc import Callable

from handtorch.runtime.device import Array

Reference = Callable[..., Array | tuple[Array, ...]]
REFERENCES: dict[str, Reference] = {}


def reference(*ops: str) -> Callable[[Reference], Reference]:
    """Registers `fn(node, *inputs) -> output or outputs`."""
    def register(fn: Reference) -> Reference:
        REFERENCES.update(dict.fromkeys(ops, fn))
        return fn
    return register

