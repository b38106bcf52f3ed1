"""`python3 -m dev WORD [more...]`: what follows the word goes to the program behind it."""

from __future__ import annotations

import sys

from dev.environment import SetupError
from dev.tasks import TASKS

EXIT_USAGE, EXIT_INTERRUPTED = 2, 130


def main(words: list[str]) -> int:
    if not words or words[0] not in TASKS:
        asked = words[:1] in (["help"], ["--help"], ["-h"])
        lines = [f"  {name:9} {task.__doc__}" for name, task in TASKS.items()]
        text = "\n".join(["usage: python3 -m dev WORD [more...]", *lines])
        print(text, file=sys.stdout if asked else sys.stderr)
        return 0 if asked else EXIT_USAGE
    try:
        return TASKS[words[0]](words[1:])
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; repeat the command to go on", file=sys.stderr)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.exit(main(sys.argv[1:]))
