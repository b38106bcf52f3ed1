"""The zoo as a list."""

from __future__ import annotations

from handtorch.zoo.listing import listed
from handtorch.zoo.registry import MODELS


def test_every_form_of_every_model_has_its_parameters() -> None:
    found = {(one.name, one.form): one for one in listed()}
    assert list(found) == [(e.name, form) for e in MODELS.values() for form in e.forms]
    for entry in MODELS.values():
        for known in entry.published:
            told = found[entry.name, known.form].parameters
            assert abs(told - known.parameters) <= known.within * known.parameters, entry.name
    assert all(0 < one.narrow_parameters <= one.parameters for one in found.values())
