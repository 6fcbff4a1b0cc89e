// SPDX-License-Identifier: Apache-2.0
// Draws the run: memory, what was stranded, what requests did, requests one by one, and the streams' work, over one axis
// of time that is zoomed and moved.
'use strict';
const canvas = document.getElementById('canvas');
const LABEL = 14, BAR = 12, TICK = 9, AXIS = 20, HEAD = 18, GAP = 3;
const STRANDED_HIGH = 24, REQUESTS_HIGH = 56;
const LEAST_APART = 3; // pixels from one request to the next, to be drawn one by one

const largest = (values) => values.reduce((a, b) => Math.max(a, b), 0);
const most = Math.max(run.capacity_bytes / UNIT, largest(samples.held), 1,
  run.asked_bytes / UNIT + (samples.count > 0 ? samples.live[samples.count - 1] : 0));
const top_units = most * 1.02;
const most_stranded = largest(samples.stranded);
const kinds = [
  { name: 'took or gave memory', of: CALLS, colour: '--c0' },
  { name: 'moved pages', of: MOVES, colour: '--c1' },
  { name: 'made a stream wait', of: DEVICE_WAITS, colour: '--c4' },
  { name: 'made the host wait', of: HOST_WAITS, colour: '--limit' },
].filter((kind) => done[kind.of].time.length > 0);

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
  return us >= 1e3 ? (us / 1e3).toFixed(digits) + ' ms' : us.toFixed(Math.min(digits, 3)) + ' us';
}

// With as many digits as tell pixels apart.
function moment(ns) {
  const unit = ns >= 1e9 ? 1e9 : ns >= 1e6 ? 1e6 : 1e3;
  return duration(ns, Math.max(3, Math.min(9, Math.ceil(-Math.log10((to - from) / wide / unit)))));
}

// ---- drawing

const x_of = (ns) => (ns - from) / (to - from) * wide;
const y_of = (units) => HEAD + (1 - units / top_units) * (memory_high - HEAD);
const ns_of = (x) => from + x / wide * (to - from);

function colours() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(name).trim();
}

// Until when a sample holds.
const until = (level, i) => (level.count > i + 1 ? level.time[i + 1] : run.failed ? Math.max(run.failed_ns, level.time[i]) : end);

