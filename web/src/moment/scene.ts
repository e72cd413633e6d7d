// A moment as rows of things to draw: a row for each CPU, then one for each task that waited.

import type { App, Spot } from '../app';
import { Kind, type Moment } from '../data';

/** Something on a row, in nanoseconds from the moment's start. */
export interface Item {
  kind: Kind;
  row: number;
  cpu: number;
  tid: number;
  actor: number;
  start: number;
  end: number;
  detail: number;
  /** Of a wait: who had the CPU meanwhile, by which rule, how long. */
  pieces: Piece[];
  /** Of a wait: stretches of one rule each, as far as they can be told. */
  segments: Segment[];
}

export interface Piece {
  actor: number;
  rule: string;
  ns: number;
}

export interface Segment {
  start: number;
  end: number;
  rule: string;
}

export interface Row {
  kind: 'cpu' | 'task';
  /** The CPU's number or the task's id. */
  id: number;
  label: string;
  /** In the order of their starts. */
  items: Item[];
}

export interface Arrow {
  at: number;
  from: number;
  to: number;
  /** Whether the one who waits is woken. */
  isMain: boolean;
}

export interface Scene {
  moment: Moment;
  span: number;
  rows: Row[];
  arrows: Arrow[];
  /** The wait that it is about. */
  main: Item | null;
  culprit: number | null;
  /** Tasks that waited and have no row, and CPUs that have none. */
  unseen: number;
  unseenCpus: number;
}

/** CPUs with a row of their own: of a large machine, the wait's and those that did most. */
const CPU_ROWS = 16;
/** Tasks with a row of their own. */
const TASK_ROWS = 20;

export function sceneOf(app: App, spot: Spot): Scene {
  const moment = app.moment(spot);
  const items = itemsOf(app, moment);
  const start = spot.start - moment.from;
  const main = items.find((item) => item.kind === Kind.Wait && item.tid === spot.tid && Math.abs(item.start - start) <= moment.unit_ns) ?? null;
  const allCpus = cpuRows(items, spot.cpu);
  const cpus = allCpus.slice(0, CPU_ROWS).sort((a, b) => Number(b.id === spot.cpu) - Number(a.id === spot.cpu) || a.id - b.id);
  const { rows: tasks, unseen } = taskRows(app, items, spot);
  const rows = [...cpus, ...tasks];
  rows.forEach((row, index) => row.items.forEach((item) => (item.row = index)));
  for (const item of items) if (item.kind === Kind.Wait) item.segments = segmentsOf(item, allCpus);
  const culprit = main?.pieces.reduce<Piece | null>((most, piece) => (app.isTask(piece.actor) && piece.ns > (most?.ns ?? 0) ? piece : most), null);
  return { moment, span: moment.to - moment.from, rows, arrows: arrowsOf(items, rows, spot), main, culprit: culprit?.actor ?? null, unseen, unseenCpus: allCpus.length - cpus.length };
}

function itemsOf(app: App, moment: Moment): Item[] {
  const items: Item[] = [];
  const { rules } = app.trace.blame;
  const unit = moment.unit_ns;
  let wait: Item | null = null;
  for (let i = 0; i < moment.kind.length; i++) {
    const kind = moment.kind[i] as Kind;
    const start = moment.start[i] * unit;
    const end = start + moment.length[i] * unit;
    if (kind === Kind.Piece) {
      // What was cut off at the moment's edge is not part of the length told here.
      const length = wait ? wait.end - wait.start : 0;
      wait?.pieces.push({ actor: moment.actor[i], rule: rules[moment.tid[i]] ?? 'unknown', ns: Math.round((moment.detail[i] / 0xffffffff) * length) });
      continue;
    }
    const item: Item = { kind, row: -1, cpu: moment.cpu[i], tid: moment.tid[i], actor: moment.actor[i], start, end, detail: moment.detail[i], pieces: [], segments: [] };
    if (kind === Kind.Wait) wait = item;
    items.push(item);
  }
  return items.sort((a, b) => a.start - b.start);
}

/** The part of its time in which the CPU was busy: runs that were merged leave gaps. */
export function busyPart(item: Item): number {
  return item.kind === Kind.Block ? item.detail / 0xffffffff : 1;
}

/** The CPU of the wait first, then those that were busy longest. */
function cpuRows(items: Item[], first: number): Row[] {
  const byCpu = new Map<number, Item[]>();
  for (const item of items) {
    if (item.kind !== Kind.Run && item.kind !== Kind.Block && item.kind !== Kind.Irq && item.kind !== Kind.Softirq) continue;
    const list = byCpu.get(item.cpu);
    if (list) list.push(item);
    else byCpu.set(item.cpu, [item]);
  }
  const busy = new Map([...byCpu].map(([cpu, list]) => [cpu, list.reduce((sum, item) => sum + (item.end - item.start) * busyPart(item), 0)]));
  // CPUs that were about as busy as each other are in their own order.
  const most = Math.max(1, ...busy.values());
  const step = (cpu: number): number => Math.round(((busy.get(cpu) ?? 0) / most) * 20);
  const order = [...byCpu.keys()].sort((a, b) => Number(b === first) - Number(a === first) || step(b) - step(a) || a - b);
  return order.map((cpu) => ({ kind: 'cpu', id: cpu, label: `CPU ${cpu}`, items: byCpu.get(cpu) ?? [] }));
}

