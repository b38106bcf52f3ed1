"""Records to what people look at: one self-contained HTML page, or a trace for a viewer."""

from handtorch.report.chrome import write_chrome
from handtorch.report.compare import render_comparison
from handtorch.report.page import render
from handtorch.report.perfetto import write_perfetto
from handtorch.report.side_by_side import markdown
from handtorch.report.write import write_comparison, write_page

__all__ = ["markdown", "render", "render_comparison", "write_chrome", "write_comparison",
           "write_page", "write_perfetto"]
