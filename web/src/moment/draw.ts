// Draws a scene on a canvas.

import type { App } from '../app';
import { Kind } from '../data';
import { since } from '../format';
import { ruleFill, ruleLook } from '../rules';
import { ownColour, type Palette } from '../theme';
import { roundStep } from '../ticks';
import { busyPart, type Item, type Row, type Scene } from './scene';

/** What part of a scene is shown, in nanoseconds from its start. */
export interface View {
  from: number;
  to: number;
}

export interface Frame {
  width: number;
  height: number;
  /** The labels' column. */
  left: number;
  top: number;
  rowHeight: number;
  /** Extra room between the CPUs and the tasks. */
  gap: number;
}

const AXIS = 26;
const GAP = 26;
/** More than this are a curtain. */
const ARROWS = 160;
/** Pixels below which a run is part of a block, and of a block's column. */
const THIN = 1.5;
const CELL = 2;
const FONT = 'system-ui, sans-serif';

export function frameOf(scene: Scene, width: number): Frame {
  const rowHeight = 26;
  const hasTasks = scene.rows.some((row) => row.kind === 'task');
  const height = AXIS + scene.rows.length * rowHeight + (hasTasks ? GAP : 0) + 8;
  return { width, height, left: width < 560 ? 84 : 176, top: AXIS, rowHeight, gap: hasTasks ? GAP : 0 };
}

export function rowTop(scene: Scene, frame: Frame, index: number): number {
  const gap = scene.rows[index]?.kind === 'task' ? frame.gap : 0;
  return frame.top + index * frame.rowHeight + gap;
}

/** The row at a height; −1 if there is none. */
export function rowAt(scene: Scene, frame: Frame, y: number): number {
  return scene.rows.findIndex((_, index) => {
    const top = rowTop(scene, frame, index);
    return y >= top && y < top + frame.rowHeight;
  });
}

export function timeAt(frame: Frame, view: View, x: number): number {
  return view.from + ((x - frame.left) / (frame.width - frame.left)) * (view.to - view.from);
}

