// SPDX-License-Identifier: Apache-2.0
// Reads the run's data, and makes coarser levels of it, so that what is drawn is never much more than there are pixels.
// Amounts of memory are in units of 512 bytes, times in nanoseconds since the run's beginning.
'use strict';
const run = JSON.parse(document.getElementById('run').textContent);
const UNIT = 512;
const ALLOC = 0, FREE = 1, USE = 2;
// What a request did, in this order.
const CALLS = 0, MOVES = 1, MOVED = 2, DEVICE_WAITS = 3, HOST_WAITS = 4, HOST_WAIT_NS = 5, STRANDED = 6;

// The last place whose value is not above `value`, or -1.
function last_upto(values, value) {
  let low = 0, up = values.length;
  while (low < up) {
    const middle = (low + up) >> 1;
    if (values[middle] > value) up = middle; else low = middle + 1;
  }
  return low - 1;
}

function sums(deltas) {
  let sum = 0;
  return deltas.map((delta) => (sum += delta));
}

// Numbers of 7 bits a byte, the lowest first; tools/replay/timeline_inside.h says what they are.
function reader(base64) {
  const text = atob(base64);
  let at = 0;
  const next = () => {
    let value = 0, place = 1, byte;
    do {
      byte = text.charCodeAt(at++);
      value += (byte & 127) * place;
      place *= 128;
    } while (byte > 127);
    return value;
  };
  const signed = () => {
    const value = next();
    return value % 2 === 1 ? -(value + 1) / 2 : value / 2;
  };
  return { next, signed };
}

// ---- samples: the memory after a request; the columns first, then each request that was kept

function make_samples(count, width) {
  const array = () => new Float32Array(count); // good for a picture and three digits
  return { width, count, time: new Float64Array(count), live: new Float64Array(count), held: array(), stranded: array(),
    layers: [...run.idle, 'others'].map(array) };
}

// Sample number `to` becomes that of another level.
function copy_sample(into, to, from, at) {
  into.time[to] = from.time[at];
  into.live[to] = from.live[at];
  into.layers.forEach((layer, k) => { layer[to] = from.layers[k][at]; });
}

const columns = run.time.length, kept = run.requests.reduce((count, part) => count + part.count, 0);
const samples = make_samples(columns + kept, 0);
const request = { line: new Uint32Array(kept), kind: new Uint8Array(kept), stream: new Uint16Array(kept), bytes: new Float64Array(kept),
  given: new Float64Array(kept + 1), returned: new Float64Array(kept + 1) }; // bytes allocated and freed before it
const did = []; // [sample, what the request did ...]

function read_columns() {
  samples.time.set(sums(run.time));
  samples.live.set(sums(run.live));
  samples.held.set(sums(run.held));
  samples.layers.forEach((layer, k) => layer.set(sums(run['idle' + k])));
  for (const counts of run.counts) note_counts(counts);
}

function note_counts(counts) {
  did.push(counts);
  samples.stranded[counts[0]] = counts[1 + STRANDED];
}

function read_counts(next, at) {
  const mask = next(), pick = (bit) => (mask & bit ? next() : 0);
  note_counts([at, pick(1), pick(2), pick(2), pick(4), pick(8), pick(8), pick(16)]);
}

// One part of the requests, whose first is number `first`.
function read_requests(part, first) {
  const { next, signed } = reader(part.bytes), idle = new Float64Array(run.layers.length);
  const layers = new Float64Array(samples.layers.length);
  const change = (slot, units) => { idle[slot] += units; layers[run.layers[slot]] += units; };
  let time = 0, line = 0, stream = 0, held = 0, live = part.live_bytes;
  for (let i = first, at = columns + first; first + part.count > i; i++, at++) {
    const head = next(), kind = head & 3;
    time += next();
    const size = next(), bytes = size % 2 === 1 ? (size - 1) / 2 * UNIT : size / 2;
    line += head & 4 ? next() : 1;
    if (head & 8) stream = next();
    if (head & 16) held += signed();
    const slot = run.streams[stream].slot, units = Math.ceil(bytes / UNIT);
    if (run.idle_known && kind === ALLOC) change(slot, -Math.min(idle[slot], units));
    if (run.idle_known && kind === FREE) change(slot, units);
    for (let count = head & 32 ? next() : 0; count > 0; count--) change(next(), signed());
    if (head & 64) read_counts(next, at);
    live += kind === ALLOC ? bytes : kind === FREE ? -bytes : 0;
    request.kind[i] = kind;
    request.line[i] = line;
    request.stream[i] = stream;
    request.bytes[i] = bytes;
    request.given[i + 1] = request.given[i] + (kind === ALLOC ? bytes : 0);
    request.returned[i + 1] = request.returned[i] + (kind === FREE ? bytes : 0);
    samples.time[at] = time;
    samples.live[at] = live / UNIT;
    samples.held[at] = held;
    for (let k = 0; layers.length > k; k++) samples.layers[k][at] = layers[k];
  }
}

