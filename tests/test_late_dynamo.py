"""torch's compiler stays away until somebody compiles, and then does what it always did."""

import subprocess
import sys

import pytest

from handtorch import knobs

MAKES = "model = torch.nn.Linear(4, 3)\noptimizer = torch.optim.Adam(model.parameters())\n"
LOADED = "print('torch._dynamo' in sys.modules, 'sympy' in sys.modules)\n"
STEP = """
def step(x, y):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
BATCH = torch.ones(2, 4), torch.zeros(2, dtype=torch.long)
"""


def said(text: str) -> str:
    usual = {k: v for k, v in knobs.environment_for_child().items() if k != "HANDTORCH_CAPTURE"}
    done = subprocess.run([sys.executable, "-c", f"import sys\n{text}"], capture_output=True,
                          text=True, check=False, env=usual)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("order", ["import torch\nimport handtorch\n",
                                   "import handtorch\nimport torch\n"])
def test_an_optimizer_is_made_cleared_and_saved_without_it(order: str) -> None:
    used = "optimizer.zero_grad()\noptimizer.load_state_dict(optimizer.state_dict())\n"
    assert said(order + MAKES + used + LOADED) == "False False\n"


def test_nothing_is_left_watching() -> None:
    watching = "print([f for f in sys.meta_path if type(f).__module__.startswith('handtorch')])\n"
    assert said("import handtorch\nimport torch\n" + watching) == "[]\n"


def test_a_captured_step_trains_without_it() -> None:
    text = ("import torch\nimport handtorch as ht\n" + MAKES + STEP
            + "made = ht.train_step(step, models=[model], optimizers=[optimizer], example=BATCH, "
              "device='ref')\n"
              "first = float(made(*BATCH))\nprint(float(made(*BATCH)) < first)\n"
              "made.sync_to(model, optimizer)\n" + LOADED)
    assert said(text) == "True\nFalse False\n"


def test_torchs_own_step_loads_it_and_computes_the_same() -> None:
    trains = "torch.manual_seed(0)\n" + MAKES + STEP + (
        "for _ in range(3):\n    print(float(step(*BATCH).detach()))\n" + LOADED)
    with_us, without = (said(f"{first}import torch\n{trains}") for first in
                        ("import handtorch\n", ""))
    assert with_us == without
    assert with_us.endswith("True True\n")


def test_once_it_is_there_torch_is_as_it_was() -> None:
    """The compiler leaves the methods alone that torch says it must."""
    text = ("import handtorch\nimport torch\n" + MAKES
            + "import torch._dynamo\n"
              "own = torch.optim.Optimizer.zero_grad.__wrapped__\n"
              "print(getattr(own, '__dynamo_disable').__module__)\n"
              "optimizer.zero_grad()\n"
              "print(getattr(own, '__dynamo_disable')._torchdynamo_disable)\n")
    assert said(text) == "handtorch.late_dynamo\nTrue\n"