/** Who waited, the one whom it is about first, then by how long they did. Runs are on both kinds of rows. */
function taskRows(app: App, items: Item[], spot: Spot): { rows: Row[]; unseen: number } {
  const waited = new Map<number, number>();
  const names = new Map<number, number>();
  for (const item of items) {
    if (item.kind === Kind.Irq || item.kind === Kind.Softirq || item.kind === Kind.Block) continue;
    names.set(item.tid, item.actor);
    if (item.kind === Kind.Wait) waited.set(item.tid, (waited.get(item.tid) ?? 0) + item.end - item.start);
  }
  const order = [...waited.entries()].sort((a, b) => Number(b[0] === spot.tid) - Number(a[0] === spot.tid) || b[1] - a[1]);
  const shown = order.slice(0, TASK_ROWS).map(([tid]) => tid);
  const rows = new Map<number, Row>(shown.map((tid) => [tid, { kind: 'task', id: tid, label: `${app.name(names.get(tid) ?? spot.actor)}[${tid}]`, items: [] }]));
  for (const item of items) {
    if (item.kind === Kind.Irq || item.kind === Kind.Softirq || item.kind === Kind.Block) continue;
    // A run has two places; the one on the CPU's row is a thing of its own.
    rows.get(item.tid)?.items.push(item.kind === Kind.Run ? { ...item } : item);
  }
  return { rows: [...rows.values()], unseen: order.length - shown.length };
}

/** Which rule held when: what ran on the wait's CPU tells it, for each occupant has one rule in a wait. */
function segmentsOf(wait: Item, cpus: Row[]): Segment[] {
  if (wait.pieces.length === 0) return [{ start: wait.start, end: wait.end, rule: 'unknown' }];
  const longest = wait.pieces.reduce((most, piece) => (piece.ns > most.ns ? piece : most));
  if (wait.pieces.length === 1) return [{ start: wait.start, end: wait.end, rule: longest.rule }];
  const ruleOf = new Map<number, string>();
  for (const piece of [...wait.pieces].sort((a, b) => a.ns - b.ns)) ruleOf.set(piece.actor, piece.rule);
  const idle = wait.pieces.find((piece) => piece.rule === 'idle' || piece.rule === 'throttled');
  const segments: Segment[] = [{ start: wait.start, end: wait.end, rule: (idle ?? longest).rule }];
  const row = cpus.find((cpu) => cpu.id === wait.cpu);
  const over = (row?.items ?? []).filter((item) => item.end > wait.start && item.start < wait.end);
  // Interrupts are on top of runs.
  const onTop = [...over.filter((item) => item.kind === Kind.Block), ...over.filter((item) => item.kind === Kind.Run), ...over.filter((item) => item.kind === Kind.Softirq), ...over.filter((item) => item.kind === Kind.Irq)];
  for (const item of onTop) {
    const rule = ruleOf.get(item.actor);
    if (rule) segments.push({ start: Math.max(item.start, wait.start), end: Math.min(item.end, wait.end), rule });
  }
  return segments;
}

/** From the waker's row, or its CPU's, to the row of whom it woke. */
function arrowsOf(items: Item[], rows: Row[], spot: Spot): Arrow[] {
  const taskRow = new Map<number, number>();
  const cpuRow = new Map<number, number>();
  rows.forEach((row, index) => (row.kind === 'cpu' ? cpuRow : taskRow).set(row.id, index));
  const arrows: Arrow[] = [];
  for (const item of items) {
    if (item.kind !== Kind.Wake) continue;
    const to = taskRow.get(item.tid);
    const from = (item.detail ? taskRow.get(item.detail) : undefined) ?? cpuRow.get(item.cpu);
    if (to === undefined || from === undefined || to === from) continue;
    arrows.push({ at: item.start, from, to, isMain: item.tid === spot.tid });
  }
  return arrows;
}

/** What is at this place, the smallest first: an interrupt rather than the run below it. */
export function itemAt(row: Row, time: number, slack: number): Item | null {
  let found: Item | null = null;
  for (const item of row.items) {
    if (item.start > time + slack) break;
    if (item.end < time - slack || item.kind === Kind.Wake) continue;
    if (!found || item.end - item.start <= found.end - found.start) found = item;
  }
  return found;
}
