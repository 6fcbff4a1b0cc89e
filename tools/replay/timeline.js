// SPDX-License-Identifier: Apache-2.0
// Draws the run: memory, what requests did, and the streams' work, over one axis of time that is zoomed and moved.
'use strict';
const run = JSON.parse(document.getElementById('run').textContent);
const canvas = document.getElementById('canvas');
const tip = document.getElementById('tip');
const stage = document.getElementById('stage');
const UNIT = 512; // bytes, of all amounts of memory
const LABEL = 14, BAR = 12, TICK = 9, AXIS = 20, HEAD = 18, LEAST_SPAN = 2000;

function sums(deltas) {
  let sum = 0;
  return deltas.map((delta) => (sum += delta));
}

const time = sums(run.time), live = sums(run.live), held = sums(run.held), iterations = sums(run.iterations);
const idle = run.idle.map((name, i) => sums(run['idle' + i]));
idle.push(sums(run.idle_others));
const ticks = new Map(run.ticks.map((tick) => [tick[0], tick]));
const end = Math.max(run.end_ns, 1);
const most = Math.max(run.capacity_bytes / UNIT, run.asked_bytes / UNIT + (live.length ? live[live.length - 1] : 0),
  held.reduce((a, b) => Math.max(a, b), 1));
const top_units = most * 1.02;
const kinds = [
  { name: 'took or gave memory', at: 1, colour: '--c0' },
  { name: 'moved pages', at: 2, colour: '--c1' },
  { name: 'made a stream wait', at: 4, colour: '--c4' },
  { name: 'made the host wait', at: 5, colour: '--limit' },
].filter((kind) => run.ticks.some((tick) => tick[kind.at] > 0));

// A row's bars as times, for drawing and for the pointer.
const rows = run.rows.map((row) => {
  const count = row.bars.length / 3;
  const start = new Float64Array(count), stop = new Float64Array(count), busy = new Float64Array(count);
  let at = 0;
  for (let i = 0; i < count; i++) {
    start[i] = at + row.bars[3 * i];
    at = stop[i] = start[i] + row.bars[3 * i + 1];
    busy[i] = row.bars[3 * i + 2] / 100;
  }
  return { name: row.name, host: row.host, colour: row.host ? '--soft' : '--c' + row.colour, total: row.busy_ns, start, stop, busy };
});

let from = 0, to = end;      // what is shown
let wide = 0, memory_high = 0, high = 0;
let pointed = null;          // time under the pointer

// ---- text

const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

function bytes(units) {
  let size = units * UNIT, unit = 0;
  for (; size >= 1024 && unit < 5; unit++) size /= 1024;
  return size.toFixed(unit === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2) + ' ' + names[unit];
}

function duration(ns, digits) {
  const us = ns / 1e3;
  if (us >= 1e6) return (us / 1e6).toFixed(digits) + ' s';
  return us >= 1e3 ? (us / 1e3).toFixed(digits) + ' ms' : us.toFixed(Math.min(digits, 1)) + ' us';
}

// ---- looking up

// The last place whose value is not above `value`, or -1.
function last_upto(values, value) {
  let low = 0, up = values.length;
  while (low < up) {
    const middle = (low + up) >> 1;
    if (values[middle] > value) up = middle; else low = middle + 1;
  }
  return low - 1;
}

// ---- drawing

const x_of = (ns) => (ns - from) / (to - from) * wide;
const y_of = (units) => HEAD + (1 - units / top_units) * (memory_high - HEAD);

function colours() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(name).trim();
}

// The area between two stacked amounts, in steps: a value holds until the next.
function area(pen, first, last, below, above) {
  pen.beginPath();
  pen.moveTo(x_of(time[first]), y_of(below(first)));
  for (let i = first; i <= last; i++) {
    const next = i + 1 < time.length ? x_of(time[i + 1]) : x_of(run.failed ? Math.max(run.failed_ns, time[i]) : end);
    pen.lineTo(x_of(time[i]), y_of(above(i)));
    pen.lineTo(next, y_of(above(i)));
  }
  for (let i = last; i >= first; i--) {
    const next = i + 1 < time.length ? x_of(time[i + 1]) : x_of(run.failed ? Math.max(run.failed_ns, time[i]) : end);
    pen.lineTo(next, y_of(below(i)));
    pen.lineTo(x_of(time[i]), y_of(below(i)));
  }
  pen.closePath();
  pen.fill();
}

