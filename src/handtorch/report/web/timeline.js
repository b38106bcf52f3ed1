// A timeline that can be zoomed: by buttons, by keys, by the wheel once it has the focus (or with
// Ctrl), by two fingers; moved by dragging it, or its overview. Gives the function that draws it.
function timeline(figure) {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const canvas = figure.querySelector("canvas");
  const state = {figure, data, canvas, from: 0, to: 1, hover: null, chosen: null, bands: [],
                 css: label => data.phases[data.labels[label][1]][1]};
  const rows = data.rows.map(row => ({...row, ...unpacked(row.spans, row.count)}));
  state.busy = union(rows.filter(row => row.kind === "work"));
  state.bands = [{kind: "overview", name: "all recorded"}, {kind: "axis", name: ""},
                 ...rows.map(row => ({kind: row.kind, name: row.name, row})),
                 {kind: "busy", name: "device busy"},
                 ...data.tracks.map(track => ({kind: "track", name: track.name, track}))];
  for (const {lines} of data.tracks) {
    for (const line of lines) {
      line.top = line.values.reduce((most, v) => v > most ? v : most, 0);
    }
  }
  const redraw = () => {
    if (!canvas.clientWidth) return;      // inside closed details: drawn when they are opened
    laidOut(state, canvas.clientWidth);
    drawAll(state);
  };
  let asked = false;
  const soon = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; redraw(); });
  };
  const show = (from, to) => {
    const least = 50, length = Math.min(Math.max(to - from, least), data.span);
    state.from = Math.min(Math.max(0, from), data.span - length);
    state.to = state.from + length;
    figure.dataset.from = state.from;
    figure.dataset.to = state.to;
    soon();
  };
  show(...data.window);
  const does = actions(state, show, soon);
  controls(figure, state, does);
  pointing(figure, state, does, show, soon);
  new ResizeObserver(soon).observe(canvas);
  return redraw;
}

function union(rows) {
  const spans = rows.flatMap(row => Array.from(row.start, (start, i) => [start, row.end[i]]));
  if (rows.length > 1) spans.sort((one, other) => one[0] - other[0]);
  const start = [], end = [];
  for (const [from, to] of spans) {
    if (end.length && from <= end[end.length - 1]) {
      end[end.length - 1] = Math.max(end[end.length - 1], to);
    } else { start.push(from); end.push(to); }
  }
  return {start: Float64Array.from(start), end: Float64Array.from(end), count: start.length};
}

function actions(state, show, soon) {
  const {data} = state;
  const readout = state.figure.querySelector(".readout");
  const zoom = (factor, at = (state.from + state.to) / 2) =>
    show(at - (at - state.from) * factor, at + (state.to - at) * factor);
  const move = share => {
    const by = share * (state.to - state.from);
    show(state.from + by, state.to + by);
  };
  const choose = spot => {
    state.chosen = spot;
    readout.textContent = spot ? said(state, spot).join("; ") : "";
    soon();
  };
  const next = way => {
    const works = state.bands.filter(band => band.kind === "work");
    const band = state.chosen?.band || works[0];
    const first = firstAfter(band.row, state.from);
    const index = state.chosen ? state.chosen.index + way : way > 0 ? first : first - 1;
    if (index < 0 || index >= band.row.count) return;
    const start = band.row.start[index], end = band.row.end[index], length = state.to - state.from;
    if (start < state.from || end > state.to) {
      show(start - length / 3, start + 2 * length / 3);
    }
    choose({band, index});
  };
  return {in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.25),
          right: () => move(0.25), steps: () => show(...data.window), all: () => show(0, data.span),
          before: () => next(-1), after: () => next(1), zoom, choose};
}

const KEYS = {"+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right",
              "0": "steps", Home: "steps", a: "all", End: "all", ",": "before", ".": "after"};

function controls(figure, state, does) {
  for (const button of figure.querySelectorAll("button[data-do]")) {
    button.addEventListener("click", () => does[button.dataset.do]());
  }
  figure.querySelector(".surface").addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") does.choose(null);
    const name = KEYS[event.key];
    if (!name) return;
    event.preventDefault();
    does[name]();
  });
}

// What is under the pointer: the block, or the nearest one within two pixels.
function spotAt(state, x, y) {
  const band = state.bands.find(b => b.row && y >= b.y && y < b.y + b.h);
  if (!band || x < state.gutter) return null;
  const {row} = band, per = (state.to - state.from) / state.plot, time = toTime(state, x);
  let best = -1, least = 2 * per;
  for (let i = firstAfter(row, time - 2 * per); i < row.count && row.start[i] < time + 2 * per;
       i++) {
    const away = Math.max(0, row.start[i] - time, time - row.end[i]);
    if (away < least || (away === least && best >= 0
                         && row.end[i] - row.start[i] > row.end[best] - row.start[best])) {
      [best, least] = [i, away];
    }
  }
  return best < 0 ? null : {band, index: best};
}

