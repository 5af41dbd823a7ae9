'use strict';
// Draws the plans that stand in the page as JSON: a map of each program's memory
// over time, what is pinned, and the tables. Nothing is computed here but where
// things stand on the screen, and sums of live buffers by kind.
//
// A *program* is one schedule in one arena; its *buffers* live in half-open
// intervals of time, which counts nodes. Addresses are bytes from the arena's
// first. Buffers on the host stand in a strip of their own.

const page = JSON.parse(document.getElementById('plans').textContent);
const byId = (id) => document.getElementById(id);
const programs = page.programs;

const kindTitles = {
  weights: 'weights',
  state: 'optimizer state',
  inputs: 'inputs',
  saved: 'saved for backward',
  gradients: 'gradients',
  recomputed: 'recomputed',
  temporary: 'temporary',
  scratch: 'scratch',
  host: 'host memory',
};
const phases = ['forward', 'backward', 'update'];

// ---- Words and numbers ------------------------------------------------------

function formatBytes(bytes) {
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  if (Math.abs(bytes) < 1024) return `${bytes} B`;
  let scaled = bytes / 1024;
  let unit = 0;
  while (Math.abs(scaled) >= 1024 && unit < 4) {
    scaled /= 1024;
    ++unit;
  }
  return `${scaled.toFixed(1)} ${units[unit]}`;
}

// Of a place on an axis: as short as it is exact.
function tickBytes(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  const unit = bytes < 1 ? 0 : Math.min(5, Math.floor(Math.log2(bytes) / 10));
  return `${Number((bytes / 1024 ** unit).toFixed(3))} ${units[unit]}`;
}

const withCommas = (number) => number.toLocaleString('en-US');
const exactBytes = (bytes) => `${withCommas(bytes)} bytes`;
const percent = (part, whole) =>
  `${(whole === 0 ? 0 : (100 * part) / whole).toFixed(1)} %`;
const signed = (bytes) => (bytes > 0 ? '+' : '') + formatBytes(bytes);
const counted = (count, noun) => `${withCommas(count)} ${noun}${count === 1 ? '' : 's'}`;
const interval = (buffer) => `[${withCommas(buffer.lower)}, ${withCommas(buffer.upper)})`;

// An element with attributes (or properties) and children (nodes or text).
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) {
      element.addEventListener(name.slice(2), value);
    } else if (value !== undefined && value !== false) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.filter((child) => child !== undefined));
  return element;
}

function swatch(kind) {
  return make('span', {class: 'swatch', style: `background: var(--${kind})`});
}

// ---- The buffers, prepared once ----------------------------------------------

for (const [index, program] of programs.entries()) {
  program.index = index;
  program.end = Math.max(1, program.nodes.length);
  program.buffers.forEach((buffer, i) => {
    buffer.program = program;
    buffer.index = i;
    buffer.onHost = buffer.region === 'host_state' || buffer.region === 'host_offload';
    // What lives on after the last node ends with the image.
    buffer.shownUpper = Math.min(buffer.upper, program.end);
    const first = buffer.values[0];
    const maker = first ? first.made : buffer.readers[0];
    const node = maker === undefined ? undefined : program.nodes[maker];
    buffer.op = node ? node.op : '';
    buffer.source = (first && first.source) || (node && node.source) || '';
    const words = [buffer.name, buffer.op, buffer.source, kindTitles[buffer.kind]];
    for (const value of buffer.values) {
      words.push(value.name, value.source || '');
      if (value.made !== undefined) words.push(program.nodes[value.made].op);
    }
    // For labels: what was recomputed or moved, its colour says.
    buffer.shortName = buffer.name.replace(/~(recomputed|reloaded|offloaded)\d*$/, '');
    buffer.words = words.join('\n').toLowerCase();
  });
  program.byName = new Map(program.buffers.map((buffer) => [buffer.name, buffer]));
  // Bands of one phase each, by time.
  program.bands = [];
  program.nodes.forEach((node, time) => {
    const last = program.bands[program.bands.length - 1];
    if (last && last.phase === node.phase) {
      last.upper = time + 1;
    } else {
      program.bands.push({phase: node.phase, lower: time, upper: time + 1});
    }
  });
  program.seams = program.bands.slice(1)
      .filter((band, i) => Math.max(band.upper - band.lower,
          program.bands[i].upper - program.bands[i].lower) > program.end / 12)
      .map((band) => band.lower);
  program.liveByKind = liveByKind(program);
  // Of states that are another program's: their bytes stay taken.
  const {weights, state} = program.figures.regions;
  const ownsStates = program.buffers.some((buffer) => buffer.region === 'state');
  program.kept = {from: weights, bytes: ownsStates ? 0 : state};
}

// Bytes of live buffers of the arena at every node, for each kind.
function liveByKind(program) {
  const live = {};
  for (const kind of page.kinds) {
    live[kind] = new Float64Array(program.nodes.length + 1);
  }
  for (const buffer of program.buffers) {
    if (buffer.onHost) continue;
    live[buffer.kind][buffer.lower] += buffer.bytes;
    live[buffer.kind][Math.min(buffer.upper, program.nodes.length)] -= buffer.bytes;
  }
  for (const kind of page.kinds) {
    for (let t = 1; t < live[kind].length; ++t) live[kind][t] += live[kind][t - 1];
  }
  return live;
}

const arenaTop = Math.max(1, ...programs.map((p) => p.figures.arena_bytes));
const kindsPresent = page.kinds.filter(
    (kind) => programs.some((p) => p.buffers.some((b) => b.kind === kind)));

// ---- What the user looks at ---------------------------------------------------

const look = {
  pinned: null,        // a buffer
  query: '',
  hits: [],            // buffers, in the order of programs and plans
  hidden: new Set(),   // kinds
  addresses: {from: 0, to: arenaTop},  // shared by all maps
};

const isHit = (buffer) => look.query === '' || buffer.words.includes(look.query);
const isShown = (buffer) => !look.hidden.has(buffer.kind);
const isPinned = (buffer) => look.pinned !== null && buffer.name === look.pinned.name;

// ---- Colours -------------------------------------------------------------------

let colours = {};

// The style's colours as the canvas takes them, and which ink reads well on each.
function readColours() {
  const probe = make('span');
  document.body.append(probe);
  const names = ['panel', 'ink', 'quiet', 'line', 'grid', 'empty', 'accent', 'peak',
    ...phases, ...page.kinds];
  colours = {inkOn: {}};
  for (const name of names) {
    probe.style.color = `var(--${name})`;
    colours[name] = getComputedStyle(probe).color;
    const [r, g, b] = colours[name].match(/[\d.]+/g).map(Number);
    colours.inkOn[name] = 0.299 * r + 0.587 * g + 0.114 * b > 135 ? '#14181f' : '#ffffff';
  }
  probe.remove();
}

