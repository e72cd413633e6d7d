// The whole recording: how busy each CPU was and how many waited for it, to zoom into.

import type { App, Spot } from './app';
import { button, fill, h, section } from './dom';
import { grouped, nanos, percent, since } from './format';
import { hideTip, showTip } from './tip';
import { onPaper, onTheme, palette } from './theme';
import { roundStep } from './ticks';

const AXIS = 24;
/** Room for the marks of moments. */
const MARKS = 12;
/** A click this near to a moment, in pixels, means it. */
const NEAR = 14;

export function overviewView(app: App): [HTMLElement, () => void] {
  const view = new Overview(app);
  return [view.element, () => view.start()];
}

class Overview {
  readonly element: HTMLElement;
  private readonly canvas = h('canvas', { id: 'overview-canvas', tabindex: 0, role: 'application', 'aria-describedby': 'overview-help overview-readout' });
  private readonly readout = h('p', { class: 'readout', id: 'overview-readout', 'aria-live': 'polite' });
  private readonly note = h('p', { class: 'far', role: 'status' });
  private readonly most: number;
  private lane = 0;
  private at: number;
  private drag: { from: number; to: number } | null = null;

  constructor(private readonly app: App) {
    const { lanes, span_ns } = app.trace;
    this.at = span_ns / 2;
    this.most = Math.max(16, ...lanes.waiting);
    const key = h(
      'ul',
      { class: 'legend' },
      h('li', {}, h('span', { class: 'swatch fill solid busy' }), 'CPU use'),
      h('li', {}, h('span', { class: 'swatch fill solid queue' }), `queue: tasks that wait, ${(this.most / 16).toFixed(1)} at most`),
      h('li', {}, h('span', { class: 'arrow' }, '▾'), 'a moment with details'),
    );
    const body = lanes.cpu.length
      ? h(
          'div',
          { class: 'panel' },
          key,
          h('div', { class: 'canvas-box' }, this.canvas),
          this.readout,
          this.note,
          h('div', { class: 'actions' }, button('Whole recording', () => app.zoom(null), { id: 'overview-all' })),
          h('p', { class: 'small muted', id: 'overview-help' }, 'Drag to zoom into a part, double-click for all; a click opens the nearest moment. Arrow keys move, + and − zoom, 0 shows all, Enter opens the moment.', lanes.hidden ? ` ${grouped(lanes.hidden)} more CPUs have no row.` : ''),
        )
      : h('p', { class: 'empty' }, 'Nothing ran in this recording.');
    this.element = section('timeline', 'The whole recording', 'Each CPU over time: how busy it was (from below), and how many tasks waited for it (from above). What is zoomed into here is shown by all charts.', body);
    this.canvas.setAttribute('aria-label', this.summary());
  }

  start(): void {
    if (!this.app.trace.lanes.cpu.length) return;
    const { canvas, app } = this;
    new ResizeObserver(() => this.paint()).observe(canvas.parentElement as HTMLElement);
    onTheme(() => this.paint());
    onPaper((width) => this.paint(width));
    app.onZoom(() => this.paint());
    app.onSearch(() => this.paint());
    canvas.addEventListener('pointerdown', (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.drag = { from: this.x(event), to: this.x(event) };
    });
    canvas.addEventListener('pointermove', (event) => this.move(event));
    canvas.addEventListener('pointerup', (event) => this.lift(event));
    canvas.addEventListener('pointercancel', () => (this.drag = null));
    canvas.addEventListener('pointerleave', hideTip);
    canvas.addEventListener('dblclick', () => app.zoom(null));
    canvas.addEventListener('keydown', (event) => this.key(event));
    this.paint();
  }

  private summary(): string {
    const { lanes } = this.app.trace;
    const total = (values: Uint8Array | Uint16Array): number => Array.from(values).reduce((sum, value) => sum + value, 0);
    const cells = Math.max(1, lanes.cpu.length * lanes.count);
    return `${lanes.cpu.length} CPUs over ${nanos(this.app.trace.span_ns)}: ${percent(total(lanes.busy) / 255 / cells)} busy, ${(total(lanes.waiting) / 16 / cells).toFixed(2)} tasks waiting for each on average`;
  }

  // ------------------------------------------------------------------ places

  private get view(): [number, number] {
    return this.app.range ?? [0, Math.max(1, this.app.trace.span_ns)];
  }

  private get left(): number {
    return 58;
  }

