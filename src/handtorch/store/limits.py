"""How much a file may ask for. What is beyond is refused before anything of that size is made.

The longest step of the zoo, ResNet152's, has 5,539 nodes, told in 0.95 MB. A header of
`store/tensors.py` has at most 32 MiB, whatever is in it."""

from __future__ import annotations

MOST_NODES = 1 << 16
MOST_VALUES = 1 << 18
MOST_PORTS = 1 << 10                  # inputs, or outputs, of one graph
MOST_INPUTS = 1 << 10                 # of one node; only `cat` takes more than nine
MOST_AXES = 12
MOST_ELEMENTS = (1 << 31) - 1         # of one tensor: kernels count in 32 bits
MOST_PROGRAMS = 1 << 10               # compiled, for all devices together
MOST_NUMBERS = 64                     # in one attribute of a node
LONGEST_WORD = 64                     # of an op, an attribute, a phase, a role
LONGEST_NAME = 1 << 10                # of a state, a layer, an input
LONGEST_LINE = 1 << 12                # of the user's own source text
