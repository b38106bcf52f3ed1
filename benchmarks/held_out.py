"""How well devices that are not here are foretold: every held-out published row, good or bad.

    python benchmarks/held_out.py [--brief] [--json]

Rows of the papers stand in this repository; those of large tables are read where HANDTORCH_SHARED
names a folder with them. Each row was marked before anything was fitted (docs/adr/0029). With
--brief only the rows of the papers are listed one by one. Exit code 1 if the median absolute error
over all rows exceeds 25 %."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from handtorch import knobs
from handtorch.place.published.held_out import (
    Judged,
    judged_papers,
    judged_tables,
    median_error,
    summary,
    table,
)

LIMIT = 0.25


def record(judged: Sequence[Judged]) -> dict[str, object]:
    return {"median_absolute_error": median_error(judged), "limit": LIMIT,
            "rows": [{"id": j.row.id, "unit": j.row.unit, "published": j.row.value,
                      "predicted": j.predicted, "error": j.error, "derived": j.row.derived,
                      "source": j.row.source} for j in judged]}


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--brief", action="store_true", help="do not list the rows of tables")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    shared = knobs.value("HANDTORCH_SHARED")
    papers = judged_papers()
    tables = judged_tables(Path(shared)) if shared else ()
    judged = (*papers, *tables)
    if args.json:
        json.dump(record(judged), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.write(f"{table(papers if args.brief else judged)}\n\n{summary(judged)}\n")
        if not tables:
            sys.stdout.write("tables: HANDTORCH_SHARED names no folder with them\n")
    return int(median_error(judged) > LIMIT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
