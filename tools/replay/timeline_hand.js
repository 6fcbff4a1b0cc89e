// SPDX-License-Identifier: Apache-2.0
// What the pointer and the keys do: figures under the pointer, zoom, and moving.
'use strict';
const tip = document.getElementById('tip');
const stage = document.getElementById('stage');
const LEAST_SPAN = 2000, NEAR = 3 /* pixels */, MOST_LISTED = 6;

// ---- the pointer

function line(table, name, value) {
  const row = document.createElement('tr'), head = document.createElement('th'), cell = document.createElement('td');
  head.textContent = name;
  cell.textContent = value;
  row.append(head, cell);
  table.append(row);
}

// The most that the requests here were short of; between two requests there is none.
function stranded_near(level, ns) {
  const near = NEAR * (to - from) / wide, last = last_upto(level.time, ns + near);
  let most = 0;
  for (let i = last_upto(level.time, ns - near) + 1; last >= i; i++) most = Math.max(most, level.stranded[i]);
  return most;
}

function tip_memory(table, ns) {
  const level = level_for((to - from) / wide), at = last_upto(level.time, ns);
  if (0 > at) return;
  line(table, 'live', bytes(level.live[at]));
  level.layers.forEach((layer, k) => {
    if (layer[at] > 0) line(table, 'idle, ' + (run.idle.length > k ? run.idle[k] : 'others'), bytes(layer[at]));
  });
  if (run.idle_known && stranded_near(level, ns) > 0) line(table, 'stranded', bytes(stranded_near(level, ns)));
  if (run.capacity_bytes > 0) line(table, 'held', bytes(level.held[at]));
  if (run.capacity_bytes > 0) line(table, 'capacity', bytes(run.capacity_bytes / UNIT));
}

function tip_done(table, ns) {
  const near = NEAR * (to - from) / wide, count = (kind) => done_between(kind, ns - near, ns + near);
  if (count(CALLS) > 0) line(table, 'memory calls', String(count(CALLS)));
  if (count(MOVES) > 0) line(table, 'pages moved', count(MOVES) + ', ' + bytes(count(MOVED)));
  if (count(DEVICE_WAITS) > 0) line(table, 'device waits', String(count(DEVICE_WAITS)));
  if (count(HOST_WAITS) > 0) line(table, 'host waits', count(HOST_WAITS) + ', ' + duration(count(HOST_WAIT_NS), 1));
}

function tip_requests(table, ns) {
  const near = NEAR * (to - from) / wide, first = last_upto(request.time, ns - near) + 1, last = last_upto(request.time, ns + near);
  if (kept === 0 || first > last) return;
  if (!one_by_one(shown_requests())) {
    line(table, 'requests', String(last - first + 1));
    return;
  }
  for (let i = first; last >= i && first + MOST_LISTED > i; i++)
    line(table, 'line ' + request.line[i] + ': ' + kind_name(i) + ', ' + run.streams[request.stream[i]].name, size_name(i));
  if (last - first >= MOST_LISTED) line(table, 'and more', String(last - first + 1 - MOST_LISTED));
}

function fill_tip(ns) {
  const table = document.createElement('table'), turn = last_upto(iterations, ns);
  line(table, 'time', moment(ns));
  if (turn >= 0) line(table, 'iteration', String((turn + 1) * run.iterations_in_one));
  tip_memory(table, ns);
  tip_done(table, ns);
  tip_requests(table, ns);
  for (const row of rows) {
    const bar = last_upto(row.start, ns), length = row.stop[bar] - row.start[bar];
    if (bar >= 0 && row.stop[bar] > ns)
      line(table, row.name, duration(length, 1) + (.995 * length > row.busy[bar] ? ', ' + Math.round(100 * row.busy[bar] / length) + ' % busy' : ''));
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
// The next request, or the one before, comes to the middle.
function go_to_request(forward) {
  const middle = (from + to) / 2, near = (to - from) / wide; // a pixel
  const i = forward ? last_upto(request.time, middle + near) + 1 : last_upto(request.time, middle - near);
  if (i >= 0 && kept > i) look_at(request.time[i] - (to - from) / 2, to - from);
}

canvas.addEventListener('keydown', (event) => {
  const step = (to - from) / 100;
  const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (event.key === '+' || event.key === '=') zoom(.5, .5);
  else if (event.key === '-') zoom(2, .5);
  else if (event.key === '0') look_at(0, end);
  else if (event.key === 'n' || event.key === 'p') go_to_request(event.key === 'n');
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