function draw_levels(pen, colour) {
  const unit = Math.max(0, Math.min(5, Math.floor(Math.log2(most * UNIT) / 10)));
  const size = Math.pow(1024, unit) / UNIT, raw = most / size / 5, power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw);
  pen.font = '11px system-ui, sans-serif';
  for (let at = 0; at * size < top_units; at += step) {
    const y = Math.round(y_of(at * size)) + .5;
    pen.strokeStyle = colour('--grid');
    pen.beginPath();
    pen.moveTo(0, y);
    pen.lineTo(wide, y);
    pen.stroke();
  }
  return { step, size, unit };
}

function draw_level_names(pen, colour, { step, size, unit }) {
  pen.textAlign = 'left';
  pen.textBaseline = 'bottom';
  for (let at = step; at * size < top_units; at += step) {
    const text = Number(at.toPrecision(6)) + ' ' + names[unit], y = y_of(at * size);
    pen.fillStyle = colour('--card');
    pen.globalAlpha = .75;
    pen.fillRect(0, y - 13, pen.measureText(text).width + 6, 13);
    pen.globalAlpha = 1;
    pen.fillStyle = colour('--soft');
    pen.fillText(text, 3, y);
  }
}

function draw_memory(pen, colour) {
  const levels = draw_levels(pen, colour);
  const first = Math.max(last_upto(time, from), 0), last = last_upto(time, to);
  if (time.length > 0 && last >= first) {
    const layers = [live, ...idle];
    const sum = (count, i) => layers.slice(0, count).reduce((total, layer) => total + layer[i], 0);
    layers.forEach((layer, k) => {
      pen.fillStyle = colour(k === 0 ? '--live' : k === layers.length - 1 ? '--c7' : '--c' + (k - 1));
      pen.globalAlpha = k === 0 ? 1 : .62;
      area(pen, first, last, (i) => sum(k, i), (i) => sum(k + 1, i));
    });
    pen.globalAlpha = 1;
    pen.fillStyle = colour('--rest');
    area(pen, first, last, (i) => sum(layers.length, i), (i) => Math.max(held[i], sum(layers.length, i)));
  }
  draw_level_names(pen, colour, levels);
  if (run.capacity_bytes > 0) {
    const y = y_of(run.capacity_bytes / UNIT);
    pen.strokeStyle = pen.fillStyle = colour('--limit');
    pen.lineWidth = 2;
    pen.setLineDash([7, 5]);
    pen.beginPath();
    pen.moveTo(0, y);
    pen.lineTo(wide, y);
    pen.stroke();
    pen.setLineDash([]);
    pen.lineWidth = 1;
    pen.textAlign = 'right';
    pen.textBaseline = 'bottom';
    pen.font = '600 12px system-ui, sans-serif';
    pen.fillText('capacity ' + bytes(run.capacity_bytes / UNIT), wide - 4, y - 2);
  }
}

function draw_label(pen, colour, text, y) {
  pen.font = '11px system-ui, sans-serif';
  pen.textAlign = 'left';
  pen.textBaseline = 'middle';
  pen.fillStyle = colour('--soft');
  pen.fillText(text, 2, y + LABEL / 2 + 1);
}

function draw_ticks(pen, colour, y) {
  for (const kind of kinds) {
    draw_label(pen, colour, kind.name, y);
    y += LABEL;
    pen.fillStyle = colour(kind.colour);
    let before = -1;
    for (const tick of run.ticks) {
      const x = Math.floor(x_of(time[tick[0]]));
      if (tick[kind.at] === 0 || x === before || 0 > x || x > wide) continue;
      before = x;
      pen.fillRect(x, y, 1, TICK);
    }
    y += TICK + 3;
  }
  return y;
}

// How much of each pixel is busy.
function cover(row) {
  const covered = new Float32Array(Math.ceil(wide) + 1), scale = wide / (to - from);
  for (let i = Math.max(last_upto(row.start, from), 0); i < row.start.length; i++) {
    if (row.start[i] > to) break;
    const left = Math.max((row.start[i] - from) * scale, 0), right = Math.min((row.stop[i] - from) * scale, wide);
    for (let pixel = Math.floor(left); pixel < right; pixel++)
      covered[pixel] += (Math.min(right, pixel + 1) - Math.max(left, pixel)) * row.busy[i];
  }
  return covered;
}