  private get laneHeight(): number {
    const rows = this.app.trace.lanes.cpu.length;
    return rows <= 8 ? 30 : rows <= 24 ? 20 : rows <= 64 ? 10 : 6;
  }

  private width = 0;

  private x(event: PointerEvent | MouseEvent): number {
    return event.clientX - this.canvas.getBoundingClientRect().left;
  }

  private timeOf(x: number): number {
    const [from, to] = this.view;
    return Math.min(to, Math.max(from, from + ((x - this.left) / Math.max(1, this.width - this.left)) * (to - from)));
  }

  private place(time: number): number {
    const [from, to] = this.view;
    return this.left + ((time - from) / (to - from)) * (this.width - this.left);
  }

  private laneAt(event: PointerEvent | MouseEvent): number {
    const y = event.clientY - this.canvas.getBoundingClientRect().top - AXIS - MARKS;
    return Math.min(this.app.trace.lanes.cpu.length - 1, Math.max(0, Math.floor(y / this.laneHeight)));
  }

  // ------------------------------------------------------------------ acts

  private move(event: PointerEvent): void {
    const x = this.x(event);
    if (this.drag) {
      this.drag.to = x;
      this.paint();
    }
    this.at = this.timeOf(x);
    this.lane = this.laneAt(event);
    const text = this.words();
    this.readout.textContent = text;
    showTip(event.clientX, event.clientY, text);
  }

  private lift(event: PointerEvent): void {
    const drag = this.drag;
    this.drag = null;
    if (!drag) return;
    const [a, b] = [drag.from, this.x(event)];
    if (Math.abs(a - b) > 4) {
      this.app.zoom([this.timeOf(a), this.timeOf(b)]);
      this.paint();
      return;
    }
    this.paint();
    this.at = this.timeOf(b);
    this.lane = this.laneAt(event);
    this.open();
  }

  /** Opens the nearest moment, or says that there is none. */
  private open(): void {
    const { app } = this;
    const cpu = app.trace.lanes.cpu[this.lane];
    const [from, to] = this.view;
    const slack = ((to - from) / Math.max(1, this.width - this.left)) * NEAR;
    const away = (spot: Spot): number => Math.max(0, spot.start - this.at, this.at - spot.end) + (spot.cpu === cpu ? 0 : slack / 2);
    const nearest = app.spots.filter((spot) => app.matches(spot.actor, spot.tid)).reduce<Spot | null>((best, spot) => (best && away(best) <= away(spot) ? best : spot), null);
    const isNear = nearest !== null && away(nearest) <= slack;
    fill(this.note, ...(isNear ? [] : app.nothingNear(this.at, nearest)));
    if (isNear) app.open(nearest);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [from, to] = this.view;
    const step = (to - from) / 50;
    const middle = (factor: number): void => this.app.zoom([this.at - (this.at - from) * factor, this.at + (to - this.at) * factor]);
    const acts: Record<string, () => void> = {
      ArrowLeft: () => (this.at = Math.max(0, this.at - step)),
      ArrowRight: () => (this.at = Math.min(this.app.trace.span_ns, this.at + step)),
      ArrowUp: () => (this.lane = Math.max(0, this.lane - 1)),
      ArrowDown: () => (this.lane = Math.min(this.app.trace.lanes.cpu.length - 1, this.lane + 1)),
      '+': () => middle(1 / 1.6),
      '=': () => middle(1 / 1.6),
      '-': () => middle(1.6),
      '0': () => this.app.zoom(null),
    };
    if (event.key === 'Enter') this.open();
    else if (acts[event.key]) {
      acts[event.key]();
      const [left, right] = this.view;
      if (this.at < left || this.at > right) this.app.zoom([this.at - (to - from) / 2, this.at + (to - from) / 2]);
      this.readout.textContent = this.words();
      this.paint();
    } else return;
    event.preventDefault();
  }

  private words(): string {
    const { lanes } = this.app.trace;
    const index = Math.min(lanes.count - 1, Math.floor(this.at / lanes.width_ns));
    const cell = this.lane * lanes.count + index;
    return `CPU ${lanes.cpu[this.lane]} at ${this.app.time(this.at)}: ${percent(lanes.busy[cell] / 255)} busy, ${(lanes.waiting[cell] / 16).toFixed(1)} waiting on average`;
  }

  // ------------------------------------------------------------------ drawing

