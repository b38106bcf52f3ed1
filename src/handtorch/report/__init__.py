"""Records to what people look at: one self-contained HTML page, or a trace for a viewer."""

from handtorch.report.chrome import write_chrome
from handtorch.report.page import render, write_page
from handtorch.report.perfetto import write_perfetto

__all__ = ["render", "write_chrome", "write_page", "write_perfetto"]
