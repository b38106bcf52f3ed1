// Draws a timeline on its canvas: bands from top to bottom, the times in view from left to right.
const HEIGHTS = {overview: 34, axis: 24, step: 20, work: 34, host: 16, idle: 14, busy: 54,
                 track: 60};

function colours(element) {
  const style = getComputedStyle(element);
  const found = {};
  for (const name of ["ink", "soft", "line", "grid", "panel", "bg"]) {
    found[name] = style.getPropertyValue(`--${name}`).trim();
  }
  return css => found[css] ||= style.getPropertyValue(`--${css}`).trim();
}

function spelled(ns, step = 0) {
  for (const [scale, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]) {
    if (Math.abs(ns) >= scale || scale === 1) {
      const digits = step ? Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9))
        : Math.max(0, 2 - Math.floor(Math.log10(Math.max(Math.abs(ns) / scale, 1))));
      return `${(ns / scale).toFixed(Math.min(digits, 6))} ${unit}`;
    }
  }
}

// Each band gets its place; a narrow page has the names above the bands and not beside them.
function laidOut(state, width) {
  const narrow = width < 640;
  state.gutter = narrow ? 0 : 112;
  state.width = width;
  state.plot = Math.max(1, width - state.gutter - 8);
  let y = 0;
  for (const band of state.bands) {
    band.labelled = narrow && band.name;
    y += band.labelled ? 16 : 0;
    band.y = y;
    band.h = HEIGHTS[band.kind];
    y += band.h + 5;
  }
  state.height = y + 2;
}

const toX = (state, time) =>
  state.gutter + (time - state.from) * state.plot / (state.to - state.from);
const toTime = (state, x) =>
  state.from + (x - state.gutter) * (state.to - state.from) / state.plot;

function drawAll(state) {
  const {canvas} = state, ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(state.width * ratio)
      || canvas.height !== Math.round(state.height * ratio)) {
    canvas.width = Math.round(state.width * ratio);
    canvas.height = Math.round(state.height * ratio);
    canvas.style.height = `${state.height}px`;
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, state.width, state.height);
  g.font = '12px system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
  g.textBaseline = "middle";
  const colour = colours(state.figure);
  const ticks = drawAxis(g, state, colour);
  for (const band of state.bands) {
    drawName(g, state, band, colour);
    g.save();
    g.beginPath();
    g.rect(state.gutter, band.y - 1, state.plot + 1, band.h + 2);
    if (band.kind !== "axis") g.clip();
    DRAW[band.kind](g, state, band, colour, ticks);
    g.restore();
  }
  drawCursor(g, state, colour);
}

function drawName(g, state, band, colour) {
  if (!band.name) return;
  g.fillStyle = colour("soft");
  g.textAlign = "left";
  if (band.labelled) g.fillText(band.name, 0, band.y - 8);
  else g.fillText(fitted(g, band.name, state.gutter - 10), 0, band.y + band.h / 2 + 1);
}

function fitted(g, text, room) {
  if (g.measureText(text).width <= room) return text;
  while (text && g.measureText(`${text}…`).width > room) text = text.slice(0, -1);
  return `${text}…`;
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map(m => m * power).find(step => step >= rough);
}

function drawAxis(g, state, colour) {
  const band = state.bands.find(b => b.kind === "axis");
  const step = niceStep((state.to - state.from) / Math.max(2, Math.floor(state.plot / 110)));
  const ticks = [];
  for (let t = Math.ceil(state.from / step) * step; t <= state.to; t += step) ticks.push(t);
  g.fillStyle = colour("soft");
  g.textAlign = "center";
  for (const t of ticks) {
    const x = toX(state, t);
    g.fillStyle = colour("grid");
    g.fillRect(Math.round(x), band.y + band.h, 1, state.height);
    const text = spelled(t, step), half = g.measureText(text).width / 2;
    g.fillStyle = colour("soft");
    g.fillText(text, Math.min(Math.max(x, half), state.width - half), band.y + band.h / 2);
  }
  return ticks;
}

