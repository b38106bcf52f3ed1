"""What a run writes: the versioned schema of a `.htr` file, its rows, and SQLite in and out."""

from handtorch.record.export import to_json
from handtorch.record.read import read_run
from handtorch.record.rows import (
    Clock,
    Comparison,
    Device,
    Launch,
    Machine,
    Memory,
    Place,
    Published,
    Result,
    Run,
    RunInfo,
    Sample,
    Software,
    Step,
    Verdict,
)
from handtorch.record.write import RunWriter

__all__ = [
    "Clock", "Comparison", "Device", "Launch", "Machine", "Memory", "Place", "Published", "Result",
    "Run", "RunInfo", "RunWriter", "Sample", "Software", "Step", "Verdict", "read_run", "to_json",
]
