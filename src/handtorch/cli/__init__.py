"""The `handtorch` command: `main` dispatches, every other file is one command."""
