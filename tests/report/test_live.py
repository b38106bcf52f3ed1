"""The server over real HTTP, and its pages in a real browser where there is one."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from handtorch.errors import BadInput
from handtorch.record import Result, RunWriter, Verdict
from handtorch.record.progress import ProgressFile
from handtorch.report import render, render_comparison
from handtorch.report.live import LOOPBACK, Live
from tests.report.chrome_pipe import Browser

WAIT_S = 30.0


def figure(number: int = 0, text: str = "a") -> Result:
    return Result(study="s", name="rate", subject=text, x_name="n", x_value=number,
                  value=float(number), unit="x", better="higher", repeats=1, provenance="measured")


def a_run(path: Path, command: str = "handtorch study s", figures: int = 2) -> None:
    with RunWriter.create(path, command) as record:
        record.add(*map(figure, range(figures)))


@dataclass
class Site:
    server: Live
    folder: Path

    def get(self, path: str, method: str = "GET", **headers: str
            ) -> tuple[int, http.client.HTTPMessage, str]:
        given = {"Host": f"{LOOPBACK}:{self.server.port}"} | {
            k.replace("_", "-"): v for k, v in headers.items()}
        asked = http.client.HTTPConnection(LOOPBACK, self.server.port, timeout=WAIT_S)
        asked.putrequest(method, path, skip_host=True)
        for key, value in given.items():
            asked.putheader(key, value)
        asked.endheaders()
        answer = asked.getresponse()
        body = answer.read().decode()
        asked.close()
        return answer.status, answer.msg, body

    def follow(self, name: str, **headers: str) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Events as they come: kind, data, id."""
        asked = http.client.HTTPConnection(LOOPBACK, self.server.port, timeout=WAIT_S)
        asked.request("GET", f"/events/{quote(name)}",
                      headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = asked.getresponse()
        assert (answer.status, answer.getheader("Content-Type")) == (200, "text/event-stream")
        event: dict[str, str] = {}
        while line := answer.readline().decode():
            key, _, value = line.rstrip("\n").partition(": ")
            if key:
                event[key] = value
            elif event.get("event"):
                yield event["event"], json.loads(event["data"]), event.get("id", "")
                event = {}
        asked.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "runs"
    folder.mkdir()
    server = Live(folder, 0, render, render_comparison,
                  kept=lambda at: [("row", at.name)] if at.exists() else [])
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield Site(server, folder)
    server.end()
    thread.join()
    server.server_close()


def test_the_list_as_a_page_and_as_json(site: Site) -> None:
    a_run(site.folder / "a.htr")
    status, head, body = site.get("/")
    assert status == 200 and "<h1>Runs in " in body
    policy = head["Content-Security-Policy"]
    (nonce,) = re.findall(r"script-src 'nonce-([\w-]+)'", policy)
    assert f'<script nonce="{nonce}">' in body and "default-src 'none'" in policy
    assert site.get("/")[1]["Content-Security-Policy"] != policy
    (run,) = json.loads(site.get("/api/runs")[2])["runs"]
    assert (run["name"], run["state"], run["results"]) == ("a.htr", "complete", 2)


def test_a_page_and_a_comparison(site: Site) -> None:
    a_run(site.folder / "a.htr", "handtorch study <a>")
    a_run(site.folder / "b c&d.htr", "handtorch study b")
    status, head, body = site.get("/run/a.htr")
    assert status == 200 and "handtorch study &lt;a&gt;" in body
    assert head["X-Content-Type-Options"] == "nosniff" and head["Cache-Control"] == "no-store"
    assert site.get(f"/run/{quote('b c&d.htr')}")[0] == 200
    status, _, body = site.get(f"/compare?run=a.htr&run={quote('b c&d.htr')}")
    assert status == 200 and "<title>HandTorch: a and b c&amp;d</title>" in body
    status, _, body = site.get("/compare?run=a.htr&run=a.htr")
    assert status == 422 and "1 runs to compare" in body
    assert site.get("/run/a.htr", "HEAD")[2] == ""


@pytest.mark.parametrize("path", [
    "/run/../secret.htr", "/run/..%2fsecret.htr", "/run/%2e%2e/secret.htr", "/run/",
    "/run/none.htr", "/run//etc/passwd", "/run/a.htr/", "/run/%00", "/live/none.htr",
    "/events/none.htr", "/other", "/compare?run=a.htr&run=..%2fsecret.htr", "/compare/",
    "/api/", "/run/runs/a.htr"])
def test_nothing_but_listed_runs_is_served(site: Site, path: str) -> None:
    a_run(site.folder / "a.htr")
    a_run(site.folder.parent / "secret.htr", "handtorch secret")
    status, _, body = site.get(path)
    assert status in (404, 422) and "handtorch secret" not in body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:PORT", "127.0.0.1", "localhost:1",
                                  "127.0.0.1:PORT.evil.example", "", "0.0.0.0:PORT"])
