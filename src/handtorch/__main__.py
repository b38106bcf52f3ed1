"""`python -m handtorch` is the `handtorch` command."""

from handtorch.cli.main import entry

raise SystemExit(entry())
