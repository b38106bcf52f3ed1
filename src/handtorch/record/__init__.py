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
    Sample,
    Software,
    Verdict,
)
from handtorch.record.timed import Clock, Gap, Launch, Step, Sync
from handtorch.record.write import RunWriter

__all__ = [
    "Clock", "Comparison", "Device", "Gap", "Launch", "Machine", "Memory", "Place", "Published",
    "Result", "Run", "RunInfo", "RunWriter", "Sample", "Software", "Step", "Sync", "Verdict",
    "read_run", "to_json",
]
