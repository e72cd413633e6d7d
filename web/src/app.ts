// What is chosen, and who wants to know.

import type { Moment, Trace } from './data';

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