// Blocks; those of less than two pixels are put together, a column in the colour of most of them.
function drawSpans(g, state, band, colour) {
  const {row} = band, scale = state.plot / (state.to - state.from), {gutter, plot} = state;
  let column = -1;
  const sums = new Map();
  const flush = () => {
    if (column < 0) return;
    let most = null, all = 0;
    for (const [css, sum] of sums) {
      all += sum;
      if (most === null || sum > sums.get(most)) most = css;
    }
    g.globalAlpha = Math.max(0.4, Math.min(1, all));
    g.fillStyle = colour(most);
    g.fillRect(gutter + column, band.y, 1, band.h);
    g.globalAlpha = 1;
    sums.clear();
    column = -1;
  };
  for (let i = firstAfter(row, state.from); i < row.count && row.start[i] < state.to; i++) {
    const left = Math.max(0, (row.start[i] - state.from) * scale);
    const right = Math.min(plot, (row.end[i] - state.from) * scale);
    const css = state.css(row.label[i]);
    if (right - left < 2) {
      const c = Math.floor(left);
      if (c !== column) flush();
      column = c;
      sums.set(css, (sums.get(css) || 0) + right - left);
      continue;
    }
    flush();
    g.fillStyle = colour(css);
    const shown = right - left > 4 ? right - left - 0.7 : right - left;
    g.fillRect(gutter + left, band.y, shown, band.h);
    if (band.kind === "work" && shown > 34) blockName(g, state, band, i, left, shown, colour);
  }
  flush();
}

function blockName(g, state, band, i, left, room, colour) {
  g.fillStyle = colour("panel");
  g.textAlign = "left";
  const [name, , , layer] = state.data.labels[band.row.label[i]];
  g.fillText(fitted(g, name, room - 8), state.gutter + left + 4, band.y + (layer ? 11 : 17));
  if (layer) {
    g.globalAlpha = 0.85;
    g.fillText(fitted(g, layer, room - 8), state.gutter + left + 4, band.y + 24);
    g.globalAlpha = 1;
  }
}

function drawSteps(g, state, band, colour) {
  const {row} = band;
  let reached = -1;
  for (let i = firstAfter(row, state.from); i < row.count && row.start[i] < state.to; i++) {
    const left = Math.max(state.gutter, toX(state, row.start[i]));
    const right = Math.min(state.gutter + state.plot, toX(state, row.end[i]));
    if (right - reached < 1) continue;
    reached = right;
    g.fillStyle = colour("line");
    g.fillRect(left, band.y, Math.max(1, right - left - 1), band.h);
    const name = state.data.labels[row.label[i]][0];
    if (right - left > 30) {
      g.fillStyle = colour("ink");
      g.textAlign = "left";
      const long = `${name}, ${spelled(row.end[i] - row.start[i])}`;
      const room = right - left - 8;
      const text = g.measureText(long).width < room ? long : fitted(g, name, room);
      g.fillText(text, left + 4, band.y + band.h / 2 + 1);
    }
  }
}

// The share of each pixel's time in which the device worked.
function shares(state, from, to, columns) {
  const found = new Float32Array(columns), scale = columns / (to - from), row = state.busy;
  for (let i = firstAfter(row, from); i < row.count && row.start[i] < to; i++) {
    const left = Math.max(0, (row.start[i] - from) * scale);
    const right = Math.min(columns, (row.end[i] - from) * scale);
    for (let c = Math.floor(left); c < right; c++) {
      found[c] += Math.min(right, c + 1) - Math.max(left, c);
    }
  }
  return found;
}

function drawBusy(g, state, band, colour) {
  const columns = Math.ceil(state.plot);
  const found = shares(state, state.from, state.to, columns);
  g.fillStyle = colour("c2");
  for (let c = 0; c < columns; c++) {
    const h = Math.min(1, found[c]) * band.h;
    if (h > 0) g.fillRect(state.gutter + c, band.y + band.h - h, 1, h);
  }
  frame(g, state, band, colour, "100 %");
}

