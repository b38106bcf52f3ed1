"""Convolutions.

The family's kernels are in `conv_specs`, which of them serve a shape on a device in
`conv_launches`, its checks in `conv_cases`."""

from __future__ import annotations

from handtorch.kernels.conv_cases import cases
from handtorch.kernels.conv_epilogue import Epilogue
from handtorch.kernels.conv_launches import Launches
from handtorch.kernels.conv_shapes import Conv, Pair
from handtorch.kernels.conv_specs import KERNELS as SLIDING
from handtorch.kernels.winograd import KERNELS as WINOGRAD

KERNELS = (*SLIDING, *WINOGRAD)

__all__ = ["KERNELS", "Conv", "Epilogue", "Launches", "Pair", "cases"]