// ---- A map -----------------------------------------------------------------------

const font = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const left = 74;
const right = 8;
const laneHeight = 12;  // of a phase
const mapTop = 3 * laneHeight + 8;
const mapHeight = 470;
const hostHeight = 96;
const curveHeight = 120;
const gap = 30;
const axisHeight = 22;

// Round numbers between `from` and `to`, at most `count`: decimal for times,
// powers of two for bytes.
function ticks(from, to, count, binary) {
  const least = (to - from) / Math.max(1, count);
  let step;
  if (binary) {
    step = 2 ** Math.ceil(Math.log2(least));
  } else {
    const power = 10 ** Math.floor(Math.log10(least));
    step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least);
  }
  step = Math.max(1, step);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}

// `text` without its middle, so that it takes at most `width` units; '' where not
// even four letters fit. The ends of names tell more than what is between.
function fitted(context, text, width) {
  const whole = context.measureText(text).width;
  if (whole <= width) return text;
  for (let length = Math.floor(text.length * width / whole); length >= 4; --length) {
    const head = Math.floor(length * 0.4);
    const cut = `${text.slice(0, head)}\u2026${text.slice(text.length - length + head)}`;
    if (context.measureText(cut).width <= width) return cut;
  }
  return '';
}

// A canvas as sharp as the screen, with a context that counts CSS pixels.
function prepare(canvas, height) {
  const width = canvas.clientWidth;
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = font;
  context.textBaseline = 'middle';
  return {context, width};
}

class ProgramMap {
  constructor(program) {
    this.program = program;
    this.times = {from: 0, to: program.end};
    this.hasHost = program.figures.host_bytes > 0;
    this.hostTop = mapTop + mapHeight + gap;
    this.curveTop = this.hasHost ? this.hostTop + hostHeight + gap : this.hostTop;
    this.height = this.curveTop + curveHeight + axisHeight;
    this.canvas = make('canvas', {
      tabindex: '0',
      role: 'img',
      'aria-label': `Memory of ${program.name} over time; the table below holds the same`,
    });
    this.moment = make('p', {class: 'moment'});
    const {figures} = program;
    // Longer programs are wider.
    const grow = Math.max(0.5, program.end / Math.max(...programs.map((p) => p.end)));
    this.element = make('figure', {'data-program': program.name, style: `flex-grow: ${grow}`},
        make('figcaption', {},
            make('b', {}, program.name),
            make('span', {}, `${formatBytes(figures.arena_bytes)} in ` +
                `${counted(program.buffers.length, 'buffer')}, ` +
                `${counted(program.nodes.length, 'node')}`)),
        this.canvas, this.moment);
    this.listen();
  }

  x(time) {
    const {from, to} = this.times;
    return left + this.plotWidth * (time - from) / (to - from);
  }
  y(address) {
    const {from, to} = look.addresses;
    return mapTop + mapHeight * (1 - (address - from) / (to - from));
  }
  hostY(address) {
    return this.hostTop + hostHeight * (1 - address / this.program.figures.host_bytes);
  }
  curveY(bytes) {
    return this.curveTop + curveHeight * (1 - bytes / arenaTop);
  }
  timeAt(x) {
    const {from, to} = this.times;
    return from + (to - from) * (x - left) / this.plotWidth;
  }
  addressAt(y) {
    const {from, to} = look.addresses;
    return from + (to - from) * (mapTop + mapHeight - y) / mapHeight;
  }

  // Where a buffer stands on the canvas.
  box(buffer) {
    const toY = buffer.onHost ? (a) => this.hostY(a) : (a) => this.y(a);
    const x = this.x(buffer.lower);
    const y = toY(buffer.address + buffer.bytes);
    return {
      x, y,
      width: this.x(buffer.shownUpper) - x,
      height: toY(buffer.address) - y,
    };
  }

  draw() {
    const {context, width} = prepare(this.canvas, this.height);
    this.context = context;
    this.plotWidth = Math.max(40, width - left - right);
    context.fillStyle = colours.panel;
    context.fillRect(0, 0, width, this.height);
    this.drawBands();
    this.drawPlane(mapTop, mapHeight, false);
    if (this.hasHost) this.drawPlane(this.hostTop, hostHeight, true);
    this.drawCurve();
    this.drawTimes();
    this.drawPeak();
    // For whoever reads the page by its elements.
    const {dataset} = this.element;
    dataset.timeFrom = this.times.from;
    dataset.timeTo = this.times.to;
    dataset.addressFrom = look.addresses.from;
    dataset.addressTo = look.addresses.to;
  }

  // The phases, a lane for each over the map.
  drawBands() {
    const {context} = this;
    phases.forEach((phase, lane) => {
      const y = lane * laneHeight;
      context.textAlign = 'right';
      context.fillStyle = colours.quiet;
      context.fillText(phase, left - 7, y + laneHeight / 2 + 0.5);
      context.fillStyle = colours.empty;
      context.fillRect(left, y, this.plotWidth, laneHeight - 2);
      context.fillStyle = colours[phase];
      for (const band of this.program.bands) {
        if (band.phase !== phase) continue;
        const from = Math.max(left, this.x(band.lower));
        const to = Math.min(left + this.plotWidth, this.x(band.upper));
        if (to > from) context.fillRect(from, y, Math.max(0.5, to - from), laneHeight - 2);
      }
    });
    context.textAlign = 'left';
  }

  // The arena, or the host's memory: grid, buffers, labels.
  drawPlane(top, height, onHost) {
    const {context, plotWidth} = this;
    const {figures} = this.program;
    const range = onHost ? {from: 0, to: figures.host_bytes} : look.addresses;
    const toY = onHost ? (a) => this.hostY(a) : (a) => this.y(a);
    context.fillStyle = colours.empty;
    context.fillRect(left, top, plotWidth, height);
    context.textAlign = 'right';
    for (const address of ticks(range.from, range.to, height / 44, true)) {
      context.fillStyle = colours.grid;
      context.fillRect(left, Math.round(toY(address)), plotWidth, 1);
      context.fillStyle = colours.quiet;
      context.fillText(tickBytes(address), left - 7, toY(address));
    }
    context.textAlign = 'left';
    if (onHost) {
      context.fillStyle = colours.quiet;
      context.fillText(`host memory, ${formatBytes(figures.host_bytes)}`, left, top - 10);
    }

    context.save();
    context.beginPath();
    context.rect(left, top, plotWidth, height);
    context.clip();
    if (!onHost) this.drawKept();
    for (const buffer of this.program.buffers) {
      if (buffer.onHost === onHost && isShown(buffer)) this.drawBuffer(buffer);
    }
    this.drawSeams(top, height);
    if (!onHost) this.drawArenaLine();
    for (const buffer of this.program.buffers) {
      if (buffer.onHost === onHost && isShown(buffer) && isPinned(buffer)) {
        this.drawPin(buffer);
      }
    }
    context.restore();
    context.strokeStyle = colours.line;
    context.strokeRect(left + 0.5, top + 0.5, plotWidth - 1, height - 1);
  }

