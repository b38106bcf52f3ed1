"""`handtorch relay`: what it says, relays and refuses."""

from __future__ import annotations

import io
import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from handtorch import knobs
from handtorch.cli.main import EXIT_ERROR, EXIT_OK, main

QUICK = """
name = "quick"
radio = "wifi"
[up]
mbps = 50
source = "made up"
unconfirmed = true
[down]
mbps = 50
source = "made up"
[rtt]
ms = 2
source = "made up"
"""


def said(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = main(["relay", *argv], out, err)
    return code, out.getvalue(), err.getvalue()


@pytest.fixture()
def quick(tmp_path: Path) -> str:
    path = tmp_path / "quick.toml"
    path.write_text(QUICK)
    return str(path)


@pytest.mark.parametrize("argv, text", [
    (("--network", "lte"), "nowhere to relay to"),
    (("--network", "5g", "--to", "127.0.0.1:9"), "no network '5g'"),
    (("--network", "lte", "--to", "127.0.0.1"), "--to 127.0.0.1: it is not HOST:PORT"),
    (("--network", "lte", "--to", "127.0.0.1:0"), "--to 127.0.0.1:0: it is not HOST:PORT"),
    (("--network", "lte", "--to", "127.0.0.1:9", "--seconds", "0"), "--seconds 0: that is no"),
    (("--network", "lte", "--to", "127.0.0.1:9", "--up-trace", "none.up"), "trace none.up: No"),
])
def test_what_cannot_be_relayed_is_refused(argv: tuple[str, ...], text: str) -> None:
    code, out, err = said(*argv)
    assert code == EXIT_ERROR and out == "" and text in err


def test_it_ends_by_itself_and_shows_what_passed(quick: str) -> None:
    code, out, _ = said("--network", quick, "--to", "127.0.0.1:9", "--seconds", "0.1")
    assert code == EXIT_OK
    assert "quick: 50 Mb/s up, 50 Mb/s down, round trip 2 ms\nnot confirmed: up\n" in out
    assert re.search(r"relaying http://127\.0\.0\.1:\d+ to 127\.0\.0\.1:9\n", out)
    assert "0 connections, 0 refused, 0 messages" in out


def test_a_record_and_nothing_else(quick: str, tmp_path: Path) -> None:
    """Bytes through it, SIGTERM, and its log: in a process, as a user has it."""
    (tmp_path / "even.up").write_text("1\n2\n3\n")
    with socket.create_server(("127.0.0.1", 0)) as target:
        target.settimeout(30)
        process = subprocess.Popen(
            [sys.executable, "-m", "handtorch", "relay", "--json", "--network", quick, "--to",
             f"127.0.0.1:{target.getsockname()[1]}", "--up-trace", str(tmp_path / "even.up")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=knobs.environment_for_child())
        try:
            assert process.stderr is not None
            port = 0
            while not port:
                line = process.stderr.readline()
                assert line, "it has ended"
                found = re.search(r"relaying http://127\.0\.0\.1:(\d+) ", line)
                port = int(found[1]) if found else 0
            with socket.create_connection(("127.0.0.1", port), timeout=30) as near:
                far, _ = target.accept()
                near.sendall(bytes(5000))
                got = 0
                while got < 5000:
                    got += len(far.recv(5000))
                far.close()
            time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=30)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
    told = json.loads(out)
    assert process.returncode == EXIT_OK and told["accuracy"] is None
    assert told["network"]["up_trace"] is True and told["network"]["up_bps"] == 12e6
    (burst,) = told["log"]["bursts"]
    assert (burst["way"], burst["in_bytes"], burst["out_bytes"]) == ("up", 5000, 5000)
    assert burst["whole_ms"] > burst["carried_ms"] > 2      # four packets, one to a millisecond


def test_a_check_alone(quick: str) -> None:
    """Whether it is good depends on what else the machine does; that it is told does not."""
    code, out, _ = said("--network", quick, "--check", "--json")
    told = json.loads(out)
    assert told["log"] is None and (code == EXIT_OK) is told["accuracy"]["good"]
    assert [way["way"] for way in told["accuracy"]["ways"]] == ["up", "down"]
    assert told["accuracy"]["ways"][0]["asked_mbps"] == pytest.approx(50)
