"""Which processes are replicas: for whoever wants to see that killing one is survived."""

from __future__ import annotations

from pathlib import Path

_TITLE = b"ServeReplica"                    # how Ray's titles begin


def replica_pids(above: int, proc: Path = Path("/proc")) -> list[int]:
    """Ray's replicas below this process, by the titles that Ray gives them."""
    parents, titles = {}, {}
    for folder in proc.glob("[0-9]*"):
        try:
            stat, title = (folder / "stat").read_text(), (folder / "cmdline").read_bytes()
        except OSError:
            continue                        # it has ended meanwhile
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
        titles[int(folder.name)] = title

    def below(pid: int) -> bool:
        while pid > 1:
            if pid == above:
                return True
            pid = parents.get(pid, 0)
        return False

    return sorted(p for p, title in titles.items() if _TITLE in title and below(p))
