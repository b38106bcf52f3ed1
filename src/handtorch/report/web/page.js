// Light and dark, and what a figure says of the spot under the pointer. Without a script the page
// still has every figure but the timeline, and every table.
const root = document.documentElement;
const redrawn = [];                       // called when the colours change

function kept(value) {                    // a page opened as a file may not be allowed to keep it
  try {
    if (value === undefined) return localStorage.getItem("handtorch-theme");
    localStorage.setItem("handtorch-theme", value);
  } catch { /* then it is chosen anew next time */ }
  return null;
}

function themeSwitch() {
  const button = document.querySelector("button.theme");
  if (!button) return;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Show the page in ${isDark() ? "light" : "dark"} colours`);
    for (const draw of redrawn) draw();
  };
  const before = kept();
  if (before === "dark" || before === "light") root.dataset.theme = before;
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    kept(root.dataset.theme);
    show();
  });
  dark.addEventListener("change", show);
  show();
}

const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true");  // what it says is in the tables and in the readouts

function showTip(lines, x, y) {
  tip.replaceChildren(...lines.filter(Boolean).map((line, i) => {
    const made = document.createElement(i ? "div" : "b");
    made.textContent = line;
    return made;
  }));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
  const top = y + 16 + box.height > innerHeight ? y - 12 - box.height : y + 16;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

function hideTip() { tip.hidden = true; }

// The browser's own way of showing a title is slow and small: take it over where it is first met.
function told(element) {
  const inner = element.querySelector(":scope > title");
  const text = inner ? inner.textContent : element.getAttribute("title");
  if (text) {
    element.dataset.tip = text;
    if (inner) inner.remove(); else element.removeAttribute("title");
  }
  return element.dataset.tip || "";
}

// The marker nearest to the pointer, within 28 px, in a chart that has markers.
function nearest(svg, x, y) {
  svg.spots ||= [...svg.querySelectorAll(".s .dot")].filter(told);
  let best = null, least = 28 * 28;
  for (const spot of svg.spots) {
    const box = spot.getBoundingClientRect();
    const dx = box.x + box.width / 2 - x, dy = box.y + box.height / 2 - y;
    if (dx * dx + dy * dy < least) [best, least] = [spot, dx * dx + dy * dy];
  }
  return best;
}

function hovering() {
  let near = null;
  const mark = spot => {
    if (near === spot) return;
    near?.classList.remove("near");
    near = spot;
    near?.classList.add("near");
  };
  document.addEventListener("pointermove", event => {
    const target = event.target instanceof Element ? event.target : null;
    if (!target || target.closest(".zoomed")) { mark(null); return; }
    const svg = target.closest(".chart svg[role=img]");
    const spot = svg && nearest(svg, event.clientX, event.clientY);
    mark(spot || null);
    let found = spot;
    for (let e = target; !found && e && e !== document.body; e = e.parentElement) {
      if (!e.matches("svg, g, main, section") && told(e)) found = e;
    }
    if (!found) { hideTip(); return; }
    const text = found.dataset.tip, at = text.indexOf(", ");
    const two = text.includes("\n") ? text.split("\n")
      : at > 0 ? [text.slice(0, at), text.slice(at + 2)] : [text];
    showTip(two, event.clientX, event.clientY);
  });
  document.addEventListener("pointerleave", hideTip);
  addEventListener("scroll", hideTip, {passive: true});
  addEventListener("keydown", event => { if (event.key === "Escape") hideTip(); });
}

function start() {
  document.body.append(tip);
  hovering();
  for (const figure of document.querySelectorAll(".zoomed")) redrawn.push(timeline(figure));
  themeSwitch();                          // draws all of them
  root.classList.add("ready");
  performance.mark("handtorch-ready");
}

document.addEventListener("DOMContentLoaded", start);
