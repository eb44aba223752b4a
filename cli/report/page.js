'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
const time = ns => { const a = Math.abs(ns);
  return a < 1e3 ? ns.toFixed(0) + ' ns' : a < 1e6 ? (ns / 1e3).toPrecision(3) + ' us'
    : a < 1e9 ? (ns / 1e6).toPrecision(3) + ' ms' : (ns / 1e9).toPrecision(3) + ' s'; };
// Compute, communication, copies, host: Okabe and Ito's colours, which nobody takes for each other.
const COLORS = ['#0072b2', '#d55e00', '#cc79a7', '#009e73', '#999999'];

function timeline(canvas, view) {
  // Pixels; SCREEN and PAGE: the most rows that a screen and a printed page have room for.
  const LABEL = 150, HEAD = 20, ROW = 15, SCREEN = 460, PAGE = 900;
  const state = {from: 0, to: view.span, top: 0, pick: null, step: -1};
  const rows = view.lanes.map(lane => ({...lane, s: Float64Array.from(lane.s), d: Float64Array.from(lane.d)}));
  const path = {lane: Int32Array.from(view.path, entry => entry[0]), start: Float64Array.from(view.path, entry => entry[1]),
    end: Float64Array.from(view.path, entry => entry[1] + entry[2])};
  const context = canvas.getContext('2d');
  let width = 0, height = 0, queued = false;
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const size = most => {
    canvas.style.height = Math.min(HEAD + rows.length * ROW + 2, most) + 'px';
    const ratio = devicePixelRatio || 1;
    width = canvas.clientWidth; height = canvas.clientHeight;
    canvas.width = width * ratio; canvas.height = height * ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
  };
  const x = t => LABEL + (t - state.from) * (width - LABEL) / (state.to - state.from);
  const t = px => state.from + (px - LABEL) * (state.to - state.from) / (width - LABEL);
  const most = () => Math.max(0, rows.length * ROW + HEAD - height);
  const clamp = () => {
    const span = Math.min(Math.max(state.to - state.from, 100), view.span);
    state.from = Math.min(Math.max(state.from, 0), view.span - span);
    state.to = state.from + span;
    state.top = Math.min(Math.max(state.top, 0), most());
  };
  // The first event of a row that ends after a time; rows do not overlap themselves.
  const first = (row, at) => {
    let low = 0, high = row.s.length;
    while (low < high) { const mid = (low + high) >> 1;
      if (row.s[mid] + row.d[mid] < at) low = mid + 1; else high = mid; }
    return low;
  };
  function draw() {
    queued = false;
    const fg = css('--fg'), dim = css('--dim'), line = css('--line'), bg = css('--bg');
    context.fillStyle = bg; context.fillRect(0, 0, width, height);
    context.font = '11px system-ui,sans-serif'; context.textBaseline = 'middle';
    const ticks = Math.max(1, Math.min(6, Math.floor((width - LABEL) / 117)));  // A time is 55 wide, and the last stands before its tick.
    for (let i = 0; i <= ticks; i++) {
      const at = state.from + (state.to - state.from) * i / ticks, px = x(at);
      context.fillStyle = line; context.fillRect(px, HEAD, 1, height);
      context.fillStyle = dim; context.fillText(time(at), Math.min(px + 3, width - 55), HEAD / 2);
    }
    const scale = (width - LABEL) / (state.to - state.from);
    rows.forEach((row, number) => {
      const y = HEAD + number * ROW - state.top;
      if (y < HEAD - ROW || y > height) return;
      let done = LABEL - 1;
      for (let i = first(row, state.from); i < row.s.length && row.s[i] < state.to; i++) {
        const a = Math.max(LABEL, LABEL + (row.s[i] - state.from) * scale);
        const b = Math.min(width, LABEL + (row.s[i] + row.d[i] - state.from) * scale);
        if (b <= done) {                              // Its pixel is full, to the next event that shows.
          i = Math.max(i, first(row, state.from + (done - LABEL) / scale) - 1);
          continue;
        }
        const begin = Math.max(a, done), wide = Math.max(b - begin, 0.7);
        context.fillStyle = COLORS[row.k[i]]; context.fillRect(begin, y + 1, wide, ROW - 3);
        if (wide > 40) {
          context.fillStyle = '#fff';
          context.fillText(view.names[row.n[i]].slice(0, wide / 6), begin + 3, y + ROW / 2);
        }
        done = Math.max(begin + wide, Math.ceil(b));
      }
      context.fillStyle = bg; context.fillRect(0, y, LABEL, ROW);
      context.fillStyle = fg; context.fillText(row.name.slice(0, 24), 4, y + ROW / 2);
    });
    drawPath(css('--mark'));
    if (state.pick) {
      const {row, at} = state.pick, y = HEAD + row * ROW - state.top;
      context.strokeStyle = fg; context.lineWidth = 1.5;
      context.strokeRect(x(rows[row].s[at]), y, Math.max(2, rows[row].d[at] * scale), ROW - 1);
    }
  }
  // A pixel of a row, and one of a step from row to row, is drawn once.
  function drawPath(color) {
    context.fillStyle = color;
    const scale = (width - LABEL) / (state.to - state.from);
    let low = 0, high = path.end.length;
    while (low < high) { const mid = (low + high) >> 1;
      if (path.end[mid] < state.from) low = mid + 1; else high = mid; }
    let last = -1, done = LABEL, crossed = -1;
    for (let i = low; i < path.end.length && path.start[i] < state.to; i++) {
      const lane = path.lane[i];
      if (lane < 0) continue;
      const a = Math.max(LABEL, LABEL + (path.start[i] - state.from) * scale);
      const b = Math.min(width, LABEL + (path.end[i] - state.from) * scale), y = HEAD + lane * ROW - state.top + ROW - 2;
      if (last >= 0 && last !== y && Math.floor(a) !== crossed && Math.max(last, y) > HEAD) {
        crossed = Math.floor(a);
        context.fillRect(a, Math.max(HEAD, Math.min(last, y)), 1.5, Math.abs(y - last));
      }
      if ((last !== y ? Math.floor(b) >= done : b > done) && y > HEAD && y < height) {
        context.fillRect(Math.max(a, last === y ? done : a), y, Math.max(b - a, 0.7), 2);
        done = Math.ceil(b);
      }
      last = y;
    }
  }
  const later = () => { clamp(); if (!queued) { queued = true; requestAnimationFrame(draw); } };
  const tip = text => { $('tip').textContent = text; };
  const zoom = (factor, at) => {
    const middle = at === undefined ? (state.from + state.to) / 2 : at;
    state.from = middle - (middle - state.from) * factor; state.to = middle + (state.to - middle) * factor; later();
  };
  const pan = share => { const by = (state.to - state.from) * share; state.from += by; state.to += by; later(); };
  const along = by => {
    if (!view.path.length) return;
    state.step = (state.step + by + view.path.length) % view.path.length;
    const [lane, start, duration, kind, name] = view.path[state.step];
    const span = Math.max(duration * 6, 2000);
    state.from = start + duration / 2 - span / 2; state.to = state.from + span;
    if (lane >= 0) state.top = lane * ROW - height / 2;
    tip(`critical path ${state.step + 1} of ${view.path.length}: ${kind} ${name}, ${time(duration)} at ${time(start)}`);
    later();
  };
  // Of many ranks, those that the path crosses longest.
  const showPath = () => {
    const lasts = new Map();
    path.lane.forEach((lane, i) => lasts.set(lane, (lasts.get(lane) || 0) + path.end[i] - path.start[i]));
    const lane = [...lasts].filter(([lane]) => lane >= 0).reduce((a, b) => (b[1] > a[1] ? b : a), [0, 0])[0];
    if (HEAD + (lane + 1) * ROW > height) state.top = lane * ROW - height / 2;
  };
  const actions = {ArrowLeft: () => pan(-0.1), ArrowRight: () => pan(0.1), ArrowUp: () => { state.top -= ROW * 3; later(); },
    ArrowDown: () => { state.top += ROW * 3; later(); }, '+': () => zoom(0.7), '=': () => zoom(0.7), '-': () => zoom(1.4),
    Home: () => { state.from = 0; state.to = view.span; state.top = 0; later(); }, n: () => along(1), p: () => along(-1)};
  canvas.addEventListener('keydown', event => {
    const action = actions[event.key];
    if (action) { action(); event.preventDefault(); }
  });
  canvas.addEventListener('wheel', event => {
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) zoom(event.deltaY > 0 ? 1.2 : 0.83, t(event.offsetX));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / width);
    else { state.top += event.deltaY / 2; later(); }
  }, {passive: false});
  let drag = null;
  canvas.addEventListener('pointerdown', event => { drag = {x: event.offsetX, y: event.offsetY}; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener('pointerup', () => { drag = null; });
  canvas.addEventListener('pointermove', event => {
    if (drag) {
      pan((drag.x - event.offsetX) / (width - LABEL)); state.top += drag.y - event.offsetY;
      drag = {x: event.offsetX, y: event.offsetY}; return later();
    }
    const row = Math.floor((event.offsetY - HEAD + state.top) / ROW), at = t(event.offsetX);
    state.pick = null;
    if (rows[row] && event.offsetX > LABEL) {
      const i = first(rows[row], at);
      if (i < rows[row].s.length && rows[row].s[i] <= at) {
        state.pick = {row, at: i};
        tip(`${rows[row].name}: ${view.names[rows[row].n[i]]}, ${time(rows[row].d[i])} at ${time(rows[row].s[i])}`);
      }
    }
    later();
  });
  document.querySelectorAll('[data-key]').forEach(button =>
    button.addEventListener('click', () => { actions[button.dataset.key](); canvas.focus(); }));
  addEventListener('resize', () => { size(SCREEN); later(); });
  // Paper has no wheel: all rows that fit a page.
  addEventListener('beforeprint', () => { size(PAGE); clamp(); draw(); });
  addEventListener('afterprint', () => { size(SCREEN); later(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', later);
  size(SCREEN); showPath(); clamp(); draw();
  return {state, draw, clamp, rows, pan, zoom, along};
}

function sliders(box, grid) {
  const chosen = grid.axes.map(axis => axis.values.indexOf(1));
  const answer = document.createElement('p'); answer.className = 'answer';
  const show = () => {
    let place = 0;
    grid.axes.forEach((axis, i) => { place = place * axis.values.length + chosen[i]; });
    const step = grid.step_ns[place], change = step / grid.now_ns - 1;
    answer.textContent = `${time(step)} (${change <= 0 ? '' : '+'}${(change * 100).toFixed(1)} %), recorded ${time(grid.now_ns)}`;
    answer.dataset.step = step;
  };
  grid.axes.forEach((axis, i) => {
    const label = document.createElement('label'), name = document.createElement('span'),
      input = document.createElement('input'), value = document.createElement('span');
    name.textContent = axis.title;
    Object.assign(input, {type: 'range', min: 0, max: axis.values.length - 1, step: 1, value: chosen[i]});
    input.dataset.axis = axis.name;
    const set = () => { chosen[i] = +input.value; value.textContent = axis.values[chosen[i]] + 'x'; show(); };
    input.addEventListener('input', set);
    label.append(name, input, value); box.append(label); set();
  });
  box.append(answer); show();
}

if (data.timeline && $('timeline')) window.reprise = timeline($('timeline'), data.timeline);
if (data.what_if && $('what-if')) sliders($('what-if'), data.what_if);