  drawKept() {
    const {context} = this;
    const {from, bytes} = this.program.kept;
    if (bytes === 0) return;
    const top = this.y(from + bytes);
    const height = this.y(from) - top;
    context.globalAlpha = 0.25;
    context.fillStyle = colours.state;
    context.fillRect(left, top, this.plotWidth, height);
    context.globalAlpha = 1;
    context.fillStyle = colours.quiet;
    const text = `optimizer state, kept ${formatBytes(bytes)}`;
    if (height > 13) {
      context.fillText(fitted(context, text, this.plotWidth - 10), left + 5, top + height / 2);
    }
  }

  drawBuffer(buffer) {
    const {context} = this;
    const box = this.box(buffer);
    if (box.x > left + this.plotWidth || box.x + box.width < left) return;
    const hit = isHit(buffer);
    context.globalAlpha = hit ? 1 : 0.13;
    context.fillStyle = colours[buffer.kind];
    // Gaps between neighbours, where they are large enough to lose some.
    const gapX = box.width > 4 ? 1 : 0;
    const gapY = box.height > 4 ? 1 : 0;
    context.fillRect(box.x, box.y, Math.max(0.4, box.width - gapX),
        Math.max(0.4, box.height - gapY));
    if (hit) this.drawLabel(buffer, box);
    context.globalAlpha = 1;
  }

  drawLabel(buffer, box) {
    // Inside what is to be seen of the box.
    const x = Math.max(box.x, left) + 5;
    const room = Math.min(box.x + box.width, left + this.plotWidth) - x - 5;
    if (room < 24 || box.height < 13) return;
    const {context} = this;
    const name = fitted(context, buffer.shortName, room);
    if (!name) return;
    const top = Math.max(box.y, buffer.onHost ? this.hostTop : mapTop);
    const bottom = Math.min(box.y + box.height,
        buffer.onHost ? this.hostTop + hostHeight : mapTop + mapHeight);
    if (bottom - top < 13) return;
    const middle = (top + bottom) / 2;
    const size = formatBytes(buffer.bytes);
    const nameWidth = context.measureText(name).width;
    const sizeWidth = context.measureText(size).width;
    context.fillStyle = colours.inkOn[buffer.kind];
    if (nameWidth + sizeWidth + 10 <= room) {
      context.fillText(name, x, middle);
      context.globalAlpha *= 0.75;
      context.fillText(size, x + nameWidth + 8, middle);
    } else if (bottom - top >= 27 && sizeWidth <= room) {
      context.fillText(name, x, middle - 6.5);
      context.globalAlpha *= 0.75;
      context.fillText(size, x, middle + 7);
    } else {
      context.fillText(name, x, middle);
    }
  }

