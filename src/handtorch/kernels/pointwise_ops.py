"""How each point-wise op reads in OpenCL C; {0}, {1}, ... are its arguments, {T} its register type.

`F`, `I` are the float and int register types, vectors or scalars; `TO_F`, `TO_I` convert. A bool
is an int, 0 where false; where true it is -1 in vectors, as `select` wants it, and 1 or -1 in
scalars."""

from __future__ import annotations

EXPRESSIONS = {
    "copy": "{0}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "abs": "fabs({0})",
    "exp": "exp({0})",
    "log": "log({0})",
    "log1p": "log1p({0})",
    "expm1": "expm1({0})",
    "sqrt": "sqrt({0})",
    "rsqrt": "rsqrt({0})",
    "reciprocal": "1.0f / {0}",
    "square": "{0} * {0}",
    "pow": "pow({0}, (F)({1}))",
    "sin": "sin({0})",
    "cos": "cos({0})",
    "tanh": "tanh({0})",
    "erf": "erf({0})",
    "sign": "sign({0})",
    "floor": "floor({0})",
    "ceil": "ceil({0})",
    # fmax and fmin drop NaN; PyTorch lets it through.
    "maximum": "select(fmax({0}, (F)({1})), {0} + {1}, isnan({0} + {1}))",
    "minimum": "select(fmin({0}, (F)({1})), {0} + {1}, isnan({0} + {1}))",
    "relu": "select({0}, (F)(0.0f), {0} <= 0.0f)",
    "sigmoid": "1.0f / (1.0f + exp(-{0}))",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "isnan": "isnan({0})",
    "logical_and": "({0} != 0) & ({1} != 0)",
    "logical_or": "({0} != 0) | ({1} != 0)",
    "logical_xor": "({0} != 0) ^ ({1} != 0)",
    "logical_not": "{0} == 0",
    "where": "select(({T})({2}), ({T})({1}), (I)({0}))",
    "to_f32": "TO_F({0})",
    "bool_to_f32": "TO_F(({0}) & 1)",
    "bool_to_i32": "({0}) & 1",
    "to_i32": "TO_I({0})",
    "to_bool": "{0} != 0",
    "relu_grad": "select((F)(0.0f), {0}, {1} > 0.0f)",
}
