"""Instances become one text: stable, apart from each other, and with names that errors can use."""

from __future__ import annotations

import random
import re

from handtorch.graph.node import Value
from handtorch.graph.step import Step
from handtorch.kernels.catalog import KERNELS, all_cases
from handtorch.kernels.render import instance_name, instance_text, render, step_instance


def product(size: int = 9, **defines: int) -> Step:
    values = [Value(i, (size, size)) for i in range(3)]
    return KERNELS["gemm_tiled"].step(values, {"M": size, "N": size, "K": size}, defines)


def test_an_instance_is_its_file_between_its_macros_and_their_end() -> None:
    defines = product(TS=8).defines
    name = instance_name("gemm_tiled", defines)
    lines = instance_text("gemm_tiled", defines).splitlines()
    assert lines[:3] == [f"#define gemm_tiled {name}", "#define TS 8", '#line 1 "gemm_tiled.cl"']
    assert lines[3].startswith("// gemm_tiled: C = A B")
    assert lines[-2:] == ["#undef gemm_tiled", "#undef TS"]
    assert re.fullmatch(r"gemm_tiled_[0-9a-f]{8}", name)


def test_the_order_of_steps_and_repeats_do_not_matter() -> None:
    steps = [s for c in all_cases() for s in c.steps]
    shuffled = steps + steps[:9]
    random.Random(1).shuffle(shuffled)
    assert render(shuffled) == render(steps)


def test_other_macros_make_another_instance_and_other_scalars_do_not() -> None:
    assert step_instance(product(TS=8)) != step_instance(product(TS=16))
    assert step_instance(product(9, TS=8)) == step_instance(product(30, TS=8))


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
    for kernel in KERNELS.values():
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