  private paint(paper?: number): void {
    const { canvas, app } = this;
    const { lanes } = app.trace;
    const width = paper ?? canvas.parentElement?.clientWidth ?? 0;
    const context = canvas.getContext('2d');
    if (!context || width <= this.left) return;
    this.width = width;
    const row = this.laneHeight;
    const height = AXIS + MARKS + lanes.cpu.length * row + 4;
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    canvas.dataset['view'] = this.view.map(Math.round).join('-');
    context.setTransform(scale, 0, 0, scale, 0, 0);
    const colours = palette();
    context.fillStyle = colours.surface;
    context.fillRect(0, 0, width, height);
    this.axis(context, height);
    context.save();
    context.beginPath();
    context.rect(this.left, 0, width - this.left, height);
    context.clip();
    this.marks(context);
    for (let lane = 0; lane < lanes.cpu.length; lane++) this.drawLane(context, lane, AXIS + MARKS + lane * row, row);
    this.cursor(context, height);
    context.restore();
    context.fillStyle = colours.muted;
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    context.font = `${row < 9 ? 9 : 11}px system-ui, sans-serif`;
    const every = Math.max(1, Math.ceil(11 / row));
    for (let lane = 0; lane < lanes.cpu.length; lane += every) context.fillText(`CPU ${lanes.cpu[lane]}`, 2, AXIS + MARKS + lane * row + row / 2 + 1);
  }

  private axis(context: CanvasRenderingContext2D, height: number): void {
    const colours = palette();
    const [from, to] = this.view;
    const step = roundStep(((to - from) * 90) / Math.max(1, this.width - this.left));
    context.font = '11px system-ui, sans-serif';
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const x = Math.round(this.place(at)) + 0.5;
      context.strokeStyle = colours.grid;
      context.beginPath();
      context.moveTo(x, 6);
      context.lineTo(x, height);
      context.stroke();
      context.fillStyle = colours.muted;
      if (x < this.width - 52) context.fillText(since(at, step), x + 3, 11);
    }
  }

  private marks(context: CanvasRenderingContext2D): void {
    context.fillStyle = palette().accent;
    for (const spot of this.app.spots) {
      if (!this.app.matches(spot.actor, spot.tid)) continue;
      const x = this.place(spot.end);
      context.beginPath();
      context.moveTo(x, AXIS + MARKS - 2);
      context.lineTo(x - 4, AXIS + 2);
      context.lineTo(x + 4, AXIS + 2);
      context.fill();
    }
  }

  private drawLane(context: CanvasRenderingContext2D, lane: number, top: number, row: number): void {
    const { lanes } = this.app.trace;
    const colours = palette();
    const [from, to] = this.view;
    const first = Math.max(0, Math.floor(from / lanes.width_ns));
    const last = Math.min(lanes.count - 1, Math.floor(to / lanes.width_ns));
    const room = row - 1;
    // The queue hangs from the top, in the upper two fifths; CPU use stands on the bottom.
    const upper = room * 0.4;
    const lower = room - upper;
    context.fillStyle = colours.grid;
    context.fillRect(this.left, top + room, this.width - this.left, 1);
    for (let index = first; index <= last; index++) {
      const cell = lane * lanes.count + index;
      const x = this.place(index * lanes.width_ns);
      const width = Math.max(1, this.place((index + 1) * lanes.width_ns) - x);
      const busy = lanes.busy[cell] / 255;
      if (busy > 0) {
        const tall = Math.max(1, busy * lower);
        context.fillStyle = colours.busy;
        context.fillRect(x, top + room - tall, width + 0.5, tall);
      }
      const queue = lanes.waiting[cell];
      if (queue > 0) {
        context.fillStyle = colours.queue;
        context.fillRect(x, top, width + 0.5, Math.max(1, Math.sqrt(queue / this.most) * upper));
      }
    }
  }

  private cursor(context: CanvasRenderingContext2D, height: number): void {
    const colours = palette();
    if (this.drag && Math.abs(this.drag.to - this.drag.from) > 4) {
      context.fillStyle = colours.isDark ? 'rgba(255,255,255,.14)' : 'rgba(0,0,0,.1)';
      context.fillRect(Math.min(this.drag.from, this.drag.to), AXIS, Math.abs(this.drag.to - this.drag.from), height);
    }
    if (document.activeElement !== this.canvas) return;
    context.strokeStyle = colours.text;
    context.strokeRect(Math.round(this.place(this.at)) - 0.5, AXIS + MARKS + this.lane * this.laneHeight, 1, this.laneHeight);
  }
}
