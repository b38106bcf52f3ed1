"""The page's one style sheet. Colours are variables, so that light and dark differ in one place."""

from __future__ import annotations

_LIGHT = (
    "--bg:#fcfcfb;--panel:#fff;--ink:#1b1c1e;--soft:#5c6066;--line:#e3e3e0;"
    "--grid:#ececea;--warn:#fff4d6;--warnline:#d99a00;--good:#0b7a3b;--bad:#c02f2f;"
    "--c0:#2a6fd6;--c1:#d9541e;--c2:#12936b;--c3:#b8860b;--c4:#c2408a;--c5:#6a4bc4;"
    "--c6:#0e93b5;--c7:#8a5a2b;--c8:#5b8c1f;--c9:#d63b4a;--g0:#1b1c1e;--g1:#656a71;"
    "--g2:#8d929a")
_DARK = (
    "--bg:#16181b;--panel:#1d2024;--ink:#e9eaec;--soft:#a2a7ae;--line:#33373d;"
    "--grid:#2a2e33;--warn:#3a300f;--warnline:#d9a520;--good:#4fc27f;--bad:#ff7b76;"
    "--c0:#6aa5f8;--c1:#ff8a55;--c2:#3fc598;--c3:#e2b53a;--c4:#f082bd;--c5:#a891f5;"
    "--c6:#4cc4e2;--c7:#cf9b66;--c8:#9acb52;--c9:#ff7480;--g0:#f2f3f5;--g1:#a5aab1;"
    "--g2:#767c84")
# What the system prefers, unless the page's own switch says otherwise.
_COLOURS = (f":root{{{_LIGHT}}}\n@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}\n"
            f':root[data-theme="dark"]{{{_DARK}}}\n:root[data-theme="light"]{{{_LIGHT}}}\n')

