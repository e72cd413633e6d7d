// The moment: what every CPU did around one wait, who waited, and why.

import type { App, Spot } from '../app';
import { Kind } from '../data';
import { button, fill, h, section } from '../dom';
import { bar } from '../findings';
import { clock, counted, grouped, nanos, percent, utc } from '../format';
import { ALL_RULES } from '../rules';
import { keep, onState, rangeOf, stateOf } from '../state';
import { onPaper, onTheme, ownColour, palette } from '../theme';
import { hideTip, showTip } from '../tip';
import { Drawing, frameOf, rowAt, timeAt, type Frame, type View } from './draw';
import { gestures } from './gestures';
import { busyPart, itemAt, sceneOf, type Item, type Scene } from './scene';

export function momentView(app: App): [HTMLElement, () => void] {
  const view = new MomentView(app);
  return [view.element, () => view.start()];
}

const HELP = 'Drag or arrow keys move, + and − or Ctrl with the wheel zoom, 0 shows all, W the wait; up and down choose a row, comma and full stop what is on it.';

/** Occupants of a wait that are told in words; the bars below show all. */
const PIECES = 6;

class MomentView {
  readonly element: HTMLElement;
  private readonly canvas = h('canvas', { id: 'moment-canvas', tabindex: 0, role: 'application', 'aria-describedby': 'moment-help moment-detail' });
  private readonly title = h('h3', { id: 'moment-what' });
  private readonly link = h('a', { class: 'permalink', href: '#moment', title: 'A link to this moment and view' }, 'link');
  private readonly about = h('div', { class: 'about' });
  private readonly detail = h('output', { id: 'moment-detail', 'aria-live': 'polite' });
  private readonly choose: HTMLSelectElement;
  private readonly legend = h('ul', { class: 'legend' });
  private scene: Scene | null = null;
  private spot: Spot | null = null;
  private view: View = { from: 0, to: 1 };
  private frame: Frame | null = null;
  private selected: Item | null = null;
  private row = 0;
  private pending = 0;

  constructor(private readonly app: App) {
    this.choose = h('select', { id: 'moment-choose' });
    this.choose.addEventListener('change', () => this.show(app.spots[Number(this.choose.value)]));
    const tool = (label: string, name: string, act: () => void): HTMLElement => button(label, act, { 'aria-label': name, title: name });
    const tools = h(
      'div',
      { class: 'actions tools' },
      tool('−', 'Zoom out', () => this.zoom(1.6)),
      tool('+', 'Zoom in', () => this.zoom(1 / 1.6)),
      tool('◂', 'Earlier', () => this.pan(-0.25)),
      tool('▸', 'Later', () => this.pan(0.25)),
      button('The wait', () => this.fitWait()),
      button('All', () => this.fit()),
    );
    const body = app.spots.length
      ? [
          h('div', { class: 'panel' }, h('div', { class: 'moment-head' }, h('label', { for: 'moment-choose' }, 'Wait'), this.choose, tools), this.title, h('div', { class: 'canvas-box', id: 'moment-box' }, this.canvas), this.detail, this.legend, h('p', { class: 'small muted', id: 'moment-help' }, HELP)),
          this.about,
        ]
      : [h('p', { class: 'empty' }, 'Nothing in this recording waited, so there is no moment to look at.')];
    this.element = section('moment', 'The moment', 'What every CPU did around one wait: who ran, who waited and by which rule, interrupts, wakeups and work items.', ...body);
    app.onSpot((spot) => this.show(spot));
    app.onSearch(() => this.offer());
    this.offer();
  }