  // Where a long run of one phase begins or ends.
  drawSeams(top, height) {
    const {context} = this;
    context.strokeStyle = colours.ink;
    context.globalAlpha = 0.4;
    context.setLineDash([2, 3]);
    context.beginPath();
    for (const time of this.program.seams) {
      const x = Math.round(this.x(time)) + 0.5;
      context.moveTo(x, top);
      context.lineTo(x, top + height);
    }
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  // The arena's end, where another program's is higher.
  drawArenaLine() {
    const arena = this.program.figures.arena_bytes;
    if (arena === arenaTop) return;
    const {context} = this;
    const y = Math.round(this.y(arena)) + 0.5;
    context.strokeStyle = colours.ink;
    context.beginPath();
    context.moveTo(left, y);
    context.lineTo(left + this.plotWidth, y);
    context.stroke();
    context.fillStyle = colours.ink;
    context.fillText(`${page.compares ? 'arena' : 'this program'} ${formatBytes(arena)}`,
        left + 6, y - 9);
  }

  // An outline, and a mark for each node that reads it.
  drawPin(buffer) {
    const {context} = this;
    const box = this.box(buffer);
    context.fillStyle = colours.inkOn[buffer.kind];
    context.globalAlpha = 0.8;
    const thick = Math.min(5, Math.max(2, box.height / 3));
    for (const time of buffer.readers) {
      const x = this.x(time);
      context.fillRect(x, box.y + box.height - thick,
          Math.max(1.5, this.x(time + 1) - x - 0.5), thick);
    }
    context.globalAlpha = 1;
    context.lineWidth = 4;
    context.strokeStyle = colours.panel;
    const [x, y] = [box.x - 1, box.y - 1];
    const [width, height] = [Math.max(2, box.width) + 1, Math.max(2, box.height) + 1];
    context.strokeRect(x, y, width, height);
    context.lineWidth = 2;
    context.strokeStyle = colours.ink;
    context.strokeRect(x, y, width, height);
    context.lineWidth = 1;
  }

  // Live bytes, stacked by kind, under the arena's height.
  drawCurve() {
    const {context, plotWidth, program} = this;
    const {figures} = program;
    context.fillStyle = colours.empty;
    context.fillRect(left, this.curveTop, plotWidth, curveHeight);
    context.fillStyle = colours.quiet;
    context.fillText('live bytes', left, this.curveTop - 10);
    context.textAlign = 'right';
    for (const bytes of ticks(0, arenaTop, 3, true)) {
      context.fillStyle = colours.grid;
      context.fillRect(left, Math.round(this.curveY(bytes)), plotWidth, 1);
      context.fillStyle = colours.quiet;
      context.fillText(tickBytes(bytes), left - 7, this.curveY(bytes));
    }
    context.textAlign = 'left';

    context.save();
    context.beginPath();
    context.rect(left, this.curveTop, plotWidth, curveHeight);
    context.clip();
    const first = Math.max(0, Math.floor(this.times.from));
    const last = Math.min(program.nodes.length, Math.ceil(this.times.to));
    const under = new Float64Array(program.nodes.length + 1);
    for (const kind of page.kinds) {
      const live = program.liveByKind[kind];
      if (kind === 'state' && program.kept.bytes > 0) {
        const y = this.curveY(under[first] + program.kept.bytes);
        context.globalAlpha = 0.25;
        context.fillStyle = colours.state;
        context.fillRect(left, y, plotWidth, this.curveY(under[first]) - y);
        for (let t = 0; t < under.length; ++t) under[t] += program.kept.bytes;
      }
      context.beginPath();
      context.moveTo(this.x(first), this.curveY(under[first] || 0));
      for (let t = first; t < last; ++t) {
        const y = this.curveY(under[t] + live[t]);
        context.lineTo(this.x(t), y);
        context.lineTo(this.x(t + 1), y);
      }
      for (let t = last - 1; t >= first; --t) {
        const y = this.curveY(under[t]);
        context.lineTo(this.x(t + 1), y);
        context.lineTo(this.x(t), y);
        under[t] += live[t];
      }
      context.closePath();
      context.globalAlpha = look.hidden.has(kind) ? 0.15 : 1;
      context.fillStyle = colours[kind];
      context.fill();
    }
    context.globalAlpha = 1;
    this.drawSeams(this.curveTop, curveHeight);
    const bound = Math.round(this.curveY(figures.lower_bound_bytes)) + 0.5;
    context.strokeStyle = colours.ink;
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(left, bound);
    context.lineTo(left + plotWidth, bound);
    context.stroke();
    context.setLineDash([]);
    context.restore();
    context.strokeStyle = colours.line;
    context.strokeRect(left + 0.5, this.curveTop + 0.5, plotWidth - 1, curveHeight - 1);
    context.textAlign = 'right';
    context.fillStyle = colours.quiet;
    context.fillText(`- - lower bound ${formatBytes(figures.lower_bound_bytes)}`,
        left + plotWidth, this.curveTop - 10);
    context.textAlign = 'left';
  }

  drawTimes() {
    const {context} = this;
    const y = this.curveTop + curveHeight + 12;
    context.fillStyle = colours.quiet;
    context.textAlign = 'center';
    for (const time of ticks(this.times.from, this.times.to, this.plotWidth / 90, false)) {
      const x = this.x(time);
      if (x > left + this.plotWidth - 20) continue;
      context.fillText(withCommas(time), x, y);
    }
    context.textAlign = 'right';
    context.fillText('time', left - 7, y);
    context.textAlign = 'left';
  }

  drawPeak() {
    const {context} = this;
    const {figures} = this.program;
    const x = this.x(figures.peak_time + 0.5);
    if (this.program.nodes.length === 0 || x < left || x > left + this.plotWidth) return;
    context.strokeStyle = colours.peak;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(x, mapTop);
    context.lineTo(x, this.curveTop + curveHeight);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colours.peak;
    const onRight = x < left + this.plotWidth / 2;
    context.textAlign = onRight ? 'left' : 'right';
    const label = fitted(context, `peak: ${figures.peak_node}`, this.plotWidth / 2 - 20);
    context.fillText(label, onRight ? x + 5 : x - 5, mapTop + mapHeight + 10);
    context.textAlign = 'left';
  }

  // ---- What the user does with it ----

  bufferAt(x, y) {
    if (x < left || x > left + this.plotWidth) return null;
    const onHost = this.hasHost && y >= this.hostTop && y < this.hostTop + hostHeight;
    const inMap = y >= mapTop && y < mapTop + mapHeight;
    if (!onHost && !inMap) return null;
    let nearest = null;
    let distance = 2;  // pixels: what is thin can be hit, too
    for (const buffer of this.program.buffers) {
      if (buffer.onHost !== onHost || !isShown(buffer)) continue;
      const box = this.box(buffer);
      const away = Math.max(box.x - x, x - box.x - box.width, box.y - y,
          y - box.y - box.height, 0);
      if (away < distance) {
        distance = away;
        nearest = buffer;
      }
      if (away === 0) break;
    }
    return nearest;
  }

  zoom(factor, x, y, axes = 'both') {
    if (axes !== 'addresses') {
      const at = Math.min(Math.max(this.timeAt(x), this.times.from), this.times.to);
      this.times = scaled(this.times, factor, at, 0, this.program.end, 2);
    }
    if (axes !== 'times' && y < this.hostTop) {
      const at = Math.min(Math.max(this.addressAt(y), look.addresses.from),
          look.addresses.to);
      look.addresses = scaled(look.addresses, factor, at, 0, arenaTop,
          Math.min(arenaTop, 256));
    }
    redraw();
  }

  pan(dx, dy) {
    const time = -dx * (this.times.to - this.times.from) / this.plotWidth;
    this.times = moved(this.times, time, this.program.end);
    const address = dy * (look.addresses.to - look.addresses.from) / mapHeight;
    look.addresses = moved(look.addresses, address, arenaTop);
    redraw();
  }

  showAll() {
    this.times = {from: 0, to: this.program.end};
  }

  // So that a buffer takes a good part of the map.
  zoomTo(buffer) {
    const length = Math.max(8, 2.2 * (buffer.shownUpper - buffer.lower));
    const middle = (buffer.lower + buffer.shownUpper) / 2;
    this.times = within(middle, length, this.program.end);
    if (!buffer.onHost) {
      look.addresses = within(buffer.address + buffer.bytes / 2,
          Math.max(1024, 7 * buffer.bytes), arenaTop);
    }
    redraw();
  }

  tell(event) {
    const x = event.offsetX;
    const time = Math.floor(this.timeAt(x));
    const inside = x >= left && x <= left + this.plotWidth;
    const node = inside ? this.program.nodes[time] : undefined;
    this.moment.textContent = node ?
      `time ${withCommas(time)}: ${node.label} (${node.op}, ${node.phase}), ` +
      `live ${formatBytes(this.program.live[time])}` : '';
    const buffer = this.bufferAt(x, event.offsetY);
    this.canvas.style.cursor = buffer ? 'pointer' : '';
    if (!buffer) {
      hideTip();
      return;
    }
    showTip(event, make('b', {}, buffer.name),
        `${formatBytes(buffer.bytes)}, ${kindTitles[buffer.kind]}, lives ${interval(buffer)}`,
        make('br'), buffer.op, buffer.op && buffer.source ? ', ' : '', buffer.source);
  }

  listen() {
    const {canvas} = this;
    let drag = null;
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      const delta = event.deltaY || event.deltaX;  // shift turns one into the other
      const factor = Math.exp(Math.max(-60, Math.min(60, delta)) / 240);
      this.zoom(factor, event.offsetX, event.offsetY,
          event.shiftKey ? 'times' : event.altKey ? 'addresses' : 'both');
      hideTip();
    }, {passive: false});
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      drag = {x: event.clientX, y: event.clientY, far: false};
      try {
        canvas.setPointerCapture(event.pointerId);
      } catch {
        // A pointer that is not there any more needs no capture.
      }
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!drag) {
        this.tell(event);
        return;
      }
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      if (!drag.far && Math.hypot(dx, dy) < 4) return;
      drag = {x: event.clientX, y: event.clientY, far: true};
      canvas.classList.add('dragging');
      hideTip();
      this.pan(dx, dy);
    });
    canvas.addEventListener('pointerup', (event) => {
      if (drag && !drag.far) pin(this.bufferAt(event.offsetX, event.offsetY));
      drag = null;
      canvas.classList.remove('dragging');
    });
    canvas.addEventListener('pointercancel', () => {
      drag = null;
      canvas.classList.remove('dragging');
    });
    canvas.addEventListener('pointerleave', () => {
      hideTip();
      this.moment.textContent = '';
    });
    canvas.addEventListener('dblclick', (event) => {
      const buffer = this.bufferAt(event.offsetX, event.offsetY);
      if (buffer) this.zoomTo(buffer);
    });
    canvas.addEventListener('keydown', (event) => {
      const steps = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60],
        ArrowDown: [0, -60]}[event.key];
      if (!steps) return;
      event.preventDefault();
      this.pan(...steps);
    });
  }
}