def test_another_host_name_gets_nothing(site: Site, host: str) -> None:
    """A page whose name was made to point here (DNS rebinding) still sends its own name."""
    a_run(site.folder / "a.htr")
    named = host.replace("PORT", str(site.server.port))
    for path in ("/", "/api/runs", "/run/a.htr", "/events/a.htr"):
        status, _, body = site.get(path, Host=named)
        assert status == 403 and "a.htr" not in body
    assert site.get("/api/runs", Host=f"LOCALHOST:{site.server.port}")[0] == 200


def test_another_site_gets_nothing(site: Site) -> None:
    for word, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200),
                         ("none", 200)):
        assert site.get("/api/runs", Sec_Fetch_Site=word)[0] == status
    assert site.get("/api/runs", "POST")[0] == 501
    assert site.get(f"http://{LOOPBACK}:{site.server.port}/api/runs")[0] == 403
    assert "Access-Control-Allow-Origin" not in site.get("/api/runs")[1]


def test_it_listens_on_this_machine_alone(site: Site) -> None:
    assert site.server.server_address[0] == LOOPBACK == "127.0.0.1"


def test_a_port_that_is_taken(site: Site) -> None:
    with pytest.raises(BadInput) as refused:
        Live(site.folder, site.server.port, render, render_comparison)
    assert refused.value.message() == (
        f"--port {site.server.port}: Address already in use\n"
        "  try: another --port; 0 takes a free one")
    with pytest.raises(BadInput, match="--port 70000"):
        Live(site.folder, 70000, render, render_comparison)


def test_a_damaged_run_is_told_and_hides_no_other(site: Site) -> None:
    a_run(site.folder / "a.htr")
    (site.folder / "b.htr").write_bytes((site.folder / "a.htr").read_bytes()[:5000])
    status, _, body = site.get("/run/b.htr")
    assert status == 422 and "cut short" in body
    states = {r["name"]: r["state"] for r in json.loads(site.get("/api/runs")[2])["runs"]}
    assert states == {"a.htr": "complete", "b.htr": "unreadable"}


def test_a_running_study_is_followed_to_its_end(site: Site) -> None:
    path = site.folder / "now.htr"
    (site.folder / "now.kept").mkdir()
    with ProgressFile(path) as said:
        record = RunWriter.create(path, "handtorch study s")
        said.say("beginning", 0.0, 60.0)
        news = site.follow(record.part.name)
        kind, told, _ = next(news)
        assert (kind, told["state"], told["results"]) == ("news", "running", [])
        assert told["progress"]["text"] == "beginning" and told["progress"]["left_s"] == 60.0
        assert told["kept"] == [["row", "now.kept"]]
        record.add(figure(1), figure(2))
        record.flush()
        _, told, number = next(news)
        assert [r["x_value"] for r in told["results"]] == [1, 2] and number == "2-0"
        said.say("half", 0.5, 30.0)
        _, told, _ = next(news)
        assert told["progress"]["share"] == 0.5 and told["results"] == []
        record.add(Verdict(study="s", question="?", answer="Yes.", holds=True))
        record.flush()
        _, told, _ = next(news)
        assert [v["answer"] for v in told["verdicts"]] == ["Yes."]
        # A reader that comes back says what it has.
        again = site.follow(record.part.name, Last_Event_ID="1-1")
        assert [r["x_value"] for r in next(again)[1]["results"]] == [2]
        again.close()
        record.close()
    assert list(news) == [("ended", {"state": "complete", "page": "/run/now.htr"}, "")]


