from __future__ import annotations

from hashlib import sha256

from handtorch.place.published.row import TAGS, paper_rows

# Of every id with its tag and value. It changes when a row is added, and then only because of it:
# a row that is here keeps its tag.
MARKED = "1b94a167a12fb409"


def test_no_row_of_the_papers_changes_its_tag() -> None:
    told = "\n".join(f"{r.id} {r.tag} {r.value:g}" for r in paper_rows())
    assert sha256(told.encode()).hexdigest()[:16] == MARKED


def test_each_row_says_what_it_is() -> None:
    rows = paper_rows()
    assert len({r.id for r in rows}) == len(rows)
    for row in rows:
        assert row.tag in TAGS and row.source and row.what and row.unit, row.id
        assert row.why or (row.tag == "held-out" and not row.derived), row.id
