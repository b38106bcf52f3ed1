"""What is compared, and what a side is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from handtorch.store.tensors import Array, read_tensors, write_tensors

Task = Literal["train", "infer", "product"]
BATCHES = 4                 # different ones, in turn
CHECKED = 3                 # runs whose results are compared before any is timed
WEIGHTS, GIVEN, EXPECTED = "weights.safetensors", "batches.safetensors", "expected.safetensors"
TRAIN_HT, INFER_HT, LAYERS = "train.ht", "infer.ht", "layers.json"


@dataclass(frozen=True)
class Case:
    """A model of the zoo at a batch; or a product, `form` being its transposes: `nn`, `nt`, `tn`,
    and `sizes` m, n and k. `small` is a model's narrow form."""

    task: Task
    model: str
    batch: int = 1
    form: str = ""
    small: bool = False
    sizes: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        if self.task == "product":
            return f"{'x'.join(map(str, self.sizes))} {self.form}"
        named = f"{self.model} {self.form}" if self.form else self.model
        how = ", inference" if self.task == "infer" else ""
        return f"{named}{' (narrow)' if self.small else ''} b{self.batch}{how}"


@dataclass(frozen=True)
class Asked:
    """A case as a side's process gets it. `folder` holds the files that are handed over, `spec`
    the platform and name of the OpenCL device, for sides that look for it themselves."""

    case: Case
    folder: Path
    device: str
    threads: int
    spec: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def weights(self) -> dict[str, Array]:
        """By the names of the model's `state_dict`."""
        return read_tensors(self.folder / WEIGHTS)[0]

    def batches(self) -> list[tuple[Array, ...]]:
        return read_calls(self.folder / GIVEN)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "folder": str(self.folder)}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Asked:
        case = dict(told["case"])
        case["sizes"] = tuple(case["sizes"])
        return cls(Case(**case), Path(told["folder"]), told["device"], told["threads"],
                   told["spec"], told["options"])


def write_calls(path: Path, calls: list[tuple[Array, ...]]) -> None:
    """Several calls' arrays in one file: the second array of the first call is `0.1`."""
    write_tensors(path, {f"{i}.{j}": array for i, call in enumerate(calls)
                         for j, array in enumerate(call)}, {"calls": str(len(calls))})


def read_calls(path: Path) -> list[tuple[Array, ...]]:
    arrays, notes = read_tensors(path, sealed=True)
    calls: list[tuple[Array, ...]] = []
    for i in range(int(notes["calls"])):
        count = sum(name.startswith(f"{i}.") for name in arrays)
        calls.append(tuple(arrays[f"{i}.{j}"] for j in range(count)))
    return calls