function said(state, {band, index}) {
  const {row} = band, ns = row.end[index] - row.start[index];
  const [name, phase, op, layer, line, flops, bytes, bounded] = state.data.labels[row.label[index]];
  const rates = [flops ? `${+(flops / ns).toPrecision(3)} GFLOP/s` : "",
                 bytes ? `${+(bytes / ns).toPrecision(3)} GB/s` : ""].filter(Boolean);
  const what = [band.kind === "idle" ? "" : state.data.phases[phase][0], op,
                layer && `layer ${layer}`].filter(Boolean);
  const steps = state.bands.find(b => b.kind === "step")?.row;
  const at = steps ? firstAfter(steps, row.start[index]) : -1;
  const inStep = steps && at < steps.count && band.kind !== "step"
    ? `${(100 * ns / (steps.end[at] - steps.start[at])).toFixed(1)} % of `
      + state.data.labels[steps.label[at]][0] : "";
  return [`${band.kind === "idle" ? "Idle: " : ""}${name}, ${spelled(ns)}`, what.join(", "),
          inStep, rates.join(", "), line, bounded ? "its time is bounded, not stamped" : ""]
    .filter(Boolean);
}

function levels(state, time) {
  const found = [];
  for (const {name, unit, lines} of state.data.tracks) {
    const values = lines.map(line => {
      const at = after(line.times, time) - 1, value = at < 0 ? null : line.values[at];
      return value === null ? "" : `${line.name} ${+value.toPrecision(3)} ${unit}`
        + (line.provenance === "measured" ? "" : ` (${line.provenance})`);
    }).filter(Boolean);
    if (values.length) found.push(`${name}: ${values.join(", ")}`);
  }
  return found;
}

function pointing(figure, state, does, show, soon) {
  const {canvas} = state, fingers = new Map();
  let grip = null;
  const spot = event => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const overview = y => y < state.bands[0].y + state.bands[0].h;
  canvas.addEventListener("pointerdown", event => {
    const [x, y] = spot(event);
    fingers.set(event.pointerId, x);
    grip = {x, from: state.from, to: state.to, moved: false, overview: overview(y)};
    if (grip.overview) centre(state, x, show);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    const [x, y] = spot(event);
    if (fingers.size === 2 && fingers.has(event.pointerId)) {
      const [a, b] = fingers.values(), apart = Math.abs(a - b);
      fingers.set(event.pointerId, x);
      const [c, d] = fingers.values();
      if (apart > 8 && Math.abs(c - d) > 8) {
        does.zoom(apart / Math.abs(c - d), toTime(state, (c + d) / 2));
      }
      grip = null;
    } else if (grip?.overview) {
      centre(state, x, show);
    } else if (grip) {
      const by = (grip.x - x) * (grip.to - grip.from) / state.plot;
      grip.moved ||= Math.abs(grip.x - x) > 3;
      if (grip.moved) show(grip.from + by, grip.to + by);
    }
    state.hover = x >= state.gutter && !overview(y) ? {x, spot: spotAt(state, x, y)} : null;
    if (state.hover && !grip?.moved) {
      const time = toTime(state, x), lines = state.hover.spot ? said(state, state.hover.spot) : [];
      showTip([...lines, `at ${spelled(time)}`, ...levels(state, time)], event.clientX,
              event.clientY);
    } else hideTip();
    soon();
  });
  const up = event => {
    if (grip && !grip.moved && !grip.overview && event.type === "pointerup") {
      does.choose(spotAt(state, ...spot(event)));
      figure.querySelector(".surface").focus({preventScroll: true});
    }
    fingers.delete(event.pointerId);
    grip = null;
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => { state.hover = null; hideTip(); soon(); });
  canvas.addEventListener("dblclick", event => {
    const found = spotAt(state, ...spot(event));
    if (!found) return;
    const start = found.band.row.start[found.index], ns = found.band.row.end[found.index] - start;
    show(start - ns / 2, start + 1.5 * ns);
  });
  canvas.addEventListener("wheel", event => {
    if (!event.ctrlKey && document.activeElement !== figure.querySelector(".surface")) return;
    event.preventDefault();
    const [x] = spot(event);
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = event.deltaX * (state.to - state.from) / state.plot;
      show(state.from + by, state.to + by);
    } else does.zoom(1.0018 ** event.deltaY, toTime(state, Math.max(x, state.gutter)));
  }, {passive: false});
}

function centre(state, x, show) {
  const at = (x - state.gutter) / state.plot * state.data.span;
  const half = (state.to - state.from) / 2;
  show(at - half, at + half);
}