/** Draws with everything that one pass needs at hand. */
export class Drawing {
  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly app: App,
    private readonly scene: Scene,
    private readonly frame: Frame,
    private readonly view: View,
    private readonly colours: Palette,
    private readonly selected: Item | null,
  ) {}

  draw(): void {
    const { context, frame, colours } = this;
    context.clearRect(0, 0, frame.width, frame.height);
    context.fillStyle = colours.surface;
    context.fillRect(0, 0, frame.width, frame.height);
    this.axis();
    this.mainBand();
    context.save();
    context.beginPath();
    context.rect(frame.left, frame.top, frame.width - frame.left, frame.height);
    context.clip();
    this.arrows(false);
    this.scene.rows.forEach((row, index) => this.row(row, index));
    this.arrows(true);
    this.selection();
    context.restore();
    this.labels();
  }

  private x(time: number): number {
    const { frame, view } = this;
    return frame.left + ((time - view.from) / (view.to - view.from)) * (frame.width - frame.left);
  }

  private axis(): void {
    const { context, frame, view, colours, scene } = this;
    const step = roundStep(((view.to - view.from) * (frame.width < 560 ? 66 : 90)) / (frame.width - frame.left));
    const origin = scene.moment.from;
    context.font = `11px ${FONT}`;
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    for (let at = Math.ceil((view.from + origin) / step) * step; at <= view.to + origin; at += step) {
      const x = Math.round(this.x(at - origin)) + 0.5;
      if (x < frame.left) continue;
      context.strokeStyle = colours.grid;
      context.beginPath();
      context.moveTo(x, frame.top - 8);
      context.lineTo(x, frame.height);
      context.stroke();
      context.fillStyle = colours.muted;
      if (x < frame.width - 50) context.fillText(since(at, step), x + 4, frame.top - 14);
    }
  }

  /** The wait that it is about, as a band behind everything. */
  private mainBand(): void {
    const { main } = this.scene;
    if (!main) return;
    const { context, frame, colours } = this;
    const [x0, x1] = [Math.max(frame.left, this.x(main.start)), Math.min(frame.width, this.x(main.end))];
    if (x1 <= x0) return;
    context.fillStyle = colours.isDark ? 'rgba(255,255,255,.055)' : 'rgba(0,0,0,.045)';
    context.fillRect(x0, frame.top, x1 - x0, frame.height);
  }

  private row(row: Row, index: number): void {
    const { context, frame, colours } = this;
    const top = rowTop(this.scene, frame, index);
    context.strokeStyle = colours.grid;
    context.beginPath();
    context.moveTo(frame.left, top + frame.rowHeight - 0.5);
    context.lineTo(frame.width, top + frame.rowHeight - 0.5);
    context.stroke();
    // Below a pixel, one mark stands for all that lie on it.
    let painted = -Infinity;
    if (row.kind === 'cpu') this.density(row, top);
    for (const pass of row.kind === 'cpu' ? [Kind.Run, Kind.Softirq, Kind.Irq] : [Kind.Wait, Kind.Run, Kind.Work]) {
      painted = -Infinity;
      for (const item of row.items) {
        if (item.kind !== pass || item.end < this.view.from) continue;
        if (item.start > this.view.to) break;
        if (row.kind === 'cpu' && pass === Kind.Run && this.isThin(item)) continue;
        const right = this.x(item.end);
        if (right - painted < 0.5) continue;
        if (row.kind === 'cpu') this.onCpu(item, top);
        else this.onTask(item, top);
        painted = right;
      }
    }
    this.captions(row, top);
  }

  /** Too thin to be drawn for itself: many of them make a block as high as the CPU was busy. */
  private isThin(item: Item): boolean {
    const stands = item.tid === this.scene.main?.tid || item.actor === this.scene.culprit;
    return this.x(item.end) - this.x(item.start) < (stands ? 0.5 : THIN);
  }

  /** What is too thin, here or already when the page was made, as high as the CPU was busy with it. */
  private density(row: Row, top: number): void {
    const { frame, view } = this;
    const count = Math.max(1, Math.ceil((frame.width - frame.left) / CELL));
    const each = (view.to - view.from) / count;
    const busy = new Float64Array(count);
    const most = new Float64Array(count);
    const who = new Int32Array(count).fill(-1);
    for (const item of row.items) {
      if (item.start > view.to) break;
      if (item.end < view.from || !(item.kind === Kind.Block || (item.kind === Kind.Run && this.isThin(item)))) continue;
      const part = busyPart(item);
      const first = Math.max(0, Math.floor((item.start - view.from) / each));
      const last = Math.min(count - 1, Math.floor((item.end - view.from) / each));
      for (let cell = first; cell <= last; cell++) {
        const from = view.from + cell * each;
        const ns = Math.max(0, Math.min(item.end, from + each) - Math.max(item.start, from)) * part;
        busy[cell] += ns;
        if (ns > most[cell]) {
          most[cell] = ns;
          who[cell] = item.actor;
        }
      }
    }
    const room = frame.rowHeight - 11;
    for (let cell = 0; cell < count; cell++) {
      if (busy[cell] <= 0) continue;
      const tall = Math.max(2, Math.min(1, busy[cell] / each) * room);
      this.context.fillStyle = this.runColour(who[cell], -1);
      this.context.fillRect(frame.left + cell * CELL, top + 8 + room - tall, CELL, tall);
    }
  }

  /** The one that waits, its worst culprit, or a colour of its own; pale where something else is searched for. */
  private runColour(actor: number, tid: number): string {
    const { colours, scene, app } = this;
    if (tid === scene.main?.tid || (tid < 0 && actor === scene.main?.actor)) return colours.accent;
    if (actor === scene.culprit) return colours.culprit;
    if (app.query && !app.matches(actor, tid < 0 ? undefined : tid)) return colours.grid;
    return ownColour(app.name(actor), colours.isDark);
  }

  /** In a pass of its own, so that nothing is painted over a name. */
  private captions(row: Row, top: number): void {
    const { colours, scene, frame, view } = this;
    for (const item of row.items) {
      if (item.end < view.from) continue;
      if (item.start > view.to) break;
      if (row.kind === 'cpu' && (item.kind === Kind.Run || (item.kind === Kind.Block && busyPart(item) > 0.9))) {
        const stands = (item.kind === Kind.Run ? item.tid === scene.main?.tid : item.actor === scene.main?.actor) || item.actor === scene.culprit;
        this.caption(this.app.name(item.actor), this.box(item, top + 8, frame.rowHeight - 11), stands ? colours.surface : colours.text);
      } else if (row.kind === 'task' && item.kind === Kind.Wait && item.pieces.length) {
        const rule = item.pieces.reduce((most, piece) => (piece.ns > most.ns ? piece : most)).rule;
        const look = ruleLook(rule);
        this.caption(rule, this.box(item, top + 4, frame.rowHeight - 8), look.ink, look.pattern === 'solid' ? undefined : look.colour);
      }
    }
  }

  private box(item: { start: number; end: number }, y: number, height: number): [number, number, number, number] {
    const x0 = Math.max(this.frame.left - 2, this.x(item.start));
    const x1 = Math.min(this.frame.width + 2, this.x(item.end));
    return [x0, y, Math.max(1, x1 - x0), height];
  }

  private onCpu(item: Item, top: number): void {
    const { context } = this;
    if (item.kind !== Kind.Run) {
      context.fillStyle = ruleLook(item.kind === Kind.Irq ? 'irq' : 'softirq').colour;
      context.fillRect(...this.box(item, top + 2, 5));
      return;
    }
    context.fillStyle = this.runColour(item.actor, item.tid);
    const box = this.box(item, top + 8, this.frame.rowHeight - 11);
    context.fillRect(...box);
  }

  private onTask(item: Item, top: number): void {
    const { context, colours, frame } = this;
    if (item.kind === Kind.Wait) {
      for (const segment of item.segments) {
        const box = this.box(segment, top + 4, frame.rowHeight - 8);
        context.fillStyle = ruleFill(context, segment.rule);
        context.fillRect(...box);
      }
      return;
    }
    if (item.kind === Kind.Run) {
      context.fillStyle = item.tid === this.scene.main?.tid ? colours.accent : ownColour(this.app.name(item.actor), colours.isDark);
      context.fillRect(...this.box(item, top + 8, frame.rowHeight - 16));
      return;
    }
    const [x, y, width] = this.box(item, top + frame.rowHeight - 4, 2);
    context.fillStyle = colours.text;
    context.fillRect(x, y, width, 2);
    context.fillRect(x, y - 2, 1, 4);
    context.fillRect(x + width - 1, y - 2, 1, 4);
  }

  private caption(text: string, [x, y, width, height]: [number, number, number, number], ink: string, plate?: string): void {
    const { context, frame } = this;
    const left = Math.max(x, frame.left);
    const room = x + width - left - 8;
    if (room < 22) return;
    context.font = `11px ${FONT}`;
    const fits = cut(context, text, room);
    if (!fits) return;
    if (plate) {
      context.fillStyle = plate;
      context.fillRect(left + 2, y + 1, context.measureText(fits).width + 5, height - 2);
    }
    context.fillStyle = ink;
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    context.fillText(fits, left + 4, y + height / 2 + 0.5);
  }

  /** Those of the main wait on top of everything, the others below. */
  private arrows(isMain: boolean): void {
    const { context, view, scene, frame, colours } = this;
    const visible = scene.arrows.filter((arrow) => arrow.isMain === isMain && arrow.at >= view.from && arrow.at <= view.to);
    if (!isMain && visible.length > ARROWS) return;
    for (const arrow of visible) {
      const x = Math.round(this.x(arrow.at)) + 0.5;
      const down = arrow.to > arrow.from;
      const middle = frame.rowHeight / 2;
      const from = rowTop(scene, frame, arrow.from) + middle;
      const to = rowTop(scene, frame, arrow.to) + (down ? 3 : frame.rowHeight - 3);
      context.globalAlpha = arrow.isMain ? 1 : 0.5;
      context.strokeStyle = context.fillStyle = arrow.isMain ? colours.text : colours.muted;
      context.lineWidth = arrow.isMain ? 1.5 : 1;
      context.beginPath();
      context.moveTo(x, from);
      context.lineTo(x, to);
      context.stroke();
      context.beginPath();
      context.moveTo(x, to);
      context.lineTo(x - 3.5, to + (down ? -6 : 6));
      context.lineTo(x + 3.5, to + (down ? -6 : 6));
      context.fill();
      context.beginPath();
      context.arc(x, from, 2.5, 0, 7);
      context.fill();
    }
    context.globalAlpha = 1;
    context.lineWidth = 1;
  }

  private selection(): void {
    const { selected, context, colours, frame, scene } = this;
    if (!selected || selected.row < 0) return;
    const top = rowTop(scene, frame, selected.row);
    const [x, , width] = this.box(selected, top, 0);
    context.strokeStyle = colours.text;
    context.lineWidth = 2;
    context.strokeRect(x - 1, top + 2, width + 2, frame.rowHeight - 4);
    context.lineWidth = 1;
  }

  private labels(): void {
    const { context, frame, scene, colours } = this;
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    scene.rows.forEach((row, index) => {
      const top = rowTop(scene, frame, index);
      const isMain = row.kind === 'task' ? row.id === scene.main?.tid : row.id === scene.main?.cpu;
      context.font = `${isMain ? '600 ' : ''}12px ${FONT}`;
      context.fillStyle = isMain ? colours.text : colours.muted;
      const found = this.app.query && row.kind === 'task' && row.items.some((item) => this.app.matches(item.actor, item.tid) && item.tid === row.id);
      if (found) context.fillStyle = colours.accent;
      context.fillText(cut(context, found ? `▸ ${row.label}` : row.label, frame.left - 10) ?? '', 2, top + frame.rowHeight / 2 + 2);
    });
    const first = scene.rows.findIndex((row) => row.kind === 'task');
    if (first < 0) return;
    context.font = `600 11px ${FONT}`;
    context.fillStyle = colours.muted;
    context.fillText('who waited', 2, rowTop(scene, frame, first) - 9);
  }
}

/** The text, cut to fit; `null` if nothing does. */
function cut(context: CanvasRenderingContext2D, text: string, room: number): string | null {
  if (context.measureText(text).width <= room) return text;
  const each = context.measureText('n').width;
  const length = Math.floor(room / each) - 1;
  return length < 2 ? null : `${text.slice(0, length)}…`;
}
