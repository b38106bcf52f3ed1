from __future__ import annotations

import pytest

from handtorch.studies.training_cells import SUITE
from handtorch.studies.training_published import TABLE_II, disagrees, published


def test_table_ii_has_the_sixteen_models_ten_of_which_were_trained() -> None:
    assert set(TABLE_II) == set(SUITE) and len(SUITE) == 16
    assert [m for m in SUITE if TABLE_II[m].trained] == list(SUITE[:10])


@pytest.mark.parametrize(("model", "parameters", "note"), [
    ("ResNet50", 25_557_032, "printed as megabytes"),       # 98M, and 25 million in the text
    ("VGG19", 143_667_240, "printed as megabytes"),
    ("AlexNet", 61_100_840, ""),
    ("SqueezeNet1_0", 1_248_424, "printed as megabytes"),   # 5M
    ("DQN", 3_386_724, ""),                                 # N/A
    ("Seq2Seq", 25_625_088, "differs"),
])
def test_what_disagrees_in_table_ii_is_marked(model: str, parameters: int, note: str) -> None:
    assert disagrees(model, parameters) == note


def test_published_figures_say_where_they_are_printed() -> None:
    found = list(published())
    assert all("2019" in p.source for p in found)
    assert {(p.subject, p.x_value, p.value) for p in found if p.name == "throughput"} == {
        ("ResNet50, TX2", 4, 9), ("ResNet50, TX2", 64, 55), ("DQN, TX2", 4, 889),
        ("DQN, TX2", 64, 13618)}
