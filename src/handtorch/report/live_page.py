"""The own pages of `handtorch report --serve`: the list of runs, one run while it is written, and
a refusal.

Text of runs and files comes as JSON and is set as text, never as markup."""

from __future__ import annotations

import json

from handtorch.report.spell import esc
from handtorch.report.style import CSS

# There are no links to sections here, so the page is in the middle at every width. At a phone's
# width a row's small columns stand below its first text instead: a table stays one, and whole.
_MORE_CSS = """
body{display:block}main{padding-top:20px}
a{color:var(--c0)}a:not([href]){color:inherit}
a:focus-visible,button:focus-visible,input:focus-visible{outline:2px solid
var(--c0);outline-offset:2px}
button{font:inherit;padding:6px 16px;border:1px solid var(--soft);border-radius:6px;
background:var(--panel);color:var(--ink);cursor:pointer}button:disabled{color:var(--soft);
border-color:var(--line);cursor:default}
progress{width:100%;height:18px;accent-color:var(--c0)}
table{width:100%}td{white-space:normal;overflow-wrap:anywhere}
td.exact{white-space:nowrap;overflow-wrap:normal}.also{display:none}
.runs td:nth-child(2){text-align:left;min-width:22ch}
.runs td:first-child{text-align:left}
.runs input{width:20px;height:20px;margin:1px 0 0;accent-color:var(--c0)}
.badge.running{border-color:var(--c0);color:var(--c0)}
.badge.killed,.badge.unreadable{border-color:var(--bad);color:var(--bad)}
.actions{display:flex;flex-wrap:wrap;gap:12px;align-items:center;margin:14px 0}
.none{margin:0}ul:not(:empty)+.none,.scroll:has(tbody tr)+.none{display:none}
.refusal{white-space:pre-line}
@media (max-width:700px){.wide{display:none}.also{display:block;margin-top:2px}
th,td{padding:7px 6px}.runs td:nth-child(2){min-width:0}}
"""
# The reader's choice on the page of a run holds here too.
_THEME_JS = """
try {
  const theme = localStorage.getItem("handtorch-theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch (e) { /* no storage: as the system has it */ }
const counted = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
"""
_LIST_JS = """
const rows = document.getElementById("rows"), said = document.getElementById("said");
const form = document.getElementById("choice"), button = document.getElementById("compare");
const cell = (row, text, kind = "") => {
  const made = document.createElement("td");
  made.textContent = text; made.className = kind; row.append(made); return made;
};
const spoken = ns => ns === null ? "\\u2013" : ns >= 12e10 ? `${Math.round(ns / 6e10)} min`
  : `${(ns / 1e9).toPrecision(3)} s`;
const chosen = () => [...form.querySelectorAll("input:checked")].map(box => box.value);
const count = () => { button.disabled = chosen().length < 2; };
function draw(runs) {
  const before = new Set(chosen()), focused = document.activeElement?.value;
  rows.replaceChildren(...runs.map(run => {
    const row = document.createElement("tr");
    const box = document.createElement("input");
    Object.assign(box, {type: "checkbox", name: "run", value: run.name, checked:
      before.has(run.name), disabled: run.state === "unreadable"});
    box.setAttribute("aria-label", `choose ${run.title}`);
    cell(row, "").append(box);
    const link = document.createElement("a");
    link.textContent = run.title;
    const way = run.state === "running" ? "/live/" : "/run/";
    if (run.state !== "unreadable") link.href = way + encodeURIComponent(run.name);
    const what = cell(row, "");
    what.append(link);
    const small = document.createElement("small");
    small.textContent = run.state === "running" && run.progress ? run.progress.text
      : run.why || run.command;
    const started = run.started_utc.slice(0, 19).replace("T", " ") || "\\u2013";
    const also = document.createElement("small");
    also.className = "also";
    also.textContent = [started, spoken(run.duration_ns),
      run.state === "unreadable" ? "\\u2013" : counted(run.results, "result")]
      .filter(text => text !== "\\u2013").map(text => text.replaceAll(" ", "\\u00a0")).join(", ");
    what.append(small, also);
    const badge = document.createElement("span");
    badge.className = `badge ${run.state}`; badge.textContent = run.state;
    cell(row, "", "exact").append(badge);
    cell(row, started, "exact wide"); cell(row, spoken(run.duration_ns), "exact wide");
    cell(row, run.results.toLocaleString("en"), "exact wide");
    if (focused === run.name) setTimeout(() => box.focus());
    return row;
  }));
  said.textContent = runs.length ? counted(runs.length, "run") : "There is no run here yet.";
  count();
}
let shown = "";
async function look() {
  try {
    const told = await (await fetch("/api/runs")).text();
    if (told !== shown) draw(JSON.parse(shown = told).runs);
    document.body.classList.remove("gone");
  } catch (e) { said.textContent = "The server has ended."; }
}
form.addEventListener("change", count);
look(); setInterval(look, 2000);
"""
_LIVE_JS = """
const at = id => document.getElementById(id), name = at("live").dataset.name;
const MOST = 200, news = new EventSource(`/events/${encodeURIComponent(name)}`);
let left = null, heard = 0;
const item = (list, text) => {
  const made = document.createElement("li"); made.textContent = text; list.append(made);
};
const spoken = s => s < 90 ? `${Math.max(5, 5 * Math.round(s / 5))} s`
  : `${Math.round(s / 60)} min`;
function tick() {
  if (left === null) return;
  const now = Math.max(0, left - (performance.now() - heard) / 1000);
  at("left").textContent = `about ${spoken(now)} left`;
}
setInterval(tick, 1000);
const number = v => v === null ? "\\u2013" : Number(v.toPrecision(4)).toLocaleString("en");
news.addEventListener("news", event => {
  const told = JSON.parse(event.data), said = told.progress;
  at("state").textContent = told.state; at("state").className = `badge ${told.state}`;
  if (said) {
    at("text").textContent = said.text;
    if (said.share !== null) at("bar").value = said.share; else at("bar").removeAttribute("value");
    left = said.left_s === null ? null : Math.max(0, said.left_s - said.age_s);
    heard = performance.now(); tick();
  }
  at("counts").textContent = 
    `${counted(told.result_count, "result")}, ${counted(told.verdict_count, "verdict")}`;
  for (const r of told.results) {
    const row = document.createElement("tr");
    const x = r.x_name ? `${r.x_name} ${number(r.x_value)}` : "";
    const value = r.value === null ? r.value_reason : `${number(r.value)} ${r.unit}`;
    const put = (text, kind) => {
      const cell = document.createElement("td"); cell.textContent = text;
      cell.className = `text ${kind}`; row.append(cell); return cell;
    };
    put(r.study, "exact wide");
    const small = document.createElement("small");
    small.className = "also";
    small.textContent = [r.study, r.subject, x, r.provenance].filter(text => text).join(", ");
    put(r.name, "").append(small);
    put(r.subject, "wide"); put(x, "exact wide");
    put(value, r.value === null ? "" : "exact"); put(r.provenance, "exact wide");
    at("results").prepend(row);
  }
  while (at("results").rows.length > MOST) at("results").lastElementChild.remove();
  for (const v of told.verdicts) {
    const made = document.createElement("li"), study = document.createElement("span");
    const holds = v.holds === null ? "open" : v.holds ? "yes" : "no";
    study.textContent = `${v.study}: ${holds}`; study.className = "study"; made.className = holds;
    made.append(study, document.createTextNode(v.answer)); at("verdicts").append(made);
  }
  if (told.kept.length) {
    at("kept").replaceChildren(); at("keptpart").hidden = false;
    for (const [key, text] of told.kept) item(at("kept"), text ? `${key}: ${text}` : key);
  }
});
news.addEventListener("ended", event => {
  news.close(); left = null; at("left").textContent = "";
  const told = JSON.parse(event.data);
  at("state").textContent = told.state; at("state").className = `badge ${told.state}`;
  at("text").textContent = told.page ? "It has ended." :
    "Its process is gone, and did not finish it.";
  if (told.page) { at("bar").value = 1; at("sofar").textContent = "the whole page";
    at("sofar").href = told.page; }
});
news.onerror = () => { if (news.readyState !== EventSource.CLOSED)
  at("left").textContent = "the server does not answer"; };
"""


