from __future__ import annotations

import pytest

from handtorch.meters.rails import BOARDS, CARRIER, board_of


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_board_is_known_by_its_rails(board: object) -> None:
    assert isinstance(board, type(BOARDS[0]))
    assert board_of(list(board.rails)) is board
    assert board_of([*board.rails, "NC", "NC", *CARRIER]) is board


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_every_parent_is_a_rail_of_the_board_and_a_top(board: object) -> None:
    assert isinstance(board, type(BOARDS[0]))
    for rail in (*board.rails.values(), *CARRIER.values()):
        above = board.rail(rail.parent) if rail.parent else None
        assert above is None if not rail.parent else above is not None and above.parent == ""


def test_some_of_the_rails_are_enough() -> None:
    """The newest tegrastats of AGX Orin prints no memory rail."""
    few = board_of(["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"])
    assert few is not None and few.name == "AGX Orin"


@pytest.mark.parametrize("names", [[], ["NC"], ["VDD_MUX"], ["VDD_IN", "VDD_NEW"]])
def test_an_unknown_board_is_none(names: list[str]) -> None:
    assert board_of(names) is None
