// SPDX-License-Identifier: Apache-2.0
// Shows the figures under the pointer, or at the place moved to with the arrow keys. The page is complete without it.
// Written without the characters that XML keeps for itself, so that the page stays well formed.
'use strict';
const runs = JSON.parse(document.getElementById('runs').textContent);

function element(parent, name, text) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

function swatch(parent, colour) {
  const space = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(space, 'svg');
  const rect = document.createElementNS(space, 'rect');
  rect.setAttribute('width', '100%');
  rect.setAttribute('height', '100%');
  rect.setAttribute('class', 'c' + colour);
  svg.append(rect);
  parent.prepend(svg);
}

function mib(kib) { return (kib / 1024).toFixed(1); }

function fill(tip, run, column) {
  tip.textContent = '';
  const step = column[2];
  element(tip, 'div', (step > 0 ? 'step ' + step : 'before step 1') + ', ' + (column[1] / 1000).toFixed(2) + ' s');
  const table = element(tip, 'table');
  const head = element(table, 'tr');
  ['MiB', 'live', 'idle'].forEach((text) => element(head, 'th', text));
  const sum = [0, 0];
  run.streams.forEach((stream, s) => {
    const live = column[3 + 2 * s], idle = column[4 + 2 * s];
    sum[0] += live;
    sum[1] += idle;
    if (live + idle === 0) return;
    const row = element(table, 'tr');
    swatch(element(row, 'th', stream[0]), stream[1]);
    element(row, 'td', mib(live));
    element(row, 'td', mib(idle));
  });
  const row = element(table, 'tr');
  element(row, 'th', 'all');
  sum.forEach((kib) => element(row, 'td', mib(kib)));
}

// The last column that is not after the place: what it shows holds until the next one.
function columnAt(run, place) {
  const after = run.columns.findIndex((column) => column[0] > place * run.wide);
  return after === -1 ? run.columns.length - 1 : after - 1;
}

document.querySelectorAll('.plot').forEach((plot) => {
  const run = runs[Number(plot.dataset.run)];
  const cursor = element(plot, 'i');
  const tip = element(plot, 'div');
  let at = run.columns.length - 1;
  cursor.className = 'cursor';
  tip.className = 'tip';
  tip.setAttribute('aria-live', 'polite');
  const hide = () => { cursor.hidden = tip.hidden = true; };
  const show = (index) => {
    at = Math.min(Math.max(index, 0), run.columns.length - 1);
    const place = run.columns[at][0] / run.wide * 100;
    fill(tip, run, run.columns[at]);
    cursor.style.left = place + '%';
    tip.style.left = place > 50 ? '' : 'calc(' + place + '% + .6rem)';
    tip.style.right = place > 50 ? 'calc(' + (100 - place) + '% + .6rem)' : '';
    cursor.hidden = tip.hidden = false;
  };
  const point = (event) => {
    const box = plot.getBoundingClientRect();
    show(columnAt(run, (event.clientX - box.left) / box.width));
  };
  hide();
  plot.addEventListener('pointermove', point);
  plot.addEventListener('pointerdown', point);
  plot.addEventListener('pointerleave', hide);
  plot.addEventListener('blur', hide);
  plot.addEventListener('keydown', (event) => {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === 'Escape') hide();
    if (way === undefined) return;
    event.preventDefault();
    show(cursor.hidden ? at : at + way);
  });
});