// A range grown by `factor` about `at`, inside [least, most].
function scaled(range, factor, at, least, most, shortest) {
  const length = Math.min(most - least,
      Math.max(Math.min(shortest, most - least), (range.to - range.from) * factor));
  const share = (at - range.from) / (range.to - range.from);
  const from = Math.min(Math.max(at - share * length, least), most - length);
  return {from, to: from + length};
}

function moved(range, by, most) {
  const length = range.to - range.from;
  const from = Math.min(Math.max(range.from + by, 0), most - length);
  return {from, to: from + length};
}

function within(middle, length, most) {
  const whole = Math.min(length, most);
  const from = Math.min(Math.max(middle - whole / 2, 0), most - whole);
  return {from, to: from + whole};
}

const maps = programs.map((program) => new ProgramMap(program));

let drawing = false;

// Once for all that happens before the next frame.
function redraw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(drawNow);
}

function drawNow() {
  drawing = false;
  for (const map of maps) map.draw();
  drawLosses();
}

function zoomAll() {
  look.addresses = {from: 0, to: arenaTop};
  for (const map of maps) map.showAll();
  redraw();
}

function zoomMiddle(factor) {
  // Each map has its own times; the addresses are all maps', to be zoomed once.
  maps.forEach((map, i) => map.zoom(factor, left + map.plotWidth / 2,
      mapTop + mapHeight / 2, i === 0 ? 'both' : 'times'));
}

