"""Pictures are decoded in a process that may die and may not take much."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from handtorch.cloud.decoders import Decoders
from handtorch.cloud.limits import MIB, Limits
from handtorch.cloud.pictures import decode, encode, prepare
from handtorch.cloud.recipes import TORCHVISION
from handtorch.errors import BadInput


def test_a_decoder_that_dies_is_replaced() -> None:
    """The process that decodes is killed: that picture is refused at worst, the next is seen."""
    picture = encode(np.random.default_rng(0).integers(0, 255, (60, 80, 3), dtype="u1"), "PNG")

    async def run() -> None:
        decoders = Decoders(1, Limits())
        await decoders.start()
        try:
            expected = prepare(decode(picture), TORCHVISION)
            np.testing.assert_array_equal(await decoders.input_of(picture, TORCHVISION), expected)
            decoders._idle[0].process.kill()
            decoders._idle[0].process.wait()
            with pytest.raises(BadInput, match="the decoder gave up"):
                await decoders.input_of(picture, TORCHVISION)
            assert decoders.deaths == 1
            np.testing.assert_array_equal(await decoders.input_of(picture, TORCHVISION), expected)
            with pytest.raises(BadInput, match="no picture that can be read"):
                await decoders.input_of(b"x", TORCHVISION)
            assert decoders.deaths == 1
        finally:
            decoders.close()
    asyncio.run(run())


def test_a_decoder_has_little_memory() -> None:
    """24 megapixels do not fit into 200 MB beside the decoder itself: refused, nothing dies."""
    large = encode(np.zeros((4000, 6000, 3), "u1"), "PNG")

    async def run() -> None:
        decoders = Decoders(1, Limits(picture_memory_bytes=200 * MIB, picture_s=60))
        try:
            with pytest.raises(BadInput):
                await decoders.input_of(large, TORCHVISION)
        finally:
            decoders.close()
    asyncio.run(run())
