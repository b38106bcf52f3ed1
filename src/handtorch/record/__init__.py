"""What a run writes: the versioned schema of a `.htr` file, its rows, and SQLite in and out."""

from handtorch.record.export import to_json
from handtorch.record.read import read_run
from handtorch.record.rows import (
    Comparison,
    Device,
    Machine,
    Memory,
    Place,
    Published,
    Result,
    Run,
    RunInfo,
    Software,
    Verdict,
)
from handtorch.record.sensed import Energy, Missing, Sample, Signal
from handtorch.record.timed import Clock, Gap, Launch, Step, Sync
from handtorch.record.write import RunWriter

__all__ = [
    "Clock", "Comparison", "Device", "Energy", "Gap", "Launch", "Machine", "Memory", "Missing",
    "Place", "Published", "Result", "Run", "RunInfo", "RunWriter", "Sample", "Signal", "Software",
    "Step", "Sync", "Verdict",
    "read_run", "to_json",
]
