"""What is said of times beside which other programs were busy: the same words in a terminal as on
a page."""

from __future__ import annotations


def beside(percent: int) -> str:
    """A sentence without its full stop."""
    return (f"Other programs used {percent} % of this machine's cores while this was timed: no "
            "speed is judged by it")
