"""Instances become one text: stable, apart from each other, and with names that errors can use."""

from __future__ import annotations

import random
import re

from handtorch.graph.node import Value
from handtorch.graph.step import Step
from handtorch.kernels.catalog import KERNELS, all_cases
from handtorch.kernels.render import instance_name, instance_text, render, step_instance
from handtorch.kernels.simple import FILL, SGD, SOFTMAX_ROW


def fill(**defines: int) -> Step:
    return FILL.step([Value(0, (4,))], {"COUNT": 4, "NUMBER": 1.0}, defines)


def test_an_instance_is_its_file_between_its_macros_and_their_end() -> None:
    defines = fill(GROUP=32).defines
    name = instance_name("fill", defines)
    lines = instance_text("fill", defines).splitlines()
    assert lines[:3] == [f"#define fill {name}", "#define GROUP 32", '#line 1 "fill.cl"']
    assert lines[3].startswith("// fill: y = NUMBER everywhere")
    assert lines[-2:] == ["#undef fill", "#undef GROUP"]
    assert re.fullmatch(r"fill_[0-9a-f]{8}", name)


def test_the_order_of_steps_and_repeats_do_not_matter() -> None:
    steps = [s for c in all_cases() for s in c.steps]
    shuffled = steps + steps[:9]
    random.Random(1).shuffle(shuffled)
    assert render(shuffled) == render(steps)


def test_other_macros_make_another_instance_and_other_scalars_do_not() -> None:
    assert step_instance(fill(GROUP=16)) != step_instance(fill(GROUP=32))
    more = FILL.step([Value(0, (9,))], {"COUNT": 9, "NUMBER": 2.0})
    assert step_instance(more) == step_instance(fill())


def test_each_instance_is_in_the_source_once() -> None:
    steps = [s for c in all_cases() for s in c.steps]
    source = render(steps)
    names = {step_instance(s) for s in steps}
    assert len(names) == len({(s.kernel, s.defines) for s in steps})     # no two share a name
    for name in names:
        assert len(re.findall(rf"^#define \w+ {name}$", source, re.MULTILINE)) == 1


def test_no_macro_of_one_kernel_reaches_the_next() -> None:
    """What is defined in an instance is undefined at its end, but for the shared header's."""
    shared = set(re.findall(r"#define (\w+)", render([])))
    for kernel in (KERNELS["gemm_register"], SGD, SOFTMAX_ROW, KERNELS["pointwise"]):
        text = instance_text(kernel.name, tuple(sorted(kernel.defaults.items())))
        alive: set[str] = set()
        for word, name in re.findall(r"^[ \t]*#[ \t]*(define|undef)[ \t]+(\w+)", text,
                                     re.MULTILINE):
            (alive.add if word == "define" else alive.discard)(name)
        assert alive == set(), kernel.name
        assert not shared & set(re.findall(r"#undef (\w+)", text)), kernel.name


def test_nothing_to_render_is_the_shared_header() -> None:
    assert render([]).startswith("// unroll.h")
    assert "__kernel" not in render([])
