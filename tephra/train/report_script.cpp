// SPDX-License-Identifier: Apache-2.0
// JavaScript of the report. It draws the data of the page as SVG, again when the width changes, and
// shows the values under the pointer in all plots at once.
#include "tephra/train/report_text.h"

namespace tephra {

const std::string_view kReportScript = R"js(
'use strict';
(() => {
const D = JSON.parse(document.getElementById('data').textContent);
const NS = 'http://www.w3.org/2000/svg';
const PAD = {left: 54, right: 10, top: 8, bottom: 24};
const state = {axis: 'step', smooth: 0.7};
const plots = [];

const el = (tag, attributes, parent, text) => {
  const e = tag[0] === '.' ? document.createElement('div') : document.createElement(tag);
  if (tag[0] === '.') e.className = tag.slice(1);
  for (const k in attributes || {}) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
};
const svg = (tag, attributes, parent, text) => {
  const e = document.createElementNS(NS, tag);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
};

// Numbers for people: 12,345  1.2M  0.00034 as 3.4e-4.
const short = v => {
  const a = Math.abs(v);
  for (const [limit, mark] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e4, 'k']]) {
    if (a >= limit) {
      const s = mark === 'k' ? 1e3 : limit;
      return +(v / s).toPrecision(3) + mark;
    }
  }
  if (a !== 0 && a < 1e-3) return v.toExponential(2).replace(/\.?0+e/, 'e');
  return String(+v.toPrecision(4));
};
const exact = v => Math.abs(v) >= 1e6 || (v !== 0 && Math.abs(v) < 1e-3) ? short(v)
    : (+v.toPrecision(5)).toLocaleString('en');

// A step's place on the chosen axis, between the known points.
const place = step => {
  const to = D.axis[state.axis];
  if (state.axis === 'step' || !to || !to.length) return step;
  const from = D.axis.step;
  let low = 0, high = from.length - 1;
  if (step <= from[0]) return to[0];
  if (step >= from[high]) return to[high];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (from[middle] <= step) low = middle; else high = middle;
  }
  return to[low] + (to[high] - to[low]) * (step - from[low]) / (from[high] - from[low]);
};

const ticks = (low, high, count) => {
  const span = high - low || Math.abs(high) || 1;
  const raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find(m => m * power >= raw) * power;
  const result = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) {
    result.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  }
  return result;
};
const logTicks = (low, high) => {
  const a = Math.floor(Math.log10(low)), b = Math.ceil(Math.log10(high)), result = [];
  const factors = b - a <= 2 ? [1, 2, 3, 5] : [1];
  for (let p = a; p <= b; ++p) {
    for (const f of factors) {
      const v = f * 10 ** p;
      if (v >= low * 0.999 && v <= high * 1.001) result.push(v);
    }
  }
  return result.length >= 2 ? result : ticks(low, high, 4);
};

const smoothed = values => {
  const keep = state.smooth, result = [];
  let sum = 0, weight = 0;
  for (const v of values) {
    sum = keep * sum + (1 - keep) * v;
    weight = keep * weight + (1 - keep);
    result.push(sum / weight);
  }
  return result;
};
const nearest = (sorted, v) => {
  let low = 0, high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= v) low = middle; else high = middle;
  }
  return v - sorted[low] <= sorted[high] - v ? low : high;
};

// Of what is drawn; the few wildest values of a band are left out of the view, not of the data.
const extent = (chart, log) => {
  const values = [];
  for (const s of chart.series) {
    const part = s.low ? s.low.concat(s.high) : s.mean;
    for (const v of part) if (!log || v > 0) values.push(v);
  }
  values.sort((a, b) => a - b);
  if (!values.length) return [0, 1];
  const cut = chart.clip && values.length > 200 ? 0.004 : 0;
  let low = values[Math.floor(values.length * cut)];
  let high = values[Math.ceil(values.length * (1 - cut)) - 1];
  if (chart.zero && !log) low = Math.min(0, low);
  if (chart.whole) high = 1;
  if (low === high) { const d = Math.abs(low) * 0.1 || 1; low -= log ? d / 2 : d; high += d; }
  const margin = (high - low) * 0.04;
  return log ? [low / 1.05, high * 1.05] : [chart.zero && low >= 0 ? low : low - margin, high + margin];
};

// Of lines beyond the sixth, whose colours come again.
const DASHES = ['none', '6 3', '2 3', '8 3 2 3'];