// Bars that are told apart are drawn as they are; where they fall together, how dark it is says how busy.
function draw_row(pen, colour, row, y) {
  draw_label(pen, colour, row.name + '  ' + (100 * row.total / end).toFixed(row.total >= end / 10 ? 0 : 1) + ' %', y);
  y += LABEL;
  pen.fillStyle = colour('--grid');
  pen.fillRect(0, y, wide, BAR);
  pen.fillStyle = colour(row.colour);
  const covered = cover(row);
  const shade = (pixel) => covered[pixel] > 0 ? Math.max(.15, Math.min(1, Math.ceil(covered[pixel] * 10) / 10)) : 0;
  for (let pixel = 0, next; pixel < wide; pixel = next) {
    const alpha = shade(pixel);
    for (next = pixel + 1; next < wide && shade(next) === alpha; next++);
    if (alpha === 0) continue;
    pen.globalAlpha = alpha;
    pen.fillRect(pixel, y, next - pixel, BAR);
  }
  pen.globalAlpha = 1;
  const scale = wide / (to - from);
  pen.fillStyle = colour('--card');
  for (let i = Math.max(last_upto(row.start, from), 1); i < row.start.length && to >= row.start[i]; i++)
    if ((row.stop[i] - row.start[i]) * scale > 6 && (row.start[i] - row.stop[i - 1]) * scale < 1)
      pen.fillRect(Math.round((row.start[i] - from) * scale), y, 1, BAR);
  return y + BAR + 3;
}

function draw_axis(pen, colour, y) {
  const span = to - from, raw = span / Math.max(2, wide / 110), power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw);
  pen.font = '11px system-ui, sans-serif';
  pen.fillStyle = colour('--soft');
  pen.textBaseline = 'top';
  pen.textAlign = 'center';
  const unit = to >= 1e9 ? [1e9, ' s'] : to >= 1e6 ? [1e6, ' ms'] : [1e3, ' us'];
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / unit[0]) - 1e-9)));
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const text = (at / unit[0]).toFixed(digits) + unit[1], half = pen.measureText(text).width / 2;
    const x = x_of(at);
    pen.fillRect(x, y, 1, 4);
    if (x > half && wide - half > x) pen.fillText(text, x, y + 6);
  }
}

function draw_marks(pen, colour, bottom) {
  pen.strokeStyle = colour('--soft');
  pen.globalAlpha = .5;
  pen.setLineDash([2, 3]);
  let before = -10;
  for (const at of iterations) {
    const x = Math.round(x_of(at)) + .5;
    if (0 > x || x > wide || 4 > x - before) continue;
    before = x;
    pen.beginPath();
    pen.moveTo(x, 0);
    pen.lineTo(x, bottom);
    pen.stroke();
  }
  pen.setLineDash([]);
  pen.globalAlpha = 1;
  if (!run.failed) return;
  const x = x_of(run.failed_ns), right = x > wide / 2;
  pen.fillStyle = colour('--limit');
  pen.fillRect(x - 1, 0, 2, bottom);
  pen.font = '600 12px system-ui, sans-serif';
  pen.textAlign = right ? 'right' : 'left';
  pen.textBaseline = 'top';
  const text = run.asked_bytes > 0 ? bytes(run.asked_bytes / UNIT) + ' refused' : 'ended here';
  const long = pen.measureText(text).width;
  pen.fillStyle = colour('--card');
  pen.fillRect(right ? x - long - 12 : x + 2, HEAD + 8, long + 10, 20);
  pen.fillStyle = colour('--limit');
  pen.fillText(text, x + (right ? -7 : 7), HEAD + 12);
}

function measure() {
  wide = Math.max(canvas.clientWidth, 50);
  memory_high = wide > 520 ? 260 : 190;
  high = memory_high + 6 + kinds.length * (LABEL + TICK + 3) + rows.length * (LABEL + BAR + 3) + AXIS;
}

