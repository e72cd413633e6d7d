// What is chosen, and who wants to know.

import type { Culprit, Moment, Trace } from './data';
import { button } from './dom';
import { unfold } from './folded';
import { nanos, since, utc } from './format';
import { keep, rangeOf, stateOf } from './state';

/** A wait that is shown in detail. */
export interface Spot {
  moment: number;
  actor: number;
  tid: number;
  cpu: number;
  start: number;
  end: number;
  /** The rule under which most of it was. */
  rule: string;
}

/** One trace on the page, with what links its views. */
export class App {
  /** Waits in detail, longest first. */
  readonly spots: Spot[];
  private showSpot: (spot: Spot) => void = () => {};
  private showCourse: (course: number) => void = () => {};
  private readonly zoomed: ((range: [number, number] | null) => void)[] = [];
  private readonly searched: (() => void)[] = [];
  /** The part of the recording that is looked at, in nanoseconds; nothing for all of it. */
  range: [number, number] | null = rangeOf('z');
  /** What is searched for, in lower case. */
  query = (stateOf('q') ?? '').trim().toLowerCase();

  constructor(readonly trace: Trace) {
    const { moment, actor, tid, cpu, start, end, rule } = trace.moments.spots;
    this.spots = Array.from(moment, (_, i) => ({
      moment: moment[i],
      actor: actor[i],
      tid: tid[i],
      cpu: cpu[i],
      start: start[i],
      end: end[i],
      rule: trace.blame.rules[rule[i]] ?? 'unknown',
    }));
  }

  /** `+1.205 s`, and where it is known the time of day: `+1.205 s, 14:03:07.205 UTC`. */
  time(ns: number, step = 1e6): string {
    const day = utc(this.trace, ns);
    return day ? `${since(ns, step)}, ${day}` : since(ns, step);
  }

  /** Looks at a part of the recording, in all views that show time. */
  zoom(range: [number, number] | null): void {
    const span = this.trace.span_ns;
    const inside: [number, number] | null = range && [Math.max(0, Math.min(...range)), Math.min(span, Math.max(...range))];
    const next = inside && inside[1] - inside[0] > 0 && inside[1] - inside[0] < span * 0.995 ? inside : null;
    const close = (a: number, b: number): boolean => Math.abs(a - b) < Math.max(1, span / 1e5);
    if (next === this.range || (next && this.range && close(next[0], this.range[0]) && close(next[1], this.range[1]))) return;
    this.range = next;
    keep('z', next && next.map(Math.round).join('-'));
    this.zoomed.forEach((callback) => callback(next));
  }

  onZoom(callback: (range: [number, number] | null) => void): void {
    this.zoomed.push(callback);
  }

  /** Looks for a task in all views. */
  search(text: string): void {
    this.query = text.trim().toLowerCase();
    keep('q', text.trim() || null);
    this.searched.forEach((callback) => callback());
  }

  onSearch(callback: () => void): void {
    this.searched.push(callback);
  }

  /** Whether this is looked for: by name, thread id, process id or cgroup. Everything is if nothing is. */
  matches(actor: number, tid?: number): boolean {
    const { query } = this;
    if (!query) return true;
    const { tids, tgids, cgroup } = this.trace.actors;
    const id = /^\d+$/.test(query) ? Number(query) : null;
    if (id !== null && (tid !== undefined ? tid === id : tids[actor]?.includes(id) || tgids[actor]?.includes(id))) return true;
    return this.name(actor).toLowerCase().includes(query) || (cgroup[actor]?.toLowerCase().includes(query) ?? false);
  }

  /** The number of somebody that a report names, if the page knows it. */
  actorOf(culprit: Culprit): number | undefined {
    const { name, prio, kind } = this.trace.actors;
    const found = name.flatMap((one, i) => (one === culprit.comm && (prio[i] ?? null) === (kind[i] === 0 ? culprit.prio : (prio[i] ?? null)) ? [i] : []));
    return found.find((i) => this.trace.actors.tids[i].some((tid) => culprit.tids.includes(tid))) ?? found[0];
  }

