"""A model of the zoo for a command: captured as asked, refused with the command's own words."""

from __future__ import annotations

import io
import json
import sys

import pytest

from handtorch.cli.main import main
from handtorch.cli.of_zoo import captured_model
from handtorch.errors import BadInput
from handtorch.zoo.registry import MODELS


def test_the_step_has_the_rows_and_the_form_asked_for() -> None:
    shapes = [[p.value.shape for p in captured_model("CharCNN", rows, form, asked="", example="")
               .inputs] for rows, form in ((3, ""), (2, "shakespeare"))]
    assert {s[0] for s in shapes[0]} == {3} and {s[0] for s in shapes[1]} == {2}


@pytest.mark.parametrize(("name", "batch", "said"), [
    ("CharCNN", 0, "--batch 0: a batch has one row or more"),
    ("Nothing", 1, "no model 'Nothing' in the zoo: there is ")])
def test_what_is_not_there_is_refused(name: str, batch: int, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        captured_model(name, batch, asked="x", example="handtorch plan ResNet50")
    assert str(refused.value).startswith(said)


def test_without_torch_it_says_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [m for m in sys.modules if m.startswith(("handtorch.zoo", "handtorch.capture"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "handtorch.capture.step", None)
    with pytest.raises(BadInput) as refused:
        captured_model("CharCNN", 1, asked="plan CharCNN", example="", without_torch="; or a file")
    assert str(refused.value) == (
        "plan CharCNN: the zoo needs torch (import of handtorch.capture.step halted; None in "
        "sys.modules)\n  try: pip install handtorch[torch]; or a file")


@pytest.mark.parametrize("command", ["plan", "profile"])
def test_the_list_names_every_form_of_every_model(command: str) -> None:
    code, out, _ = call(command, "--list")
    head, *lines = out.splitlines()
    assert code == 0 and head.split() == ["model", "form", "parameters", "narrow"]
    assert [line.split()[:3] for line in lines[2:4]] == [["ResNet50", "cifar", "23,520,842"],
                                                         ["ResNet50", "imagenet", "25,557,032"]]
    assert lines[-1] == "the parameters of its narrow twin, which quick studies train."
    told = json.loads(call(command, "--list", "--json")[1])["models"]
    assert len(told) == len(lines) - 2 and {one["name"] for one in told} == set(MODELS)
    assert told[3] | {"narrow_parameters": 0} == {
        "name": "ResNet50", "form": "imagenet", "parameters": 25557032, "narrow_parameters": 0,
        "domain": "computer vision"}


@pytest.mark.parametrize("command", ["plan", "profile"])
def test_without_a_name_it_says_where_names_are(command: str) -> None:
    code, _, err = call(command)
    assert code == 2 and err == (
        f"handtorch: no model named: `handtorch {command}` needs one\n"
        f"  try: `handtorch {command} --list` shows those of the zoo\n")


def call(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return main(argv, out, err), out.getvalue(), err.getvalue()