  start(): void {
    if (!this.app.spots.length) return;
    gestures(this.canvas, {
      zoom: (factor, x) => this.zoom(factor, x),
      pan: (pixels) => this.panPixels(pixels),
      tap: (x, y) => this.select(this.hit(x, y)),
      hover: (x, y, event) => this.hover(x, y, event),
      leave: hideTip,
    });
    this.canvas.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement as HTMLElement);
    onTheme(() => this.draw());
    onPaper((width) => this.paint(width));
    onState(() => this.follow());
    const [spot, view] = [this.linked(), rangeOf('v')];
    this.show(spot ?? this.first());
    if (spot && view) this.set(...view);
  }

  /** The wait that the address names. */
  private linked(): Spot | undefined {
    const [start, end, cpu] = (stateOf('w') ?? '').split('-').map(Number);
    return this.app.spotAt(start, end, cpu);
  }

  /** Somebody followed a link. */
  private follow(): void {
    const spot = this.linked();
    const view = rangeOf('v');
    if (spot && spot !== this.spot) this.show(spot);
    if (spot && view) this.set(...view);
  }

  /** The waits to choose from: those of the task that is searched for. */
  private offer(): void {
    const { app } = this;
    const spots = app.spots.map((spot, i) => [spot, i] as const).filter(([spot]) => spot === this.spot || app.matches(spot.actor, spot.tid));
    fill(this.choose, ...spots.slice(0, 200).map(([spot, i]) => h('option', { value: i }, this.spotName(spot))));
    if (this.spot) this.choose.value = String(app.spots.indexOf(this.spot));
    this.draw();
  }

  /** The worst wait of the worst finding, or the longest of all. */
  private first(): Spot {
    const worst = this.app.trace.report.findings[0]?.worst[0];
    return (worst && this.app.spotAt(worst.start_ns, worst.end_ns, worst.cpu)) ?? this.app.spots[0];
  }

  private spotName(spot: Spot): string {
    return `${this.app.name(spot.actor)}[${spot.tid}] waited ${nanos(spot.end - spot.start)} at ${this.app.time(spot.start)} on CPU ${spot.cpu}`;
  }

  private show(spot: Spot): void {
    this.spot = spot;
    this.scene = sceneOf(this.app, spot);
    this.selected = this.scene.main;
    this.row = this.scene.main?.row ?? 0;
    keep('w', `${spot.start}-${spot.end}-${spot.cpu}`);
    this.offer();
    this.canvas.dataset['spot'] = `${spot.start}-${spot.end}`;
    this.canvas.dataset['from'] = String(this.scene.moment.from);
    this.canvas.setAttribute('aria-label', `Timeline: ${this.spotName(spot)}`);
    fill(this.title, this.spotName(spot), ' ', this.link);
    this.describe();
    this.fitWait();
    this.tell();
  }

  private describe(): void {
    const { scene, spot, app } = this;
    if (!scene || !spot) return;
    const length = spot.end - spot.start;
    const pieces = scene.main?.pieces ?? [];
    const { moment } = scene;
    const used = new Set(scene.rows.flatMap((row) => row.items.flatMap((item) => item.pieces.map((piece) => piece.rule))));
    const lanes = [
      block('ran: the one that waited', 'var(--accent)'),
      block('ran: had its CPU the longest', 'var(--culprit)'),
      block('ran: others, each in a colour of its own', ownColour('others', palette().isDark)),
      h('li', {}, h('span', { class: 'arrow' }, '↓'), 'woken'),
      h('li', {}, h('span', { class: 'arrow' }, '⎵'), 'work item'),
    ];
    fill(this.legend, ...lanes, ...ALL_RULES.filter((rule) => used.has(rule.word)).map((rule) => h('li', { title: rule.meaning }, swatch(rule.word, rule.colour, rule.pattern), `${rule.word}: ${rule.meaning}`)));
    const merged = moment.kind.reduce((sum, kind, i) => sum + (kind === Kind.Block ? moment.tid[i] : 0), 0);
    const notes = [
      merged ? `${grouped(merged)} short runs are drawn as blocks, as high as the CPU was busy.` : '',
      moment.kind.some((kind, i) => kind === Kind.Block && moment.tid[i] === 0) ? 'So are runs of a time from which no details were kept.' : '',
      moment.left_out ? `Of too much to draw, ${grouped(moment.left_out)} of the shortest are left out (${nanos(moment.left_out_ns)} at most).` : '',
      scene.unseen ? `${counted(scene.unseen, 'more task')} waited meanwhile.` : '',
      scene.unseenCpus ? `${counted(scene.unseenCpus, 'more CPU')} did less.` : '',
    ].filter(Boolean);
    fill(
      this.about,
      h('h4', {}, `Who had CPU ${spot.cpu} during these ${nanos(length)}`),
      h('ul', { class: 'bars' }, ...pieces.map((piece) => bar(app.label(piece.actor), piece.rule, piece.ns, length, app.whereabouts(piece.actor)))),
      h('p', { class: 'small muted' }, `From ${clock(app.trace.zero, spot.start)} to ${clock(app.trace.zero, spot.end)} on the recording's clock${utc(app.trace, spot.start) ? ` (${utc(app.trace, spot.start, true)} to ${utc(app.trace, spot.end)})` : ''}. ${notes.join(' ')}`),
    );
  }

  // ------------------------------------------------------------------ what is shown

  private fit(): void {
    if (this.scene) this.set(0, this.scene.span);
  }

  private fitWait(): void {
    const { scene, spot } = this;
    if (!scene || !spot) return;
    const [start, end] = [spot.start - scene.moment.from, spot.end - scene.moment.from];
    const margin = (end - start) * 0.18;
    this.set(start - margin, end + margin);
  }

  private set(from: number, to: number): void {
    const span = this.scene?.span ?? 1;
    const length = Math.min(span, Math.max(200, to - from));
    const start = Math.min(Math.max(0, from), span - length);
    this.view = { from: start, to: start + length };
    const view = `${Math.round(start)}-${Math.round(start + length)}`;
    this.canvas.dataset['view'] = view;
    keep('v', view);
    this.link.href = `#moment&w=${stateOf('w') ?? ''}&v=${view}`;
    this.draw();
  }

  private zoom(factor: number, x?: number): void {
    const { from, to } = this.view;
    const at = x !== undefined && this.frame ? timeAt(this.frame, this.view, x) : (from + to) / 2;
    this.set(at - (at - from) * factor, at + (to - at) * factor);
  }

  private pan(share: number): void {
    const step = (this.view.to - this.view.from) * share;
    this.set(this.view.from + step, this.view.to + step);
  }

  private panPixels(pixels: number): void {
    if (this.frame) this.pan(-pixels / (this.frame.width - this.frame.left));
  }

  private draw(): void {
    cancelAnimationFrame(this.pending);
    this.pending = requestAnimationFrame(() => this.paint());
  }

  private paint(paper?: number): void {
    const { scene, canvas } = this;
    const width = paper ?? canvas.parentElement?.clientWidth ?? 0;
    const context = canvas.getContext('2d');
    if (!scene || !context || width === 0) return;
    const frame = (this.frame = frameOf(scene, width));
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(frame.height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${frame.height}px`;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    new Drawing(context, this.app, scene, frame, this.view, palette(), this.selected).draw();
  }

  // ------------------------------------------------------------------ what is pointed at

  private hit(x: number, y: number): Item | null {
    const { scene, frame, view } = this;
    if (!scene || !frame) return null;
    const row = scene.rows[rowAt(scene, frame, y)];
    const pixel = (view.to - view.from) / (frame.width - frame.left);
    return row ? itemAt(row, timeAt(frame, view, x), pixel * 3) : null;
  }

  private hover(x: number, y: number, event: PointerEvent): void {
    const item = this.hit(x, y);
    this.canvas.style.cursor = item ? 'pointer' : 'grab';
    if (!item) return hideTip();
    this.tell(item);
    if (event.pointerType === 'mouse') showTip(event.clientX, event.clientY, this.words(item));
  }

  private select(item: Item | null): void {
    this.selected = item;
    if (item) this.row = item.row;
    this.tell(item ?? undefined);
    this.draw();
  }

  private tell(item = this.selected ?? undefined): void {
    this.detail.textContent = item ? this.words(item) : 'Point at something, or choose it with the keys.';
  }

  private words(item: Item): string {
    const { app } = this;
    const length = nanos(item.end - item.start);
    const at = app.time((this.scene?.moment.from ?? 0) + item.start, 1e3);
    const who = app.isTask(item.actor) ? `${app.name(item.actor)}[${item.tid}]` : app.name(item.actor);
    switch (item.kind) {
      case Kind.Run:
        return `${at}: ${who} ran on CPU ${item.cpu} for ${length}, ${['then slept', 'then was preempted', 'then was pushed off by a task just woken', 'its end was not seen'][item.detail] ?? ''}`;
      case Kind.Wait:
        return `${at}: ${who} waited ${length} for CPU ${item.cpu}: ${item.pieces.slice(0, PIECES).map((piece) => `${app.label(piece.actor)} had it for ${nanos(piece.ns)} (${piece.rule})`).join(', ')}${item.pieces.length > PIECES ? `, and ${item.pieces.length - PIECES} more` : ''}`;
      case Kind.Work:
        return `${at}: ${who} worked on ${app.trace.functions[item.detail - 1] ?? 'an item of unknown function'} for ${length}`;
      case Kind.Block:
        return `${at}: CPU ${item.cpu} was busy for ${percent(busyPart(item))} of ${length}${item.tid ? ` with ${counted(item.tid, 'short run')}` : ''}, most of it by ${app.label(item.actor)}`;
      default:
        return `${at}: ${who} on CPU ${item.cpu} for ${length}`;
    }
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts: Record<string, () => void> = {
      ArrowLeft: () => this.pan(-0.15),
      ArrowRight: () => this.pan(0.15),
      '+': () => this.zoom(1 / 1.5),
      '=': () => this.zoom(1 / 1.5),
      '-': () => this.zoom(1.5),
      '0': () => this.fit(),
      Home: () => this.fit(),
      w: () => this.fitWait(),
      ArrowUp: () => this.step(-1, 0),
      ArrowDown: () => this.step(1, 0),
      ',': () => this.step(0, -1),
      '.': () => this.step(0, 1),
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** To another row, or to the next thing on this one. */
  private step(rows: number, items: number): void {
    const { scene, view } = this;
    if (!scene) return;
    this.row = Math.min(scene.rows.length - 1, Math.max(0, this.row + rows));
    const list = scene.rows[this.row].items.filter((item) => item.kind !== Kind.Wake);
    const middle = (view.from + view.to) / 2;
    const at = this.selected && this.selected.row === this.row ? list.indexOf(this.selected) : -1;
    const nearest = list.reduce((best, item, i) => (Math.abs(item.start - middle) < Math.abs((list[best]?.start ?? Infinity) - middle) ? i : best), 0);
    const next = list[Math.min(list.length - 1, Math.max(0, at < 0 ? nearest : at + items))];
    if (!next) return;
    this.select(next);
    const length = view.to - view.from;
    if (next.end < view.from || next.start > view.to) this.set(next.start - length / 2, next.start + length / 2);
  }
}

function block(label: string, colour: string): HTMLElement {
  const mark = h('span', { class: 'swatch fill solid' });
  mark.style.setProperty('--colour', colour);
  return h('li', {}, mark, label);
}

function swatch(word: string, colour: string, pattern: string): HTMLElement {
  const mark = h('span', { class: `swatch fill ${pattern}`, 'data-rule': word });
  mark.style.setProperty('--colour', colour);
  return mark;
}