  /** `/system.slice/wl.service · tgid 117`, where the host snapshot tells. */
  whereabouts(actor: number): string {
    const { tids, tgids, cgroup, members } = this.trace.actors;
    const list = (word: string, ids: number[], more: number): string => (ids.length ? `${word} ${ids.slice(0, 6).join(' ')}${more > 0 ? ` and ${more} more` : ''}` : '');
    const count = tids[actor]?.length ?? 0;
    return [
      cgroup[actor] ?? '',
      list('tgid', tgids[actor] ?? [], (tgids[actor]?.length ?? 0) - 6),
      count > 1 ? list('tid', tids[actor], members[actor] - Math.min(6, count)) : '',
    ].filter(Boolean).join(' · ');
  }

  moment(spot: Spot): Moment {
    return this.trace.moments.list[spot.moment];
  }

  /** `ksoftirqd/1`. */
  name(actor: number): string {
    return this.trace.actors.name[actor] ?? '?';
  }

  isTask(actor: number): boolean {
    return this.trace.actors.kind[actor] === 0;
  }

  /** `ksoftirqd/1[18]`, `nfsd ×128`, and with a priority that is not plain `wl[117] RT 10`. */
  label(actor: number): string {
    const { tids, members, policy, prio } = this.trace.actors;
    const name = this.name(actor);
    if (!this.isTask(actor)) return name;
    const count = members[actor];
    const who = count > 1 ? `${name} ×${count}` : tids[actor].length === 1 ? `${name}[${tids[actor][0]}]` : name;
    const rank = priorityOf(policy[actor], prio[actor]);
    return rank ? `${who} ${rank}` : who;
  }

  /** The wait that a report speaks of, if it is shown in detail. */
  spotAt(start: number, end: number, cpu: number): Spot | undefined {
    return this.spots.find((spot) => spot.start === start && spot.end === end && spot.cpu === cpu);
  }

  /** The longest waits of these actors; of all if there are none. */
  spotsOf(actors: number[]): Spot[] {
    return actors.length === 0 ? this.spots : this.spots.filter((spot) => actors.includes(spot.actor));
  }

  /** What is said where a click finds no moment, with a way to the nearest one. */
  nothingNear(ns: number, nearest: Spot | null): (string | HTMLElement)[] {
    const said = `No details are kept around ${this.time(ns)}.`;
    if (!nearest) return [said];
    const { start, end, cpu, actor } = nearest;
    const label = `The nearest moment: ${this.name(actor)} waits ${nanos(end - start)} at ${since(start)}, CPU ${cpu}`;
    return [`${said} `, button(label, () => this.open(nearest), { class: 'nearest' })];
  }

  onSpot(callback: (spot: Spot) => void): void {
    this.showSpot = callback;
  }

  onCourse(callback: (course: number) => void): void {
    this.showCourse = callback;
  }

  /** Shows a wait in the timeline and brings it into view. */
  open(spot: Spot): void {
    this.showSpot(spot);
    const target = document.getElementById('moment');
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    target?.scrollIntoView({ behavior: calm ? 'auto' : 'smooth', block: 'start' });
    document.getElementById('moment-canvas')?.focus({ preventScroll: true });
  }

  /** Shows the waits of a course in the chart. */
  chart(course: number): void {
    this.showCourse(course);
    unfold('waits');
    document.getElementById('waits')?.scrollIntoView({ block: 'start' });
  }
}

/** `RT 10`, `deadline`, `nice −5`; nothing for a plain task. */
export function priorityOf(policy: string | null, prio: number | null): string {
  if (policy === null || prio === null) return '';
  if (prio < 0) return 'deadline';
  if (prio < 100) return `${policy === 'rt' ? 'RT' : policy} ${99 - prio}`;
  if (prio === 120) return '';
  return `nice ${prio < 120 ? '−' : ''}${Math.abs(prio - 120)}`;
}