function showTip(event, ...children) {
  const tip = byId('tip');
  tip.replaceChildren(...children);
  tip.hidden = false;
  const {width, height} = tip.getBoundingClientRect();
  const x = event.clientX + 14 + width > innerWidth ? event.clientX - 14 - width :
    event.clientX + 14;
  const y = event.clientY + 16 + height > innerHeight ? event.clientY - 12 - height :
    event.clientY + 16;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.max(4, y)}px`;
}

function hideTip() {
  byId('tip').hidden = true;
}

// ---- What is pinned ---------------------------------------------------------------

function pin(buffer) {
  look.pinned = buffer;
  showPinned();
  markRows();
  remember();
  redraw();
}

const maxReaders = 60;

function showPinned() {
  const panel = byId('pinned');
  const buffer = look.pinned;
  delete panel.dataset.buffer;
  if (!buffer) {
    panel.replaceChildren(
        make('h2', {}, 'Nothing is pinned'),
        make('p', {class: 'quiet'}, 'Click a buffer to pin it here: what it is, which ' +
            'line of the program made it, and who reads it.'),
        make('h3', {}, 'Looking around'),
        make('ul', {},
            make('li', {}, 'The wheel zooms; with ', make('kbd', {}, 'Shift'),
                ' in time only, with ', make('kbd', {}, 'Alt'), ' in addresses only.'),
            make('li', {}, 'Drag to move, double click to zoom to a buffer.'),
            make('li', {}, make('kbd', {}, '/'), ' searches, ', make('kbd', {}, 'Enter'),
                ' goes from hit to hit, ', make('kbd', {}, '+'), ' ', make('kbd', {}, '-'),
                ' ', make('kbd', {}, '0'), ' zoom, ', make('kbd', {}, 'Esc'), ' lets go.')));
    return;
  }
  const {program} = buffer;
  panel.dataset.buffer = buffer.name;
  const rows = [];
  const add = (field, term, ...content) => {
    rows.push(make('dt', {}, term), make('dd', {'data-field': field}, ...content));
  };
  add('bytes', 'Size', `${formatBytes(buffer.bytes)} `,
      make('small', {}, exactBytes(buffer.bytes)));
  add('lifetime', 'Lives', `${interval(buffer)} `,
      make('small', {}, lifetimeWords(buffer)));
  add('address', buffer.onHost ? 'On host' : 'Address',
      `${withCommas(buffer.address)} \u2013 ${withCommas(buffer.address + buffer.bytes)}`);
  add('op', 'Made by', buffer.op || 'there from the start');
  if (buffer.source) add('source', 'Source', make('code', {}, buffer.source));
  if (programs.length > 1) add('program', page.compares ? 'Plan' : 'Program', program.name);
  for (const other of programs) {
    if (other === program) continue;
    const twin = other.byName.get(buffer.name);
    add('twin', `In ${other.name}`, twin ?
      `${formatBytes(twin.bytes)}, lives ${interval(twin)}` : 'not there');
  }
  panel.replaceChildren(
      make('h2', {'data-field': 'name'}, buffer.name),
      make('p', {class: 'kind', 'data-field': 'kind'}, swatch(buffer.kind),
          kindTitles[buffer.kind]),
      make('p', {class: 'buttons'},
          make('button', {type: 'button', onclick: () => maps[program.index].zoomTo(buffer)},
              'Zoom to it'),
          make('button', {type: 'button', onclick: () => pin(null)}, 'Let go')),
      make('dl', {}, ...rows));
  if (buffer.values.length > 0) {
    panel.append(
        make('h3', {}, buffer.values.length === 1 ? 'Value' :
          `${buffer.values.length} values, one over the other`),
        make('ol', {'data-field': 'values'},
            ...buffer.values.map((value) => valueItem(program, value))));
  }
  if (buffer.readers.length > 0) {
    const uses = buffer.kind === 'scratch' ? 'Scratch of' : 'Read by';
    const shown = buffer.readers.slice(0, maxReaders);
    panel.append(
        make('h3', {}, `${uses} ${counted(buffer.readers.length, 'node')}`),
        make('ol', {'data-field': 'readers'}, ...shown.map((time) => nodeItem(program, time))));
    if (shown.length < buffer.readers.length) {
      panel.append(make('p', {class: 'quiet'},
          `and ${withCommas(buffer.readers.length - shown.length)} more`));
    }
  } else {
    panel.append(make('h3', {}, 'No node reads it'));
  }
}

function lifetimeWords(buffer) {
  const {program} = buffer;
  if (buffer.lower === 0 && buffer.upper >= program.end) return 'the whole step';
  const nodes = counted(buffer.shownUpper - buffer.lower, 'node');
  const born = program.nodes[buffer.lower];
  const dies = program.nodes[buffer.shownUpper - 1];
  if (!born || !dies) return nodes;
  return born.phase === dies.phase ? `${nodes}, ${born.phase}` :
    `${nodes}, ${born.phase} to ${dies.phase}`;
}

function valueItem(program, value) {
  const node = value.made === undefined ? null : program.nodes[value.made];
  return make('li', {}, value.name, ' ', make('small', {}, value.type), make('br'),
      make('small', {}, node ? `time ${withCommas(value.made)}, ${node.op}, ${node.label}` :
        'there from the start'),
      value.source ? make('br') : undefined,
      value.source ? make('code', {}, value.source) : undefined);
}

function nodeItem(program, time) {
  const node = program.nodes[time];
  return make('li', {}, node.label, ' ',
      make('small', {}, `time ${withCommas(time)}, ${node.op}, ${node.phase}`),
      node.source ? make('br') : undefined,
      node.source ? make('code', {}, node.source) : undefined);
}

// ---- Search --------------------------------------------------------------------------

function search(text) {
  look.query = text.trim().toLowerCase();
  look.hits = look.query === '' ? [] :
    programs.flatMap((program) => program.buffers.filter((b) => isHit(b) && isShown(b)));
  const total = look.hits.reduce((sum, buffer) => sum + buffer.bytes, 0);
  byId('hits').textContent = look.query === '' ? '' :
    `${counted(look.hits.length, 'buffer')}, ${formatBytes(total)}`;
  byId('hits').dataset.count = look.hits.length;
  fillBuffers();
  remember();
  redraw();
}

function goToHit(step) {
  if (look.hits.length === 0) return;
  const at = look.hits.indexOf(look.pinned);
  const next = at < 0 ? (step > 0 ? 0 : look.hits.length - 1) :
    (at + step + look.hits.length) % look.hits.length;
  const buffer = look.hits[next];
  pin(buffer);
  maps[buffer.program.index].zoomTo(buffer);
}

// ---- Tables ---------------------------------------------------------------------------

const firstRows = 50;

const table = {
  sort: 'bytes',
  down: true,
  all: false,
  program: 0,
};

const columns = [
  {key: 'name', title: 'Buffer', of: (b) => b.name},
  {key: 'kind', title: 'For', of: (b) => page.kinds.indexOf(b.kind)},
  {key: 'bytes', title: 'Size', of: (b) => b.bytes, number: true},
  {key: 'lower', title: 'Lives', of: (b) => b.lower, number: true},
  {key: 'nodes', title: 'Nodes', of: (b) => b.shownUpper - b.lower, number: true},
  {key: 'readers', title: 'Readers', of: (b) => b.readers.length, number: true},
  {key: 'op', title: 'Op', of: (b) => b.op},
  {key: 'source', title: 'Source', of: (b) => b.source},
];

function fillBuffers() {
  const program = programs[table.program];
  const peak = program.figures.peak_time;
  const column = columns.find((c) => c.key === table.sort);
  const rows = program.buffers.filter((buffer) => isHit(buffer) && isShown(buffer) &&
    (!byId('at-peak').checked ||
     (!buffer.onHost && buffer.lower <= peak && peak < buffer.upper)));
  rows.sort((a, b) => {
    const [x, y] = [column.of(a), column.of(b)];
    const order = typeof x === 'number' ? x - y : x.localeCompare(y);
    return (table.down ? -order : order) || a.index - b.index;
  });
  const shown = table.all ? rows : rows.slice(0, firstRows);
  const total = rows.reduce((sum, buffer) => sum + buffer.bytes, 0);
  byId('shown').textContent = `${counted(rows.length, 'buffer')}, ${formatBytes(total)}`;
  byId('buffers').replaceChildren(
      make('thead', {}, make('tr', {}, ...columns.map((c) => make('th',
          {class: c.number && 'number', 'aria-sort': c.key !== table.sort ? undefined :
            table.down ? 'descending' : 'ascending'},
          make('button', {type: 'button', onclick: () => sortBy(c)},
              c.title + (c.key !== table.sort ? '' : table.down ? ' \u2193' : ' \u2191')))))),
      make('tbody', {}, ...shown.map(bufferRow)));
  const more = byId('all-buffers');
  more.hidden = shown.length === rows.length;
  more.textContent = `Show all ${withCommas(rows.length)}`;
  markRows();
}

// A row of a table that pins a buffer, by keys as well.
function pinRow(buffer, ...cells) {
  return make('tr', {
    'data-buffer': buffer.name,
    tabindex: '0',
    onclick: () => pin(buffer),
    onkeydown: (event) => {
      if (event.key === 'Enter') pin(buffer);
    },
  }, ...cells);
}

function bufferRow(buffer) {
  return pinRow(buffer,
      make('td', {class: 'name', title: buffer.name}, buffer.name),
      make('td', {}, swatch(buffer.kind), kindTitles[buffer.kind]),
      make('td', {class: 'number', title: exactBytes(buffer.bytes)}, formatBytes(buffer.bytes)),
      make('td', {class: 'number'}, interval(buffer)),
      make('td', {class: 'number'}, withCommas(buffer.shownUpper - buffer.lower)),
      make('td', {class: 'number'}, withCommas(buffer.readers.length)),
      make('td', {}, buffer.op),
      make('td', {}, make('code', {}, buffer.source)));
}

function sortBy(column) {
  table.down = table.sort === column.key ? !table.down : Boolean(column.number);
  table.sort = column.key;
  fillBuffers();
}

function markRows() {
  for (const row of document.querySelectorAll('tr[data-buffer]')) {
    row.classList.toggle('pinned',
        look.pinned !== null && row.dataset.buffer === look.pinned.name);
  }
}

// ---- Figures -----------------------------------------------------------------------------

const figureRows = [
  ['arena_bytes', 'Arena', 'what is allocated'],
  ['lower_bound_bytes', 'Lower bound', 'no packing needs less'],
  ['no_reuse_bytes', 'Without reuse', 'every value in a slot of its own'],
  ['saved_bytes', 'Saved', 'without reuse, less the arena'],
  ['caching_allocator_bytes', 'Caching allocator', 'simulated on this schedule'],
  ['host_bytes', 'Host memory', 'beside the arena'],
];

function tile(key, title, value, note, exact) {
  return make('dl', {class: 'tile', 'data-figure': key, title: exact},
      make('dt', {}, title), make('dd', {}, value, make('small', {}, note)));
}

// What is worth saying of one plan's figure, beside what it is.
function noteOf(key, figures) {
  if (key === 'arena_bytes' && figures.optimal) return 'no packing is smaller';
  if (key === 'saved_bytes') {
    return `${percent(figures.saved_bytes, figures.no_reuse_bytes)} less`;
  }
  if (key === 'caching_allocator_bytes') {
    const less = figures.caching_allocator_bytes - figures.arena_bytes;
    const share = percent(Math.abs(less), figures.caching_allocator_bytes);
    return `simulated; the arena is ${share} ${less < 0 ? 'more' : 'less'}`;
  }
  return undefined;
}

function fillFigures() {
  const tiles = byId('tiles');
  if (programs.length === 1) {
    const {figures} = programs[0];
    for (const [key, title, note] of figureRows) {
      if (key === 'host_bytes' && figures.host_bytes === 0) continue;
      tiles.append(tile(key, title, formatBytes(figures[key]), noteOf(key, figures) || note,
          exactBytes(figures[key])));
    }
    if (page.budget_bytes !== null) {
      tiles.append(tile('budget_bytes', 'Budget', formatBytes(page.budget_bytes),
          `${formatBytes(page.budget_bytes - figures.arena_bytes)} to spare`,
          exactBytes(page.budget_bytes)));
    }
    return;
  }
  const [a, b] = programs;
  const rows = figureRows.filter(([key]) =>
    key !== 'host_bytes' || programs.some((p) => p.figures.host_bytes > 0));
  const cell = (key, bytes) => make('td', {class: 'number', title: exactBytes(bytes),
    'data-figure': key, 'data-bytes': bytes}, formatBytes(bytes));
  const count = (title, of) => make('tr', {}, make('td', {}, title),
      ...programs.map((p) => make('td', {class: 'number'}, withCommas(of(p)))),
      page.compares ? make('td', {class: 'number'}, withCommas(of(b) - of(a))) : undefined,
      make('td'));
  tiles.append(make('table', {id: 'figures'},
      make('thead', {}, make('tr', {}, make('th'),
          ...programs.map((p) => make('th', {class: 'number'}, p.name)),
          page.compares ? make('th', {class: 'number'}, 'difference') : undefined, make('th'))),
      make('tbody', {},
          ...rows.map(([key, title, note]) => make('tr', {},
              make('td', {}, title),
              ...programs.map((p) => cell(key, p.figures[key])),
              page.compares ? make('td', {class: 'number', 'data-difference': key},
                  signed(b.figures[key] - a.figures[key]) +
                  (a.figures[key] === 0 ? '' :
                    ` (${percent(b.figures[key] - a.figures[key], a.figures[key])})`)) :
                undefined,
              make('td', {class: 'quiet'}, note))),
          count('Buffers', (p) => p.buffers.length),
          count('Nodes', (p) => p.nodes.length))));
}

// ---- Two plans compared ------------------------------------------------------------------

let allDifferences = false;

// Buffers of two plans that are not alike, by name, largest first.
function findDifferences() {
  const [a, b] = programs;
  const found = [];
  for (const buffer of a.buffers) {
    const other = b.byName.get(buffer.name);
    if (!other) {
      found.push({name: buffer.name, a: buffer, change: `only in ${a.name}`});
    } else if (other.bytes !== buffer.bytes) {
      found.push({name: buffer.name, a: buffer, b: other,
        change: `${signed(other.bytes - buffer.bytes)}`});
    } else if (other.kind !== buffer.kind) {
      found.push({name: buffer.name, a: buffer, b: other,
        change: `${kindTitles[buffer.kind]}, then ${kindTitles[other.kind]}`});
    }
  }
  for (const buffer of b.buffers) {
    if (!a.byName.has(buffer.name)) {
      found.push({name: buffer.name, b: buffer, change: `only in ${b.name}`});
    }
  }
  const size = (row) => Math.max(row.a ? row.a.bytes : 0, row.b ? row.b.bytes : 0);
  return found.sort((x, y) => size(y) - size(x));
}

function fillDifferences() {
  const [a, b] = programs;
  const found = findDifferences();
  const bytes = (list) => list.reduce((sum, buffer) => sum + buffer.bytes, 0);
  const onlyA = found.filter((row) => !row.b).map((row) => row.a);
  const onlyB = found.filter((row) => !row.a).map((row) => row.b);
  byId('comparison-summary').textContent =
    `Only in ${a.name}: ${counted(onlyA.length, 'buffer')}, ${formatBytes(bytes(onlyA))}. ` +
    `Only in ${b.name}: ${counted(onlyB.length, 'buffer')}, ${formatBytes(bytes(onlyB))}. ` +
    `In both, but of another size or for something else: ` +
    `${found.length - onlyA.length - onlyB.length}.`;
  const side = (buffer) => [
    make('td', {class: 'number'}, buffer ? formatBytes(buffer.bytes) : '\u2013'),
    make('td', {class: 'number'}, buffer ? interval(buffer) : ''),
  ];
  const shown = allDifferences ? found : found.slice(0, firstRows);
  byId('differences').replaceChildren(
      make('thead', {}, make('tr', {}, make('th', {}, 'Buffer'),
          make('th', {class: 'number'}, a.name), make('th', {class: 'number'}, 'lives'),
          make('th', {class: 'number'}, b.name), make('th', {class: 'number'}, 'lives'),
          make('th', {}, 'Change'))),
      make('tbody', {}, ...shown.map((row) => pinRow(row.a || row.b,
          make('td', {class: 'name', title: row.name}, swatch((row.a || row.b).kind), row.name),
          ...side(row.a), ...side(row.b), make('td', {}, row.change)))));
  const more = byId('all-differences');
  more.hidden = shown.length === found.length;
  more.textContent = `Show all ${withCommas(found.length)}`;
}

// ---- Losses -----------------------------------------------------------------------------

function drawLosses() {
  const losses = page.losses.filter((point) => point.loss !== null);
  if (losses.length === 0) return;
  const canvas = byId('loss');
  const height = 200;
  const {context, width} = prepare(canvas, height);
  const values = losses.map((point) => point.loss);
  if (page.held_out_loss !== null) values.push(page.held_out_loss);
  let low = values.reduce((a, b) => Math.min(a, b));
  let high = values.reduce((a, b) => Math.max(a, b));
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const [plotLeft, top, bottom] = [52, 10, height - 24];
  const first = losses[0].step;
  const last = Math.max(losses[losses.length - 1].step, first + 1);
  const x = (step) => plotLeft + (width - plotLeft - 12) * (step - first) / (last - first);
  const y = (loss) => bottom - (bottom - top) * (loss - low) / (high - low);
  context.textAlign = 'right';
  const decimals = high - low < 0.1 ? 4 : high - low < 10 ? 2 : 0;
  for (let i = 0; i <= 4; ++i) {
    const loss = low + (high - low) * i / 4;
    context.fillStyle = colours.grid;
    context.fillRect(plotLeft, Math.round(y(loss)), width - plotLeft - 12, 1);
    context.fillStyle = colours.quiet;
    context.fillText(loss.toFixed(decimals), plotLeft - 7, y(loss));
  }
  context.textAlign = 'center';
  for (const step of ticks(first, last, width / 110, false)) {
    context.fillText(withCommas(step), x(step), height - 9);
  }
  context.textAlign = 'left';
  context.strokeStyle = colours.accent;
  context.lineWidth = 1.5;
  context.lineJoin = 'round';
  context.beginPath();
  for (const point of losses) context.lineTo(x(point.step), y(point.loss));
  context.stroke();
  context.lineWidth = 1;
  if (page.held_out_loss === null) return;
  context.strokeStyle = colours.quiet;
  context.setLineDash([5, 4]);
  context.beginPath();
  context.moveTo(plotLeft, y(page.held_out_loss));
  context.lineTo(width - 12, y(page.held_out_loss));
  context.stroke();
  context.setLineDash([]);
  context.textAlign = 'right';
  context.fillStyle = colours.quiet;
  context.fillText('held out', width - 14, y(page.held_out_loss) - 8);
  context.textAlign = 'left';
}

function fillRun() {
  if (page.losses.length === 0) return;
  byId('run').hidden = false;
  const last = page.losses[page.losses.length - 1];
  const parts = [`step ${withCommas(last.step)}: ` +
    (page.last_loss === null ? 'not finite' : page.last_loss.toFixed(4))];
  if (page.held_out_loss !== null) {
    parts.push(`held-out loss ${page.held_out_loss.toFixed(4)}`);
  }
  if (page.steps_a_point > 1) {
    parts.push(`each point the mean of ${page.steps_a_point} steps`);
  }
  byId('run-summary').textContent = parts.join(', ');
  byId('loss').setAttribute('aria-label', `Loss by step; ${parts.join(', ')}`);
}

// ---- The switch between light and dark -----------------------------------------------------

const themes = {auto: '\u25d0 Auto', light: '\u2600 Light', dark: '\u263e Dark'};
let theme = 'auto';

// `lasting`: also for the next report that is opened.
function setTheme(name, lasting) {
  theme = name in themes ? name : 'auto';
  if (theme === 'auto') {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = theme;
  }
  byId('theme').textContent = themes[theme];
  try {
    if (lasting) localStorage.setItem('stowage-theme', theme);
  } catch {
    // Some browsers keep nothing for files; then the choice ends with the page.
  }
  readColours();
  redraw();
}

function keptTheme() {
  try {
    return localStorage.getItem('stowage-theme') || 'auto';
  } catch {
    return 'auto';
  }
}

// ---- Links: what is searched and pinned stands behind the # ---------------------------------

function remember() {
  const parts = new URLSearchParams();
  if (look.query) parts.set('search', look.query);
  if (look.pinned) parts.set('pin', look.pinned.name);
  try {
    history.replaceState(null, '', parts.toString() ? `#${parts}` : '#');
  } catch {
    // Then there is no link to what is looked at.
  }
}