read_columns();
for (let i = 0, first = 0; run.requests.length > i; first += run.requests[i++].count) read_requests(run.requests[i], first);
request.time = samples.time.subarray(columns);

// ---- levels: the samples of an interval become one, the memory at their fullest moment. Those that would save little
// ---- are left out.

function count_intervals(level, width) {
  let count = 0, before = -1;
  for (let i = 0; level.count > i; i++) {
    const interval = Math.floor(level.time[i] / width);
    if (interval !== before) count++;
    before = interval;
  }
  return count;
}

function coarser(level, width, count) {
  const made = make_samples(count, width);
  for (let i = 0, to = 0, next; level.count > i; i = next, to++) {
    const interval = Math.floor(level.time[i] / width);
    let fullest = i, held = 0, stranded = 0;
    for (next = i; level.count > next && Math.floor(level.time[next] / width) === interval; next++) {
      if (level.live[next] > level.live[fullest]) fullest = next;
      held = Math.max(held, level.held[next]);
      stranded = Math.max(stranded, level.stranded[next]);
    }
    copy_sample(made, to, level, fullest);
    made.held[to] = held;
    made.stranded[to] = stranded;
  }
  return made;
}

const end = Math.max(run.end_ns, 1);
const levels = [samples];
for (let width = 64; end > width; width *= 2) {
  const finest = levels[levels.length - 1], count = count_intervals(finest, width);
  if (finest.count * .75 > count) levels.push(coarser(finest, width, count));
}

// The coarsest whose intervals are no longer than that.
const level_for = (ns) => levels.reduce((best, level) => (level.width > ns ? best : level));

// ---- what requests did: where there was any of a kind, and how much up to there

function gather(kind) {
  const list = did.filter((counts) => counts[1 + kind] > 0);
  const time = Float64Array.from(list, (counts) => samples.time[counts[0]]), total = new Float64Array(list.length + 1);
  list.forEach((counts, i) => { total[i + 1] = total[i] + counts[1 + kind]; });
  return { time, total };
}

const done = [CALLS, MOVES, MOVED, DEVICE_WAITS, HOST_WAITS, HOST_WAIT_NS].map(gather);
const done_between = (kind, from, to) => done[kind].total[last_upto(done[kind].time, to) + 1] - done[kind].total[last_upto(done[kind].time, from) + 1];

// ---- rows: a stream's bars, and how much was busy before each

function read_row(row) {
  const { next } = reader(row.bars), start = new Float64Array(row.count), stop = new Float64Array(row.count);
  const busy = new Float64Array(row.count), before = new Float64Array(row.count);
  for (let i = 0, at = 0, sum = 0; row.count > i; i++) {
    const head = next(), gap = Math.floor(head / 2), length = next();
    start[i] = at + (gap % 2 === 1 ? -(gap + 1) / 2 : gap / 2);
    at = stop[i] = start[i] + length;
    busy[i] = head % 2 === 1 ? next() : length;
    before[i] = sum;
    sum += busy[i];
  }
  return { name: row.name, host: row.host, colour: row.host ? '--soft' : '--c' + row.colour, total: row.busy_ns, start, stop, busy, before };
}

function busy_until(row, ns) {
  const bar = last_upto(row.start, ns), length = row.stop[bar] - row.start[bar];
  if (0 > bar) return 0;
  return row.before[bar] + (length > 0 ? row.busy[bar] * Math.min((ns - row.start[bar]) / length, 1) : 0);
}

const iterations = sums(run.iterations);
const rows = run.rows.map(read_row);