_RULES = """
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
.top,nav,main{max-width:1120px;margin:0 auto;padding:0 20px}
.top{padding-top:20px}main{padding-bottom:60px}main:focus{outline:none}
:root{color-scheme:light dark}:root[data-theme="dark"]{color-scheme:dark}
:root[data-theme="light"]{color-scheme:light}
.bar-top{display:flex;justify-content:space-between;align-items:center}
.skip{position:absolute;left:-9999px}.skip:focus{left:12px;top:8px;padding:6px 12px;z-index:9;
background:var(--panel);color:var(--ink);border:2px solid var(--c0)}
button{font:inherit;font-size:14px;padding:4px 12px;min-height:32px;color:var(--ink);
background:var(--panel);border:1px solid var(--soft);border-radius:6px;cursor:pointer}
button:hover{border-color:var(--ink)}
button:focus-visible,.surface:focus-visible,summary:focus-visible,a:focus-visible,
input:focus-visible{outline:3px solid var(--c0);outline-offset:2px}
nav ul{display:flex;flex-wrap:wrap;gap:6px 8px;list-style:none;margin:14px 0 0;padding:0}
nav a{display:block;padding:3px 12px;border:1px solid var(--line);border-radius:99px;
font-size:14px;color:var(--ink);text-decoration:none;background:var(--panel);
overflow-wrap:anywhere}
nav a:hover{border-color:var(--soft)}
section{scroll-margin-top:8px}
@media (min-width:1340px){body{display:grid;grid-template-columns:210px minmax(0,1120px);
justify-content:center;column-gap:8px}.top{grid-column:2;width:100%}
nav{grid-column:1;grid-row:2;width:100%;padding:0 0 0 16px}
nav ul{position:sticky;top:20px;flex-direction:column;max-height:calc(100vh - 40px);
overflow-y:auto;margin-top:44px;gap:2px}
nav a{border-color:transparent;background:none;border-radius:6px}main{grid-column:2;width:100%}}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;
list-style:none;margin:0 0 16px;padding:0}
.tiles li{display:flex;flex-direction:column;align-items:flex-start;gap:2px;padding:14px 16px;
background:var(--panel);border:1px solid var(--line);border-radius:8px}
.tiles b{font-size:26px;line-height:1.2;font-weight:650;font-variant-numeric:tabular-nums}
.tiles span{font-size:14px;color:var(--soft);overflow-wrap:anywhere}
.tiles .badge{margin-top:auto;font-size:12px}
.said{font-size:17px;max-width:80ch}
.taught{font-size:17px;max-width:80ch;padding-left:20px}.taught li{margin:6px 0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,470px),1fr));
gap:0 20px;align-items:start}
.card{min-width:0}
.tip{position:fixed;z-index:10;max-width:min(380px,calc(100vw - 16px));padding:8px 11px;
background:var(--ink);color:var(--bg);border-radius:6px;font-size:13px;line-height:1.4;
pointer-events:none;overflow-wrap:anywhere;box-shadow:0 3px 12px rgb(0 0 0/.25)}
.tip[hidden]{display:none}
figure{margin:0}
.tools{display:flex;flex-wrap:wrap;gap:6px;margin:2px 0 12px}
.surface{border-radius:4px}.surface canvas{display:block;width:100%;touch-action:pan-y;
cursor:crosshair}
.readout{min-height:1.5em;font-size:14px;margin:6px 0}
.hint{font-size:13px;color:var(--soft);margin:8px 0 0;max-width:none}
.area{fill:var(--s);stroke:var(--panel);stroke-width:.6}
.peak{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:4 3;fill:none}
.dot.ink{fill:var(--ink)}
.sense{fill:transparent}.sense:hover{fill:var(--ink);fill-opacity:.12}
.roof{fill:none;stroke:var(--ink);stroke-width:2}
.disc{fill-opacity:.75}
.dot.near{stroke:var(--ink);stroke-width:2.4}
.duels{display:grid;gap:5px;font-size:14px}
.duel{display:grid;grid-template-columns:minmax(90px,330px) 1fr 1fr;align-items:center}
.duel .what{text-align:right;padding-right:12px;overflow-wrap:anywhere;line-height:1.25}
.duel .half{display:flex;align-items:center;gap:6px;height:20px;min-width:0;
border-left:1px solid var(--soft);padding:0 2px 0 0}
.duel .half.here,.duel.head .half:nth-child(2){justify-content:flex-end;border:0}
.duel i{display:block;height:14px;background:var(--s);min-width:2px;flex:0 1 auto}
.duel b{font-weight:400;font-size:13px;flex:none}
.duel.head{color:var(--soft)}.duel.head .half{padding:0 6px}
h1{font:600 24px/1.3 ui-monospace,"SF Mono",Menlo,Consolas,"Liberation Mono",monospace;
margin:2px 0 10px;
overflow-wrap:anywhere}
h2{font-size:21px;line-height:1.3;margin:44px 0 12px;padding-top:14px;
border-top:1px solid var(--line)}
h3{font-size:17px;margin:30px 0 8px;overflow-wrap:anywhere}
p{margin:8px 0;max-width:75ch;overflow-wrap:anywhere}
.brand{margin:0;color:var(--soft);font-weight:600;letter-spacing:.02em}
.facts{display:flex;flex-wrap:wrap;gap:4px 16px;align-items:center;color:var(--soft)}
.none,.unknown{color:var(--soft);font-style:italic}
.badge{display:inline-block;padding:1px 9px;border:1px solid var(--line);border-radius:99px;
font-size:13px;line-height:1.5;white-space:nowrap;color:var(--ink)}
.badge.measured{border-color:var(--soft)}
.badge.estimated,.badge.simulated{border-style:dotted;border-width:2px;border-color:var(--soft)}
.badge.published{border-style:dashed;border-color:var(--soft)}
.badge.complete,.badge.test-passed{border-color:var(--good);color:var(--good)}
.badge.failed,.badge.interrupted,.badge.test-failed{border-color:var(--bad);color:var(--bad)}
.callout{margin:12px 0;padding:10px 14px;border-left:4px solid var(--line);background:var(--panel);
max-width:none;overflow-wrap:anywhere}
.callout.warn{background:var(--warn);border-color:var(--warnline)}
.callout p{margin:0}.callout ul{margin:4px 0 0;padding-left:20px}
.verdicts{list-style:none;margin:0;padding:0;display:grid;gap:10px}
.verdicts li{display:grid;gap:2px;padding:12px 16px;background:var(--panel);
border:1px solid var(--line);border-left:4px solid var(--soft);border-radius:6px;
overflow-wrap:anywhere}
.verdicts .yes{border-left-color:var(--good)}.verdicts .no{border-left-color:var(--bad)}
.study,.question,.reason{font-size:14px;color:var(--soft)}.study{font-weight:600}
.yes .study{color:var(--good)}.no .study{color:var(--bad)}
.chart{margin:12px 0 18px;padding:14px 14px 10px;background:var(--panel);
border:1px solid var(--line);border-radius:8px}
.chart svg{display:block;width:100%;height:auto}
.chart svg.slim{display:none;max-width:560px;margin:0 auto}
.chart{container-type:inline-size}
.choice~.linear,.chart:has(.to-linear:checked) .log{display:none}
.chart:has(.to-linear:checked) .linear{display:block}
.choice{float:right;border:0;margin:-2px 0 0;padding:0;font-size:13px;color:var(--soft);
display:flex;gap:12px}
.choice legend{position:absolute;left:-9999px}.choice label{display:flex;gap:4px;align-items:center}
.choice input{margin:0;accent-color:var(--ink)}
.ylabel{margin:0 0 6px;font-size:14px;font-weight:600}.ylabel span{font-weight:400;
color:var(--soft)}
svg text{font-size:13px;fill:var(--ink)}svg .tick{fill:var(--soft)}
.published text{font-style:italic}
.slim text{font-size:12px}
.end{text-anchor:end}.mid{text-anchor:middle}
.grid{stroke:var(--grid);fill:none}.axis{stroke:var(--soft);fill:none}
.modelled{--s:var(--soft)}
.c0{--s:var(--c0)}.c1{--s:var(--c1)}.c2{--s:var(--c2)}.c3{--s:var(--c3)}.c4{--s:var(--c4)}
.c5{--s:var(--c5)}.c6{--s:var(--c6)}.c7{--s:var(--c7)}.c8{--s:var(--c8)}.c9{--s:var(--c9)}
.soft{--s:var(--soft)}.g0{--s:var(--g0)}.g1{--s:var(--g1)}.g2{--s:var(--g2)}.published{--s:var(--soft)}
.line{fill:none;stroke:var(--s);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.g0 .line,.g1 .line,.g2 .line{stroke-width:2.6}
.dot{fill:var(--s);stroke:var(--panel);stroke-width:1}
.lead{fill:none;stroke:var(--s);stroke-width:1;opacity:.45}
.band{fill:var(--s);opacity:.14}
.modelled .line{stroke-dasharray:.1 5}
.published .line{stroke-width:1.5;stroke-dasharray:6 5}
.published .dot{fill:var(--panel);stroke:var(--s);stroke-width:1.6}
.published .lead{stroke-dasharray:3 3}
.s .dot:hover{stroke:var(--ink);stroke-width:2}
svg:has(.s:hover) .s:not(:hover){opacity:.15}
.s:hover .line{stroke-width:3.4}
.legend{display:none;flex-wrap:wrap;gap:4px 14px;list-style:none;margin:8px 0 0;padding:0;
font-size:13px}
.legend.always,.legend.key{display:flex}
.legend li{display:flex;align-items:center;gap:6px;overflow-wrap:anywhere}
.legend small{color:var(--soft);font-size:12px}.legend svg{width:26px;height:12px;flex:none}
.legend i{width:12px;height:12px;border-radius:3px;background:var(--s);flex:none}
.bars{display:grid;gap:6px}
.bar{display:grid;grid-template-columns:minmax(90px,200px) 1fr 110px;gap:10px;align-items:center;
font-size:14px}
.bar .what{text-align:right;overflow-wrap:anywhere}.bar .value{font-variant-numeric:tabular-nums}
.track{height:18px;position:relative}
.whisker{position:absolute;top:4px;height:10px;min-width:2px;border:solid var(--ink);
border-width:0 1.5px;background:linear-gradient(var(--ink),var(--ink)) center/100% 1.5px no-repeat}
.track i{display:block;height:100%;min-width:2px;background:var(--s);
border-radius:0 3px 3px 0}
.bar .published{background:none;border:1.5px dashed var(--soft)}
.bar .estimated,.bar .simulated,.stack .estimated,.stack .simulated{background:
repeating-linear-gradient(135deg,var(--s) 0 6px,
color-mix(in srgb,var(--s) 60%,var(--panel)) 6px 9px)}
.stack{display:flex;height:28px;gap:1px}.stack i{min-width:1px;background:var(--s)}
.scroll{overflow-x:auto;margin:4px 0 14px}
.scroll:focus-visible{outline:2px solid var(--c0)}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums;
min-width:min(100%,420px)}
.caption{color:var(--soft);font-size:14px;margin:16px 0 0}
th,td{padding:5px 10px;text-align:right;vertical-align:top;border-bottom:1px solid var(--line);
white-space:nowrap}
thead th{font-weight:600;color:var(--soft);border-bottom-color:var(--soft);vertical-align:bottom}
th:first-child{text-align:left}
tbody th{font-weight:400}
td.text,th.left{text-align:left}td.long{white-space:normal;min-width:30ch}
td small{display:block;color:var(--soft);font-size:12px;line-height:1.2}
.matrix th,.matrix td{padding:4px 5px}.matrix .badge{padding:0 6px;font-size:12px}
.matrix th:first-child{position:sticky;left:0;background:var(--bg)}
sup{line-height:0}.best{font-weight:700}td small{font-weight:400}
details{margin:10px 0}summary{cursor:pointer;color:var(--soft);font-size:14px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:6px 14px;margin:8px 0}dd{margin:0}
@container (max-width:680px){.chart svg.wide{display:none}.chart svg.slim{display:block}
.legend{display:flex}.bar{grid-template-columns:minmax(70px,110px) 1fr 84px;gap:7px;font-size:13px}}
@media (max-width:860px){.top,nav,main{padding-left:12px;padding-right:12px}h1{font-size:19px}
.chart{padding:10px 8px 8px}.tiles{grid-template-columns:repeat(auto-fit,minmax(130px,1fr))}
.tiles b{font-size:22px}.said,.taught{font-size:16px}
.duel{grid-template-columns:1fr 1fr}.duel .what{grid-column:1/-1;text-align:left;padding:4px 0 0}
.duel.head .what{display:none}.duel.head .half:nth-child(2){justify-content:flex-end}}
"""

CSS = _COLOURS + _RULES