function recall() {
  const parts = new URLSearchParams(location.hash.slice(1));
  if (parts.has('theme')) setTheme(parts.get('theme'), false);
  const query = parts.get('search');
  const name = parts.get('pin');
  if (query) {
    byId('search').value = query;
    search(query);
  }
  const program = programs.find((p) => p.byName.has(name));
  if (program) pin(program.byName.get(name));
}

// ---- Start -----------------------------------------------------------------------------------

function fillHeader() {
  byId('title').textContent = page.title;
  const {figures, nodes, buffers} = programs[0];
  const parts = [`${withCommas(figures.params)} parameters`];
  if (page.compares) {
    parts.push('two plans compared');
  } else if (programs.length > 1) {
    parts.push(`${programs.length} programs over one arena of ${formatBytes(arenaTop)}`);
  } else {
    parts.push(`${(figures.flops / 1e9).toFixed(3)} GFLOP a run`,
        counted(nodes.length, 'node'), counted(buffers.length, 'buffer'),
        `packer ${figures.packer}`, `order ${figures.order}`);
  }
  byId('subtitle').textContent = parts.join(', ');
}

function fillLegend() {
  for (const kind of kindsPresent) {
    byId('legend').append(make('button', {
      type: 'button',
      'aria-pressed': 'true',
      'data-kind': kind,
      title: kindTitles[kind],
      onclick: (event) => {
        if (!look.hidden.delete(kind)) look.hidden.add(kind);
        event.currentTarget.setAttribute('aria-pressed', String(!look.hidden.has(kind)));
        search(byId('search').value);
      },
    }, swatch(kind), kind));
  }
}