def list_page(folder: str, nonce: str) -> str:
    """The runs, with boxes to choose those to compare."""
    return _page("HandTorch: runs", nonce, _LIST_JS, f"""
<header><p class="brand">HandTorch</p><h1>Runs in {esc(folder)}</h1></header>
<form id="choice" action="/compare" method="get">
<div class="actions"><button id="compare" disabled>Compare the chosen</button>
<span id="said" role="status">Looking</span></div>
<div class="scroll" tabindex="0" role="region" aria-label="runs"><table class="runs">
<thead><tr><th>choose</th><th class="left">run</th><th>state</th><th class="wide">started, UTC</th>
<th class="wide">took</th><th class="wide">results</th></tr></thead>
<tbody id="rows"></tbody></table></div></form>
<noscript><p>This list needs JavaScript; `handtorch report RUN` does not.</p>
</noscript>""")


def live_page(name: str, title: str, nonce: str) -> str:
    """One run, followed until it ends."""
    so_far = f"/run/{json.dumps(name)[1:-1]}"
    return _page(f"HandTorch: {title}", nonce, _LIVE_JS, f"""
<header id="live" data-name="{esc(name)}"><p class="brand">HandTorch: <a href="/">all runs</a></p>
<h1>{esc(title)}</h1><p class="facts"><span id="state" class="badge running">running</span>
<span id="counts"></span> <a id="sofar" href="{esc(so_far)}">the page so far</a></p></header>
<section aria-live="polite"><p id="text">Waiting for news.</p>
<progress id="bar" max="1" aria-label="how far the run is"></progress><p id="left"></p></section>
<section><h2>Verdicts</h2><ul id="verdicts" class="verdicts"></ul>
<p class="none">None yet.</p></section>
<section id="keptpart" hidden><h2>Kept by long studies so far</h2><ul id="kept"></ul></section>
<section><h2>Latest results</h2><div class="scroll" tabindex="0" role="region"
aria-label="latest results"><table><thead><tr>
<th class="left wide">study</th><th class="left">figure</th><th class="left wide">of</th>
<th class="left wide">at</th><th class="left">value</th><th class="left wide">how</th>
</tr></thead><tbody id="results"></tbody></table></div><p class="none">None yet.</p></section>""")


def refusal_page(text: str) -> str:
    """Why there is no page, and the way back; it has no script."""
    return _document("HandTorch", "", f"""<header><p class="brand">HandTorch:
<a href="/">all runs</a></p></header><h1>Not here</h1><p class="refusal">{esc(text)}</p>""")


def _page(title: str, nonce: str, script: str, body: str) -> str:
    return _document(title, f'<script nonce="{nonce}">{_THEME_JS}{script}</script>', body)


def _document(title: str, script: str, body: str) -> str:
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>{esc(title)}</title><style>{CSS}{_MORE_CSS}</style></head>"
            f"<body><main>{body}</main>{script}</body></html>\n")
