"""Starting weights for nets without batch-norm, which torch's defaults leave almost silent."""

from __future__ import annotations

from torch import nn


def he_start(model: nn.Module) -> None:
    """Convolutions get He's normal weights (2 / fan in) and no bias; other layers stay as made."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
