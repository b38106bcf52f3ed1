"""Records to HTML: one self-contained page from a run file; reads `record` only."""

from handtorch.report.page import render, write_page

__all__ = ["render", "write_page"]