class Plot {
  constructor(chart, parent) {
    this.chart = chart;
    this.log = !!chart.log;
    this.card = el('.card' + (chart.wide ? ' wide' : ''), {}, parent);
    const head = el('.head', {}, this.card);
    el('h3', {}, head, chart.title);
    if (chart.canLog) {
      this.button = el('button', {type: 'button', 'aria-pressed': this.log}, head, 'log');
      this.button.onclick = () => {
        this.log = !this.log;
        this.button.setAttribute('aria-pressed', this.log);
        this.draw();
      };
    }
    this.legend = el('.legend', {}, this.card);
    this.svg = svg('svg', {role: 'img', 'aria-label': chart.title}, this.card);
    const move = e => show(this.stepAt(e.clientX - this.svg.getBoundingClientRect().left));
    this.svg.addEventListener('pointermove', move);
    this.svg.addEventListener('pointerdown', move);
    this.svg.addEventListener('pointerleave', () => show(null));
    plots.push(this);
  }

  stepAt(px) {
    const x = this.x0 + (px - PAD.left) / (this.width - PAD.left - PAD.right) * (this.x1 - this.x0);
    const s = this.chart.series[0];
    return s.step[nearest(this.places[0], x)];
  }

  draw() {
    this.width = Math.max(220, this.svg.clientWidth || this.card.clientWidth - 26);
    this.height = this.chart.wide ? Math.max(220, Math.min(340, this.width * 0.32)) : Math.max(170, Math.min(230, this.width * 0.46));
    this.svg.setAttribute('viewBox', `0 0 ${this.width} ${this.height}`);
    this.svg.style.height = this.height + 'px';
    this.svg.replaceChildren();
    this.places = this.chart.series.map(s => s.step.map(place));
    const all = this.places.flat();
    this.x0 = Math.min(...all); this.x1 = Math.max(...all);
    if (this.x0 === this.x1) { this.x0 -= 1; this.x1 += 1; }
    [this.y0, this.y1] = extent(this.chart, this.log);
    const w = this.width - PAD.left - PAD.right, h = this.height - PAD.top - PAD.bottom;
    const f = this.log ? Math.log : v => v;
    this.px = x => PAD.left + (x - this.x0) / (this.x1 - this.x0) * w;
    this.py = y => PAD.top + h - (f(this.log ? Math.max(y, this.y0) : y) - f(this.y0)) / (f(this.y1) - f(this.y0)) * h;
    this.axes();
    this.marks();
    const id = 'c' + plots.indexOf(this);
    const clip = svg('clipPath', {id}, this.svg);
    svg('rect', {x: PAD.left, y: PAD.top - 2, width: w + 2, height: h + 4}, clip);
    const body = svg('g', {'clip-path': `url(#${id})`}, this.svg);
    this.chart.series.forEach((s, i) => this.line(s, i, body));
    this.cursor = svg('line', {y1: PAD.top, y2: PAD.top + h, stroke: 'var(--dim)', 'stroke-dasharray': '2 3', visibility: 'hidden'}, this.svg);
    this.show(null);
  }

  axes() {
    const bottom = this.height - PAD.bottom;
    const ys = this.log ? logTicks(this.y0, this.y1) : ticks(this.y0, this.y1, this.height > 200 ? 5 : 4);
    for (const y of ys) {
      svg('line', {x1: PAD.left, x2: this.width - PAD.right, y1: this.py(y), y2: this.py(y), stroke: 'var(--grid)'}, this.svg);
      svg('text', {x: PAD.left - 6, y: this.py(y) + 4, 'text-anchor': 'end'}, this.svg, this.chart.percent ? +(y * 100).toPrecision(4) + '%' : short(y));
    }
    for (const x of ticks(this.x0, this.x1, Math.max(2, Math.floor(this.width / 95)))) {
      svg('text', {x: this.px(x), y: bottom + 16, 'text-anchor': 'middle'}, this.svg, short(x));
    }
    svg('line', {x1: PAD.left, x2: this.width - PAD.right, y1: bottom, y2: bottom, stroke: 'var(--line)'}, this.svg);
  }