function draw() {
  measure();
  const ratio = window.devicePixelRatio || 1, pen = canvas.getContext('2d'), colour = colours();
  canvas.style.height = high + 'px';
  canvas.width = Math.round(wide * ratio);
  canvas.height = Math.round(high * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  draw_memory(pen, colour);
  let y = draw_ticks(pen, colour, memory_high + 6);
  for (const row of rows) y = draw_row(pen, colour, row, y);
  draw_axis(pen, colour, y);
  draw_marks(pen, colour, y);
  if (pointed === null) return;
  pen.fillStyle = colour('--ink');
  pen.fillRect(Math.round(x_of(pointed)), 0, 1, y);
}

let drawing = 0;
function redraw() {
  if (drawing === 0) drawing = requestAnimationFrame(() => { drawing = 0; draw(); });
}

// ---- the pointer

function line(table, name, value) {
  const row = document.createElement('tr'), head = document.createElement('th'), cell = document.createElement('td');
  head.textContent = name;
  cell.textContent = value;
  row.append(head, cell);
  table.append(row);
}

function fill_tip(ns) {
  const table = document.createElement('table'), at = last_upto(time, ns), turn = last_upto(iterations, ns);
  line(table, 'time', duration(ns, 3));
  if (turn >= 0) line(table, 'iteration', String((turn + 1) * run.iterations_in_one));
  if (at >= 0) {
    line(table, 'live', bytes(live[at]));
    idle.forEach((layer, k) => {
      if (layer[at] > 0) line(table, 'idle, ' + (k < run.idle.length ? run.idle[k] : 'others'), bytes(layer[at]));
    });
    if (run.capacity_bytes > 0) line(table, 'held', bytes(held[at]));
    const tick = ticks.get(at), near = (to - from) / wide * 4;
    if (tick && near >= Math.abs(ns - time[at])) {
      if (tick[1] > 0) line(table, 'memory calls', String(tick[1]));
      if (tick[2] > 0) line(table, 'pages moved', tick[2] + ', ' + bytes(tick[3] / UNIT));
      if (tick[4] > 0) line(table, 'device waits', String(tick[4]));
      if (tick[5] > 0) line(table, 'host waits', tick[5] + ', ' + duration(tick[6], 1));
    }
  }
  for (const row of rows) {
    const bar = last_upto(row.start, ns);
    if (bar >= 0 && row.stop[bar] > ns)
      line(table, row.name, duration(row.stop[bar] - row.start[bar], 1) + (row.busy[bar] < .995 ? ', ' + Math.round(100 * row.busy[bar]) + ' % busy' : ''));
  }
  tip.replaceChildren(table);
}

function show_tip(ns) {
  pointed = Math.min(Math.max(ns, from), to);
  fill_tip(pointed);
  const x = x_of(pointed);
  tip.hidden = false;
  tip.style.left = x > wide / 2 ? '' : (x + 10) + 'px';
  tip.style.right = x > wide / 2 ? (wide - x + 10) + 'px' : '';
  redraw();
}

function hide_tip() {
  pointed = null;
  tip.hidden = true;
  redraw();
}

// ---- zoom and move

function look_at(begin, span) {
  span = Math.min(Math.max(span, Math.min(LEAST_SPAN, end)), end);
  from = Math.min(Math.max(begin, 0), end - span);
  to = from + span;
  redraw();
}

function zoom(factor, share) {
  const span = Math.min(Math.max((to - from) * factor, Math.min(LEAST_SPAN, end)), end);
  look_at(from + share * (to - from - span), span);
}

const share_of = (event) => (event.clientX - canvas.getBoundingClientRect().left) / wide;
const fingers = new Map();
let dragged = false;

canvas.addEventListener('wheel', (event) => {
  event.preventDefault();
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) look_at(from + event.deltaX / wide * (to - from), to - from);
  else zoom(Math.pow(1.0015, event.deltaY * (event.deltaMode === 1 ? 16 : 1)), share_of(event));
  hide_tip();
}, { passive: false });

canvas.addEventListener('pointerdown', (event) => {
  fingers.set(event.pointerId, event.clientX);
  canvas.setPointerCapture(event.pointerId);
  dragged = false;
});

canvas.addEventListener('pointermove', (event) => {
  if (!fingers.has(event.pointerId)) {
    show_tip(from + share_of(event) * (to - from));
    return;
  }
  const before = [...fingers.values()], moved = event.clientX - fingers.get(event.pointerId);
  fingers.set(event.pointerId, event.clientX);
  const now = [...fingers.values()];
  if (Math.abs(moved) > 0) dragged = true;
  if (now.length === 1) look_at(from - moved / wide * (to - from), to - from);
  if (now.length === 2) {
    const apart = Math.max(Math.abs(before[0] - before[1]), 1), now_apart = Math.max(Math.abs(now[0] - now[1]), 1);
    zoom(apart / now_apart, ((now[0] + now[1]) / 2 - canvas.getBoundingClientRect().left) / wide);
  }
  hide_tip();
});

const lift = (event) => {
  fingers.delete(event.pointerId);
  if (!dragged && event.type === 'pointerup') show_tip(from + share_of(event) * (to - from));
};
canvas.addEventListener('pointerup', lift);
canvas.addEventListener('pointercancel', lift);
canvas.addEventListener('pointerleave', (event) => { if (event.pointerType === 'mouse') hide_tip(); });
canvas.addEventListener('dblclick', () => look_at(0, end));
canvas.addEventListener('keydown', (event) => {
  const step = (to - from) / 100;
  const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (event.key === '+' || event.key === '=') zoom(.5, .5);
  else if (event.key === '-') zoom(2, .5);
  else if (event.key === '0') look_at(0, end);
  else if (event.key === 'Escape') hide_tip();
  else if (way === undefined) return;
  else if (event.shiftKey || pointed === null) look_at(from + way * 10 * step, to - from);
  else show_tip(pointed + way * step);
  event.preventDefault();
});
document.getElementById('in').addEventListener('click', () => zoom(.5, .5));
document.getElementById('out').addEventListener('click', () => zoom(2, .5));
document.getElementById('all').addEventListener('click', () => look_at(0, end));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
new ResizeObserver(redraw).observe(stage);
draw();