// The area between two stacked amounts, in steps; `below` and `above` are of the samples from `first` on.
function area(pen, level, first, below, above) {
  pen.beginPath();
  for (let k = 0; above.length > k; k++) {
    pen.lineTo(x_of(level.time[first + k]), y_of(above[k]));
    pen.lineTo(x_of(until(level, first + k)), y_of(above[k]));
  }
  for (let k = above.length - 1; k >= 0; k--) {
    pen.lineTo(x_of(until(level, first + k)), y_of(below[k]));
    pen.lineTo(x_of(level.time[first + k]), y_of(below[k]));
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

function draw_capacity(pen, colour) {
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

function draw_stack(pen, colour, level, first, last) {
  let below = new Float64Array(last - first + 1);
  const put = (name, alpha, amount) => {
    const above = below.map((units, k) => amount(first + k, units));
    pen.fillStyle = colour(name);
    pen.globalAlpha = alpha;
    area(pen, level, first, below, above);
    below = above;
  };
  put('--live', 1, (i) => level.live[i]);
  level.layers.forEach((layer, k) => put(k === level.layers.length - 1 ? '--c7' : '--c' + k, .62, (i, units) => units + layer[i]));
  put('--rest', 1, (i, units) => Math.max(level.held[i], units));
}

function draw_memory(pen, colour, level) {
  const levels_of_size = draw_levels(pen, colour);
  const first = Math.max(last_upto(level.time, from), 0), last = last_upto(level.time, to);
  if (level.count > 0 && last >= first) draw_stack(pen, colour, level, first, last);
  draw_level_names(pen, colour, levels_of_size);
  if (run.capacity_bytes > 0) draw_capacity(pen, colour);
}

function draw_label(pen, colour, text, y) {
  pen.font = '11px system-ui, sans-serif';
  pen.textAlign = 'left';
  pen.textBaseline = 'middle';
  pen.fillStyle = colour('--soft');
  pen.fillText(text, 2, y + LABEL / 2 + 1);
}

function draw_stranded(pen, colour, level, y) {
  if (most_stranded === 0) return y;
  draw_label(pen, colour, 'stranded, at most ' + bytes(most_stranded), y);
  y += LABEL + STRANDED_HIGH;
  pen.fillStyle = colour('--grid');
  pen.fillRect(0, y - 1, wide, 1);
  pen.fillStyle = colour('--stranded');
  for (let i = Math.max(last_upto(level.time, from), 0); level.count > i && to >= level.time[i]; i++) {
    if (level.stranded[i] === 0) continue;
    const size = Math.max(2, level.stranded[i] / most_stranded * STRANDED_HIGH);
    pen.fillRect(Math.floor(x_of(level.time[i])), y - size, 1, size);
  }
  return y + GAP;
}

// One mark a pixel: from one it goes to the first that lies in a later one.
function draw_ticks(pen, colour, y) {
  for (const kind of kinds) {
    const { time } = done[kind.of];
    draw_label(pen, colour, kind.name, y);
    y += LABEL;
    pen.fillStyle = colour(kind.colour);
    for (let i = last_upto(time, from - 1) + 1; time.length > i && to >= time[i];) {
      const x = Math.floor(x_of(time[i]));
      pen.fillRect(x, y, 1, TICK);
      i = Math.max(last_upto(time, ns_of(x + 1)), i) + 1;
    }
    y += TICK + GAP;
  }
  return y;
}

// ---- requests

const shown_requests = () => ({ first: last_upto(request.time, from - 1) + 1, last: last_upto(request.time, to) });
const one_by_one = ({ first, last }) => wide / LEAST_APART >= last - first;
const stream_colour = (i) => '--c' + run.streams[request.stream[i]].colour;
const kind_name = (i) => ['alloc', 'free', 'use', run.failed && i === kept - 1 ? 'refused' : 'refused when recorded'][request.kind[i]];
const size_name = (i) => (request.kind[i] === USE ? '' : bytes(request.bytes[i] / UNIT));

// How long a mark is: by the logarithm of the size.
const mark_high = (i) => Math.max(3, Math.log2(Math.max(request.bytes[i], 2)) / Math.log2(most * UNIT) * (REQUESTS_HIGH / 2 - 9));

// Sizes are written where they do not overlap.
function draw_single_requests(pen, colour, middle, { first, last }) {
  const clear = [0, 0]; // from which x on there is room for a size, above and below
  const sizes = wide / 12 >= last - first;
  pen.font = '10px system-ui, sans-serif';
  pen.textAlign = 'center';
  for (let i = first; last >= i; i++) {
    const x = Math.round(x_of(request.time[i])), below = request.kind[i] === FREE ? 1 : 0, size = mark_high(i);
    pen.fillStyle = colour(request.kind[i] > USE ? '--limit' : stream_colour(i));
    if (request.kind[i] === USE) pen.fillRect(x - 1, middle - 1, 3, 3);
    else pen.fillRect(x - 1, below ? middle + 1 : middle - size, 2, size);
    const half = pen.measureText(size_name(i)).width / 2 + 3;
    if (!sizes || clear[below] > x - half) continue;
    clear[below] = x + half;
    pen.textBaseline = below ? 'top' : 'bottom';
    pen.fillText(size_name(i), x, below ? middle + 1 + size : middle - size);
  }
}

// How many bytes were given and freed in each pixel.
function draw_traffic(pen, colour, middle) {
  const given = [], returned = [];
  for (let x = 0, at = last_upto(request.time, from) + 1; wide > x; x++) {
    const next = last_upto(request.time, ns_of(x + 1)) + 1;
    given.push(request.given[next] - request.given[at]);
    returned.push(request.returned[next] - request.returned[at]);
    at = next;
  }
  const scale = (REQUESTS_HIGH / 2 - 1) / Math.max(largest(given), largest(returned), 1);
  pen.fillStyle = colour('--live');
  for (let x = 0; given.length > x; x++) {
    pen.fillRect(x, middle - given[x] * scale, 1, given[x] * scale);
    pen.fillRect(x, middle + 1, 1, returned[x] * scale);
  }
}

// Of a long run the first requests are there as intervals alone.
function draw_dropped(pen, colour, y) {
  if (run.dropped === 0 || from >= request.time[0]) return;
  pen.fillStyle = colour('--grid');
  pen.fillRect(0, y, x_of(Math.min(request.time[0], to)), REQUESTS_HIGH);
  draw_label(pen, colour, 'these ' + run.dropped.toLocaleString('en') + ' requests are told by the curves above alone', y);
}

function draw_requests(pen, colour, y) {
  if (kept === 0) return y;
  const shown = shown_requests(), single = one_by_one(shown), middle = y + LABEL + REQUESTS_HIGH / 2;
  draw_dropped(pen, colour, y + LABEL);
  draw_label(pen, colour, single ? 'requests: allocs up, frees down' : 'bytes allocated and freed (zoom in for single requests)', y);
  pen.fillStyle = colour('--grid');
  pen.fillRect(0, middle, wide, 1);
  if (single) draw_single_requests(pen, colour, middle, shown); else draw_traffic(pen, colour, middle);
  return y + LABEL + REQUESTS_HIGH + GAP;
}

// ---- rows

// Bars that are told apart are drawn as they are; where they fall together, how dark it is says how busy.
function draw_row(pen, colour, row, y) {
  draw_label(pen, colour, row.name + '  ' + (100 * row.total / end).toFixed(row.total >= end / 10 ? 0 : 1) + ' %', y);
  y += LABEL;
  pen.fillStyle = colour('--grid');
  pen.fillRect(0, y, wide, BAR);
  pen.fillStyle = colour(row.colour);
  const scale = wide / (to - from), shades = new Float64Array(Math.ceil(wide));
  for (let pixel = 0, before = busy_until(row, from); shades.length > pixel; pixel++) {
    const now = busy_until(row, ns_of(pixel + 1)), share = (now - before) * scale;
    shades[pixel] = share > 1e-9 ? Math.max(.15, Math.min(1, Math.ceil(share * 10 - 1e-6) / 10)) : 0;
    before = now;
  }
  for (let pixel = 0, next; shades.length > pixel; pixel = next) {
    for (next = pixel + 1; shades.length > next && shades[next] === shades[pixel]; next++);
    pen.globalAlpha = shades[pixel];
    if (shades[pixel] > 0) pen.fillRect(pixel, y, next - pixel, BAR);
  }
  pen.globalAlpha = 1;
  draw_borders(pen, colour, row, y, scale);
  return y + BAR + GAP;
}

// Between bars that touch.
function draw_borders(pen, colour, row, y, scale) {
  const first = Math.max(last_upto(row.start, from), 1), last = last_upto(row.start, to);
  if (last - first > wide / 6) return;
  pen.fillStyle = colour('--card');
  for (let i = first; last >= i; i++)
    if ((row.stop[i] - row.start[i]) * scale > 6 && 1 > (row.start[i] - row.stop[i - 1]) * scale)
      pen.fillRect(Math.round((row.start[i] - from) * scale), y, 1, BAR);
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

// ---- all of it

function measure() {
  wide = Math.max(canvas.clientWidth, 50);
  memory_high = wide > 520 ? 260 : 190;
  high = memory_high + 6 + (most_stranded > 0 ? LABEL + STRANDED_HIGH + GAP : 0) + kinds.length * (LABEL + TICK + GAP) +
    (kept > 0 ? LABEL + REQUESTS_HIGH + GAP : 0) + rows.length * (LABEL + BAR + GAP) + AXIS;
}

function draw() {
  measure();
  const ratio = window.devicePixelRatio || 1, pen = canvas.getContext('2d'), colour = colours();
  const level = level_for((to - from) / wide);
  canvas.style.height = high + 'px';
  canvas.width = Math.round(wide * ratio);
  canvas.height = Math.round(high * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  draw_memory(pen, colour, level);
  let y = draw_stranded(pen, colour, level, memory_high + 6);
  y = draw_ticks(pen, colour, y);
  y = draw_requests(pen, colour, y);
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