  marks() {
    const bottom = this.height - PAD.bottom;
    D.phases.slice(1, 30).forEach(p => {
      const x = this.px(place(p.step));
      svg('line', {x1: x, x2: x, y1: PAD.top, y2: bottom, stroke: 'var(--dim)', 'stroke-opacity': .5}, this.svg);
      if (this.chart.wide) svg('text', {x: x + 4, y: PAD.top + 9}, this.svg, p.name);
    });
    if (!this.chart.skips) return;
    for (const step of D.skipped) {
      const x = this.px(place(step));
      svg('path', {d: `M${x - 3.5} ${bottom}l3.5 -6l3.5 6z`, fill: 'var(--bad)'}, this.svg);
    }
  }

  line(s, i, parent) {
    const x = this.places[i].map(this.px), color = `var(--s${i % 6})`, dash = i < 6 ? 'none' : DASHES[Math.floor(i / 6) % DASHES.length];
    const path = ys => 'M' + ys.map((y, k) => `${x[k].toFixed(1)} ${this.py(y).toFixed(1)}`).join('L');
    if (s.low) {
      const back = s.high.map((_, k) => { const j = s.high.length - 1 - k; return `${x[j].toFixed(1)} ${this.py(s.high[j]).toFixed(1)}`; });
      svg('path', {d: path(s.low) + 'L' + back.join('L') + 'Z', fill: color, style: 'opacity:var(--band)'}, parent);
    }
    const smooth = s.smooth && state.smooth > 0;
    svg('path', {d: path(s.mean), fill: 'none', stroke: color, 'stroke-width': smooth ? 1 : 1.7, 'stroke-opacity': smooth ? .4 : 1, 'stroke-linejoin': 'round', 'stroke-dasharray': dash}, parent);
    if (smooth) svg('path', {d: path(s.shown = smoothed(s.mean)), fill: 'none', stroke: color, 'stroke-width': 1.9, 'stroke-linejoin': 'round'}, parent);
    else s.shown = null;
    if (s.step.length <= 60) {
      s.mean.forEach((y, k) => svg('circle', {cx: x[k], cy: this.py(y), r: s.step.length === 1 ? 3.5 : 2.2, fill: color}, parent));
    }
  }

  // Values at a step, or the last ones.
  show(step) {
    this.legend.replaceChildren();
    this.chart.series.forEach((s, i) => {
      const k = step === null ? s.step.length - 1 : nearest(s.step, step);
      const item = el('span', {}, this.legend);
      el('i', {style: i < 6 ? `background:var(--s${i % 6})` : `border-top:3px ${i < 12 ? 'dashed' : 'dotted'} var(--s${i % 6});height:0`}, item);
      item.append(s.name + ' ');
      const say = v => this.chart.percent ? (v * 100).toFixed(1) + '%' : exact(v);
      el('b', {}, item, say((s.shown || s.mean)[k]));
      if (s.low && s.low[k] !== s.high[k]) item.append(` (${say(s.low[k])} to ${say(s.high[k])})`);
    });
    if (step === null) { this.cursor.setAttribute('visibility', 'hidden'); return; }
    el('span', {}, this.legend, 'step ' + step.toLocaleString('en'));
    const x = this.px(place(step));
    const inside = x >= PAD.left - 1 && x <= this.width - PAD.right + 1;
    this.cursor.setAttribute('visibility', inside ? 'visible' : 'hidden');
    this.cursor.setAttribute('x1', x); this.cursor.setAttribute('x2', x);
  }
}
const show = step => plots.forEach(p => p.show(step));

// Heat maps are drawn cell by cell on a canvas.
const color = name => {
  const value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map(i => parseInt(value.slice(i, i + 2), 16));
};
const blend = (stops, t) => {
  const at = Math.max(0, Math.min(1, t)) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2);
  return stops[i].map((v, k) => Math.round(v + (stops[i + 1][k] - v) * (at - i)));
};

