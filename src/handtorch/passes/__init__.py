"""Graph -> Graph, one idea per file; `graph.check` runs after each."""
