"""What the study `training` knows of a cell: one model, one batch, one side; and of its plan.

Rows are plain data: what a child process measured goes as JSON into a file of its own, and tables,
verdicts and rows of the run file are worked out from those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Literal

from handtorch.errors import StorageError

Side = Literal["torch", "device"]
State = Literal["measured", "not run", "failed"]
TORCH: Side = "torch"
DEVICE: Side = "device"

# The suite of the paper, in the order of its Table II: trained there, then those that were not.
TRAINED = ("DenseNet40_12", "ResNet50", "SqueezeNet1_0", "VGG16", "Xception", "InceptionV1",
           "CharCNN", "DCGAN", "DQN", "AlexNet")
NOT_TRAINED = ("VGG19", "BERT", "ResNet101", "ResNet152", "DenseNet100_12", "Seq2Seq")
SUITE = (*TRAINED, *NOT_TRAINED)
RECURRENT = ("CharCNN", "Seq2Seq")
VISION = ("DenseNet40_12", "ResNet50", "SqueezeNet1_0", "VGG16", "Xception", "InceptionV1",
          "AlexNet", "VGG19", "ResNet101", "ResNet152", "DenseNet100_12")
_FORMS = {32: {"BERT": "squad128"}, 224: {**dict.fromkeys(VISION, "imagenet"), "BERT": "squad"}}
_ONLY_SMALL = ("DenseNet40_12", "DenseNet100_12")       # nets for 32x32 pictures alone


def form_of(model: str, image: int) -> str:
    """The form of a model for pictures of that side; "" is the usual one, which others have."""
    return "" if model in _ONLY_SMALL else _FORMS[image].get(model, "")


@dataclass(frozen=True)
class Kind:
    """A model as it is run: `small` is its narrow form, for the quick study."""

    model: str
    form: str = ""
    small: bool = False

    @property
    def title(self) -> str:
        named = f"{self.model} {self.form}" if self.form else self.model
        return f"{named} (narrow)" if self.small else named

    @property
    def key(self) -> str:
        return "-".join(filter(None, (self.model, self.form, "narrow" if self.small else "")))


@dataclass(frozen=True)
class Planned:
    """What the plan says of a batch of a model, before anything ran.

    `held_bytes` is all that the device holds without a budget, None where one tensor is too large
    for it. `budget_bytes` is what it holds within the memory limit and `slow_down` what that costs;
    None where it does not fit even so. `estimate_s` is a step's time from the device's sheet."""

    kind: Kind
    batch: int
    memory_bytes: int
    held_bytes: int | None
    budget_bytes: int | None
    slow_down: float | None
    estimate_s: float
    parameters: int
    forward_flops: int                  # of one sample
    launches: int
    why_not: str = ""

    def fits_alone(self) -> bool:
        return self.held_bytes is not None and self.held_bytes <= self.memory_bytes

    def fits_with_budget(self) -> bool:
        return self.budget_bytes is not None


@dataclass(frozen=True)
class Memory:
    """Bytes of a cell's process: `roles` and `planned_bytes` from the plan, the rest measured.

    `before_bytes` is the process before it had a step, `peak_bytes` the most while it trained."""

    peak_bytes: int
    before_bytes: int
    load_peak_bytes: int
    planned_bytes: int | None = None
    launches: int = 0
    kernels: int = 0
    batches_bytes: int = 0
    roles: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Use:
    """Shares of the time of the measured steps; None where this machine does not tell."""

    cores: Mapping[str, float] = field(default_factory=dict)        # busy, by core
    idle: Mapping[str, float] = field(default_factory=dict)
    device: float | None = None
    process_cores: float | None = None
    time_error: float | None = None     # of the next step's time, foretold by those before it
    use_error: float | None = None
    missing: str = ""
    # By core (seconds since the first measured step, share): the first three steps.
    over: Mapping[str, list[tuple[float, float]]] = field(default_factory=dict)

    @property
    def mean_core(self) -> float | None:
        return sum(self.cores.values()) / len(self.cores) if self.cores else None


@dataclass(frozen=True)
class Power:
    """Joules of a step by rail, and the error of its next step's power; empty without a sensor."""

    joules: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)          # rail -> cpu, gpu, memory, ...
    error: float | None = None
    provenance: str = "measured"
    missing: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell as it ended. `reason` says why it was not run, or how it failed."""

    kind: Kind
    batch: int
    side: Side
    state: State
    reason: str = ""
    estimate_s: float | None = None
    step_s: tuple[float, ...] = ()
    losses: tuple[tuple[float, ...], ...] = ()      # of the first steps
    source: str = ""                                # of its data
    prepare_s: float = 0.0
    budget_bytes: int | None = None                 # it ran within this budget
    others: float | None = None                     # share of the cores that other programs used
    memory: Memory | None = None
    use: Use = field(default_factory=Use)
    power: Power = field(default_factory=Power)

    @property
    def title(self) -> str:
        return f"{self.kind.title} b{self.batch}"

    @property
    def key(self) -> str:
        return f"{self.kind.key}-b{self.batch}-{self.side}"

    @property
    def measured(self) -> bool:
        return self.state == "measured"

    @property
    def samples_per_s(self) -> float | None:
        return self.batch / median(self.step_s) if self.step_s else None


def to_json(row: Cell | Planned) -> dict[str, Any]:
    return asdict(row)


def cell_from(told: Mapping[str, Any]) -> Cell:
    """Raises StorageError for what is no cell: a file of another version, or a damaged one."""
    try:
        told = dict(told)
        memory = told.pop("memory")
        return Cell(kind=Kind(**told.pop("kind")), use=Use(**told.pop("use")),
                    power=Power(**told.pop("power")), step_s=tuple(told.pop("step_s")),
                    losses=tuple(map(tuple, told.pop("losses"))),
                    memory=None if memory is None else Memory(**memory), **told)
    except (KeyError, TypeError) as e:
        raise StorageError("a kept cell", why=f"it is not understood: {e}",
                           fix="remove the file, and it is measured again") from e


def planned_from(told: Mapping[str, Any]) -> Planned:
    try:
        told = dict(told)
        return Planned(kind=Kind(**told.pop("kind")), **told)
    except (KeyError, TypeError) as e:
        raise StorageError("a kept plan", why=f"it is not understood: {e}",
                           fix="remove the file, and it is planned again") from e