function fillProgramChoice() {
  if (programs.length === 1) return;
  byId('which-program').append(make('label', {}, page.compares ? 'Plan ' : 'Program ',
      make('select', {id: 'program', onchange: (event) => {
        table.program = Number(event.currentTarget.value);
        fillBuffers();
      }}, ...programs.map((p) => make('option', {value: p.index}, p.name)))));
}

function listen() {
  byId('search').addEventListener('input', (event) => search(event.currentTarget.value));
  byId('search').addEventListener('keydown', (event) => {
    if (event.key === 'Enter') goToHit(event.shiftKey ? -1 : 1);
  });
  byId('next').addEventListener('click', () => goToHit(1));
  byId('previous').addEventListener('click', () => goToHit(-1));
  byId('zoom-in').addEventListener('click', () => zoomMiddle(0.6));
  byId('zoom-out').addEventListener('click', () => zoomMiddle(1 / 0.6));
  byId('zoom-all').addEventListener('click', zoomAll);
  byId('at-peak').addEventListener('change', fillBuffers);
  byId('all-buffers').addEventListener('click', () => {
    table.all = true;
    fillBuffers();
  });
  byId('all-differences').addEventListener('click', () => {
    allDifferences = true;
    fillDifferences();
  });
  byId('theme').addEventListener('click', () => {
    const names = Object.keys(themes);
    setTheme(names[(names.indexOf(theme) + 1) % names.length], true);
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') pin(null);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === '/') {
      event.preventDefault();
      byId('search').focus();
    }
    if (event.key === '+' || event.key === '=') zoomMiddle(0.6);
    if (event.key === '-') zoomMiddle(1 / 0.6);
    if (event.key === '0') zoomAll();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    readColours();
    redraw();
  });
  addEventListener('resize', redraw);
}

fillHeader();
fillFigures();
fillLegend();
fillProgramChoice();
fillRun();
byId('maps').append(...maps.map((map) => map.element));
if (page.compares) {
  byId('comparison').hidden = false;
  fillDifferences();
}
fillBuffers();
showPinned();
setTheme(keptTheme(), false);
listen();
recall();
drawNow();
document.body.dataset.ready = 'true';