class Heat {
  constructor(parent, map) {
    this.map = map;
    this.card = el('.card' + (map.wide ? ' wide' : ''), {}, parent);
    el('h3', {}, el('.head', {}, this.card), map.title);
    this.tip = el('.tip', {}, this.card, map.hint);
    this.svg = svg('svg', {role: 'img', 'aria-label': map.title}, this.card);
    this.scale = el('.scale', {}, this.card);
    this.svg.addEventListener('pointermove', e => this.point(e));
    this.svg.addEventListener('pointerdown', e => this.point(e));
    this.svg.addEventListener('pointerleave', () => { this.tip.textContent = map.hint; });
  }
  stops() { return (this.map.diverging ? ['--cold', '--h0', '--h2'] : ['--h0', '--h1', '--h2', '--h3']).map(color); }
  draw() {
    const {rows} = this.map, columns = rows[0].length;
    const width = Math.max(220, this.svg.clientWidth || 300), left = 34;
    const cell = Math.max(5, Math.min(26, 340 / rows.length)), height = cell * rows.length + 22;
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.svg.style.height = height + 'px';
    this.svg.replaceChildren();
    const image = document.createElement('canvas');
    image.width = columns; image.height = rows.length;
    const context = image.getContext('2d'), stops = this.stops(), pixels = context.createImageData(columns, rows.length);
    const {low, high} = this.map;
    rows.forEach((row, r) => row.forEach((v, c) => {
      const rgb = v === null ? [128, 128, 128] : blend(stops, (v - low) / (high - low || 1));
      pixels.data.set([...rgb, v === null ? 60 : 255], 4 * (r * columns + c));
    }));
    context.putImageData(pixels, 0, 0);
    svg('image', {href: image.toDataURL(), x: left, y: 0, width: width - left, height: cell * rows.length, preserveAspectRatio: 'none', style: 'image-rendering:pixelated'}, this.svg);
    const every = Math.ceil(14 / cell) * (rows.length > 20 ? 2 : 1);
    rows.forEach((_, r) => { if (r % every === 0) svg('text', {x: left - 5, y: (r + .5) * cell + 4, 'text-anchor': 'end'}, this.svg, r); });
    const labels = Math.max(2, Math.min(columns, Math.floor(width / 80)));
    for (let i = 0; i < labels; ++i) {
      const c = Math.round(i * (columns - 1) / (labels - 1 || 1));
      const anchor = i === 0 ? 'start' : i === labels - 1 ? 'end' : 'middle';
      const x = i === 0 ? left : i === labels - 1 ? width : left + (c + .5) / columns * (width - left);
      svg('text', {x, y: cell * rows.length + 15, 'text-anchor': anchor}, this.svg, this.map.step ? short(this.map.step[c]) : c);
    }
    this.left = left; this.cell = cell; this.width = width;
    this.scale.replaceChildren(short(low));
    const css = stops.map(s => `rgb(${s})`).join(',');
    el('i', {style: `background:linear-gradient(90deg,${css})`}, this.scale);
    this.scale.append(short(high) + (this.map.unit ? ' ' + this.map.unit : ''));
  }
  point(e) {
    const box = this.svg.getBoundingClientRect(), {rows, step} = this.map;
    const c = Math.floor((e.clientX - box.left - this.left) / (this.width - this.left) * rows[0].length);
    const r = Math.floor((e.clientY - box.top) / this.cell);
    if (!rows[r] || rows[r][c] === undefined) return;
    this.tip.textContent = `layer ${r}, ` + (step ? `step ${step[c].toLocaleString('en')}` : `expert ${c}`) + ': ' +
        (rows[r][c] === null ? 'none' : exact(rows[r][c]));
  }
}

const heats = [];
const drawAll = () => { plots.forEach(p => p.draw()); heats.forEach(h => h.draw()); };

for (const group of D.groups) {
  const parent = document.getElementById(group.id);
  group.charts.forEach(chart => new Plot(chart, parent));
  group.heats.forEach(map => heats.push(new Heat(parent, map)));
}
const axis = document.getElementById('axis');
for (const [name, label] of [['step', 'steps'], ['tokens', 'tokens'], ['hours', 'hours']]) {
  if (name !== 'step' && !D.axis[name].length) continue;
  const button = el('button', {type: 'button', 'aria-pressed': name === state.axis}, axis, label);
  button.onclick = () => {
    state.axis = name;
    for (const b of axis.children) b.setAttribute('aria-pressed', b === button);
    plots.forEach(p => p.draw());
  };
}
const slider = document.getElementById('smooth');
// Little for a short run, where it would only lag.
const points = D.axis.step.length;
state.smooth = Math.max(0, Math.min(0.7, 1 - 40 / (points || 1)));
slider.value = state.smooth * 100;
slider.oninput = () => { state.smooth = slider.value / 100; plots.forEach(p => p.draw()); };
let width = 0;
addEventListener('resize', () => { if (innerWidth !== width) { width = innerWidth; drawAll(); } });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => heats.forEach(h => h.draw()));
drawAll();
})();
)js";

}  // namespace tephra