def test_more_rows_than_one_message_holds_all_come(site: Site) -> None:
    with ProgressFile(site.folder / "now.htr") as said:
        record = RunWriter.create(site.folder / "now.htr", "c")
        said.say("busy")
        record.add(*map(figure, range(450)))
        record.flush()
        got: list[float] = []
        for _, told, _ in site.follow(record.part.name):
            got += [r["x_value"] for r in told["results"]]
            if len(got) >= 450:
                break
        record.close()
    assert got == list(range(450))


def test_a_study_that_was_killed_ends_the_news(site: Site) -> None:
    record = RunWriter.create(site.folder / "now.htr", "c")
    said = ProgressFile(site.folder / "now.htr")
    said.say("busy")
    news = site.follow(record.part.name)
    assert next(news)[0] == "news"
    os.close(said._handle)                      # as the system does it for a process that died
    assert list(news) == [("ended", {"state": "killed", "page": None}, "")]
    record.close()


def test_followers_are_told_off_when_the_server_ends(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    server = Live(folder, 0, render, render_comparison)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    record = RunWriter.create(folder / "now.htr", "c")
    news = Site(server, folder).follow(record.part.name)
    next(news)
    server.end()
    thread.join(WAIT_S)
    assert not thread.is_alive() and list(news) == []
    server.server_close()
    record.close()


# --- in a browser

SHOTS = Path(".cache") / "screenshots"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("chromium is not installed")
    with Browser(found, tmp_path / "profile") as made:
        yield made


@pytest.mark.slow
def test_the_list_in_a_browser(site: Site, browser: Browser) -> None:
    a_run(site.folder / "a.htr", "handtorch <b>study</b>")
    a_run(site.folder / "b.htr")
    tab = browser.open(f"http://{LOOPBACK}:{site.server.port}/")
    tab.until("document.querySelectorAll('input[type=checkbox]').length == 2")
    assert tab.value("document.querySelector('a[href=\"/run/a.htr\"]').nextSibling.textContent"
                     ) == "handtorch <b>study</b>"
    assert tab.value("document.getElementById('compare').disabled") is True
    tab.value("document.querySelectorAll('input').forEach(box => box.click())")
    assert tab.value("document.getElementById('compare').disabled") is False
    a_run(site.folder / "c.htr")                # a new one appears; the choice stays
    tab.until("document.querySelectorAll('input').length == 3")
    assert tab.value("document.querySelectorAll('input:checked').length") == 2
    tab.shot(SHOTS / "live-list.png")
    tab.value("document.getElementById('compare').click()")
    tab.until("location.pathname == '/compare' && document.title == 'HandTorch: b and a'")
    assert tab.errors == []


@pytest.mark.slow
def test_a_running_study_in_a_browser(site: Site, browser: Browser) -> None:
    """Rows are written after the page was loaded: it shows them without being loaded again."""
    path = site.folder / "now.htr"
    (site.folder / "now.kept").mkdir()
    with ProgressFile(path) as said:
        record = RunWriter.create(path, "handtorch study s")
        said.say("beginning", 0.0, 60.0)
        tab = browser.open(f"http://{LOOPBACK}:{site.server.port}/live/{quote(record.part.name)}")
        tab.until("document.getElementById('text').textContent == 'beginning'")
        tab.value("window.sameAsBefore = true")
        record.add(figure(7, "<i>late</i>"),
                   Verdict(study="s", question="?", answer="It holds.", holds=True))
        record.flush()
        said.say("nearly there", 0.9, 5.0)
        tab.until("document.getElementById('results').rows.length == 1")
        tab.until("document.getElementById('bar').value == 0.9")
        text = tab.value("document.body.innerText")
        for words in ("<i>late</i>", "nearly there", "about 5 s left", "1 result, 1 verdict",
                      "s: yes", "It holds.", "row: now.kept"):
            assert words in text
        tab.shot(SHOTS / "live-run.png")
        record.close()
    tab.until("document.getElementById('sofar').getAttribute('href') == '/run/now.htr'")
    assert "complete" in tab.value("document.getElementById('state').textContent")
    assert tab.value("window.sameAsBefore") is True and tab.errors == []