function drawOverview(g, state, band, colour) {
  const columns = Math.ceil(state.plot), {span} = state.data;
  if (!state.whole || state.whole.length !== columns) {
    state.whole = shares(state, 0, span, columns);
  }
  g.fillStyle = colour("grid");
  g.fillRect(state.gutter, band.y, state.plot, band.h);
  g.fillStyle = colour("soft");
  for (let c = 0; c < columns; c++) {
    const h = Math.min(1, state.whole[c]) * band.h;
    g.fillRect(state.gutter + c, band.y + band.h - h, 1, h);
  }
  const left = state.gutter + state.from / span * state.plot;
  const width = Math.max(3, (state.to - state.from) / span * state.plot);
  g.fillStyle = colour("c0");
  g.globalAlpha = 0.25;
  g.fillRect(left, band.y, width, band.h);
  g.globalAlpha = 1;
  g.strokeStyle = colour("c0");
  g.lineWidth = 2;
  g.strokeRect(left + 1, band.y + 1, Math.max(1, width - 2), band.h - 2);
}

function frame(g, state, band, colour, top) {
  g.fillStyle = colour("grid");
  g.fillRect(state.gutter, band.y + band.h - 1, state.plot, 1);
  const room = g.measureText(top).width;
  g.fillStyle = colour("panel");
  g.fillRect(state.gutter + state.plot - room - 8, band.y - 1, room + 8, 16);
  g.fillStyle = colour("soft");
  g.textAlign = "right";
  g.fillText(top, state.gutter + state.plot - 3, band.y + 7);
}

// Lines that hold each value until the next; dotted where they are no readings of a sensor.
function drawTrack(g, state, band, colour) {
  const {track} = band;
  const high = Math.max(...track.lines.flatMap(line => line.top)) || 1;
  const toY = v => band.y + band.h - 2 - v / high * (band.h - 20);
  for (const line of track.lines) {
    g.strokeStyle = colour(line.css);
    g.lineWidth = 1.6;
    g.setLineDash(line.provenance === "measured" ? [] : [2, 4]);
    g.beginPath();
    let i = Math.max(0, after(line.times, state.from) - 1), begun = false, before = -1;
    for (; i < line.times.length && line.times[i] < state.to; i++) {
      if (line.values[i] === null) { begun = false; continue; }
      const x = Math.max(state.gutter, toX(state, line.times[i]));
      const end = toX(state, i + 1 < line.times.length ? line.times[i + 1] : state.data.span);
      if (end - before < 0.5) continue;   // several to a pixel: the next one stands for them
      before = end;
      const y = toY(line.values[i]);
      if (begun) g.lineTo(x, y); else g.moveTo(x, y);
      g.lineTo(Math.min(end, state.gutter + state.plot), y);
      begun = true;
    }
    g.stroke();
  }
  g.setLineDash([]);
  frame(g, state, band, colour, `${+high.toPrecision(3)} ${track.unit}`);
}

function after(times, time) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] > time) high = middle; else low = middle + 1;
  }
  return low;
}

function drawCursor(g, state, colour) {
  const {hover, chosen} = state;
  if (hover) {
    g.fillStyle = colour("ink");
    g.globalAlpha = 0.5;
    const top = state.bands.find(b => b.kind === "axis").y;
    g.fillRect(Math.round(hover.x), top, 1, state.height - top);
    g.globalAlpha = 1;
  }
  for (const spot of [hover?.spot, chosen]) {
    if (!spot) continue;
    const left = Math.max(state.gutter, toX(state, spot.band.row.start[spot.index]));
    const right = Math.min(state.gutter + state.plot, toX(state, spot.band.row.end[spot.index]));
    if (right < left) continue;
    g.strokeStyle = colour("ink");
    g.lineWidth = 2;
    g.strokeRect(left, spot.band.y, Math.max(2, right - left), spot.band.h);
  }
}

const DRAW = {overview: drawOverview, axis: () => {}, step: drawSteps, work: drawSpans,
              host: drawSpans, idle: drawSpans, busy: drawBusy, track: drawTrack};
