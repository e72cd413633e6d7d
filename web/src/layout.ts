// Which thread ran and waited on which CPU, with policy, priority and affinity, and where interrupts landed.

import type { App } from './app';
import { priorityOf } from './app';
import { fill, h, section, vary } from './dom';
import { grouped, nanos, percent } from './format';
import { where } from './waits';

interface Place {
  ran: number;
  runs: number;
  waited: number;
  waits: number;
  longest: number;
}

interface Stays {
  count: number;
  ns: number;
  longest: number;
}

/** Two that want the same CPU, and one of them waits for it. */
interface Conflict {
  cpu: number;
  victim: number;
  culprit: number;
  rule: string;
  ns: number;
}

const ROWS = 16;
const CONFLICTS = 8;
/** More CPUs get columns too narrow for figures. */
const WIDE = 12;
/** Interrupts a second that make a CPU one that serves devices. */
const OFTEN = 100;
/** Rules that say that one was put before the other; plain sharing is no conflict. */
const UNFAIR = new Set(['class', 'priority', 'not-preempted', 'weight', 'wakeup-preemption', 'count', 'irq', 'softirq']);

export function layoutView(app: App): HTMLElement {
  return new Layout(app).element;
}

class Layout {
  readonly element: HTMLElement;
  private readonly places = new Map<number, Map<number, Place>>();
  private readonly stays = new Map<number, Map<number, Stays>>();
  private readonly conflicts: Conflict[];
  private readonly cpus: number[];
  private readonly box = h('div', { class: 'scroll layout', tabindex: 0, role: 'region', 'aria-label': 'Threads by CPU' });
  private readonly affinities: boolean;
  private readonly cgroups: boolean;
  private all = false;

  constructor(private readonly app: App) {
    this.read();
    this.affinities = app.trace.actors.affinity.some((text) => text !== null);
    this.cgroups = app.trace.actors.cgroup.some((path) => path !== null);
    const { cpus } = app.trace.report.trace;
    this.cpus = Array.from({ length: cpus }, (_, cpu) => cpu);
    this.conflicts = this.findConflicts();
    this.element = section(
      'layout',
      'What ran where',
      'Each CPU’s time by thread, and where interrupts and softirqs landed; bars are parts of the CPU’s time. Where somebody was put before somebody else on the same CPU, both are marked.',
      h('div', { class: 'panel' }, this.box, this.conflictList(), this.affinities ? null : h('p', { class: 'small muted' }, 'Affinities and cgroups are not known: no host snapshot came with the recording. “unstarve record” adds one.')),
    );
    app.onSearch(() => this.show());
    this.show();
  }

  private read(): void {
    const { places, interrupts } = this.app.trace;
    places.actor.forEach((actor, i) => {
      const row = this.places.get(actor) ?? new Map<number, Place>();
      this.places.set(actor, row);
      row.set(places.cpu[i], { ran: places.ran[i], runs: places.runs[i], waited: places.waited[i], waits: places.waits[i], longest: places.longest[i] });
    });
    interrupts.actor.forEach((actor, i) => {
      const row = this.stays.get(actor) ?? new Map<number, Stays>();
      this.stays.set(actor, row);
      row.set(interrupts.cpu[i], { count: interrupts.count[i], ns: interrupts.ns[i], longest: interrupts.longest[i] });
    });
  }

  private findConflicts(): Conflict[] {
    const { victim, occupant, rule, cpu, ns, rules } = this.app.trace.blame;
    const least = Math.max(1e6, this.app.trace.span_ns / 1000);
    // Who was made nice has asked to wait for others.
    const asked = (actor: number): boolean => (this.app.trace.actors.prio[actor] ?? 120) > 120;
    const found: Conflict[] = [];
    for (let i = 0; i < ns.length; i++) {
      if (rules[rule[i]] === 'weight' && asked(victim[i])) continue;
      if (ns[i] < least || victim[i] === occupant[i] || !UNFAIR.has(rules[rule[i]]) || !this.app.isTask(victim[i])) continue;
      found.push({ cpu: cpu[i], victim: victim[i], culprit: occupant[i], rule: rules[rule[i]], ns: ns[i] });
    }
    return found.sort((a, b) => b.ns - a.ns).slice(0, CONFLICTS);
  }

  private conflictList(): HTMLElement | null {
    if (!this.conflicts.length) return h('p', { class: 'small' }, 'No conflicts: nobody was put before somebody else for more than a thousandth of the time.');
    const items = this.conflicts.map((one) =>
      h('li', { 'data-ns': one.ns }, h('b', {}, `CPU ${one.cpu}: `), `${this.app.label(one.culprit)} was put before ${this.app.label(one.victim)} for ${nanos(one.ns)} (${one.rule})`),
    );
    return h('div', {}, h('h3', { class: 'conflict-title' }, '⚠ Conflicts'), h('ul', { class: 'conflicts' }, ...items, ...this.intruders().map((text) => h('li', {}, text))));
  }

  /** Real-time tasks of conflicts that run where interrupts land. */
  private intruders(): HTMLElement[] {
    const seconds = Math.max(1e-9, this.app.trace.span_ns / 1e9);
    const pairs = new Map(this.conflicts.filter((one) => one.rule === 'class' || one.rule === 'priority').map((one) => [`${one.cpu} ${one.culprit}`, one]));
    return [...pairs.values()].flatMap(({ cpu, culprit }) => {
      const landing = [...this.stays]
        .map(([actor, row]) => ({ name: this.app.name(actor), rate: (row.get(cpu)?.count ?? 0) / seconds }))
        .filter(({ name, rate }) => rate >= OFTEN && name !== 'softirq SCHED' && name !== 'softirq TIMER')
        .sort((a, b) => b.rate - a.rate)
        .slice(0, 3)
        .map(({ name, rate }) => `${name} ${grouped(rate)} times a second`);
      if (!landing.length) return [];
      return [h('span', {}, h('b', {}, `CPU ${cpu}: `), `serves ${landing.join(', ')}, and ${this.app.label(culprit)} runs there`)];
    });
  }

  private show(): void {
    const weight = (row: Map<number, Place>): number => [...row.values()].reduce((sum, place) => sum + place.ran + place.waited, 0);
    const marked = new Set(this.conflicts.flatMap((one) => [one.victim, one.culprit]));
    const tasks = [...this.places]
      .filter(([actor]) => this.app.isTask(actor) && this.app.matches(actor))
      .sort((a, b) => Number(marked.has(b[0])) - Number(marked.has(a[0])) || weight(b[1]) - weight(a[1]));
    const shown = this.all ? tasks : tasks.slice(0, Math.max(ROWS, marked.size));
    const time = (row: Map<number, Stays>): number => [...row.values()].reduce((sum, stays) => sum + stays.ns, 0);
    const interrupts = [...this.stays].sort((a, b) => this.kind(a[0]) - this.kind(b[0]) || time(b[1]) - time(a[1])).slice(0, this.all ? undefined : 12);
    const heads = ['thread', 'policy', ...(this.affinities ? ['may use'] : [])];
    const columns = this.cpus.length + heads.length + (this.cgroups ? 1 : 0);
    const title = (text: string): HTMLElement => h('tr', { class: 'group' }, h('th', { colspan: columns, scope: 'colgroup' }, text));
    fill(
      this.box,
      h(
        'table',
        { class: this.cpus.length > WIDE ? 'narrow' : '' },
        h('thead', {}, h('tr', {}, ...heads.map((text) => h('th', { scope: 'col' }, text)), ...this.cpus.map((cpu) => h('th', { scope: 'col', class: 'number' }, this.cpus.length > WIDE ? cpu : `CPU ${cpu}`)), this.cgroups ? h('th', { scope: 'col' }, 'cgroup') : null)),
        h(
          'tbody',
          {},
          ...(interrupts.length ? [title('Interrupts and softirqs: how often a second, and their part of the CPU’s time'), ...interrupts.map(([actor, row]) => this.interruptRow(actor, row))] : []),
          title('Threads: their part of the CPU’s time, and how long they waited for it'),
          ...shown.map(([actor, row]) => this.taskRow(actor, row)),
        ),
      ),
    );
    if (tasks.length > shown.length || this.all) {
      const more = h('button', { type: 'button', class: 'more', onclick: () => this.toggle() }, this.all ? 'Fewer rows' : `All ${tasks.length} kinds of threads`);
      this.box.appendChild(h('p', { class: 'more-row' }, more));
    }
  }

  private toggle(): void {
    this.all = !this.all;
    this.show();
    this.box.querySelector<HTMLElement>('.more')?.focus();
  }

  private kind(actor: number): number {
    return this.app.trace.actors.kind[actor];
  }

  private heads(actor: number): HTMLElement[] {
    const { policy, prio, affinity, name, members, tids } = this.app.trace.actors;
    const count = members[actor];
    const who = !this.app.isTask(actor) ? name[actor] : count > 1 ? `${name[actor]} ×${grouped(count)}` : `${name[actor]}${tids[actor].length === 1 ? `[${tids[actor][0]}]` : ''}`;
    const rank = this.app.isTask(actor) ? priorityOf(policy[actor], prio[actor]) || (policy[actor] ?? '') : '';
    const isAhead = policy[actor] !== null && (prio[actor] ?? 120) < 100;
    const place = this.app.isTask(actor) ? where(this.app, actor) : null;
    return [h('th', { scope: 'row' }, who, place), h('td', {}, rank ? h('span', { class: isAhead ? 'tag ahead' : 'muted' }, rank) : ''), ...(this.affinities ? [h('td', { class: 'muted' }, affinity[actor] ?? '')] : [])];
  }

  private taskRow(actor: number, row: Map<number, Place>): HTMLElement {
    const cells = this.cpus.map((cpu) => this.taskCell(actor, cpu, row.get(cpu)));
    return h('tr', { 'data-actor': actor }, ...this.heads(actor), ...cells, this.cgroups ? h('td', { class: 'muted' }, this.app.trace.actors.cgroup[actor] ?? '') : null);
  }

  private taskCell(actor: number, cpu: number, place: Place | undefined): HTMLElement {
    if (!place) return h('td', { class: 'number none' }, h('span', { class: 'muted' }, '·'));
    const span = this.app.trace.span_ns;
    const share = span > 0 ? place.ran / span : 0;
    const isConflict = this.conflicts.some((one) => one.cpu === cpu && (one.victim === actor || one.culprit === actor));
    const words = `ran ${nanos(place.ran)} in ${grouped(place.runs)} runs, waited ${nanos(place.waited)} in ${grouped(place.waits)} waits, ${nanos(place.longest)} at most`;
    const waits = place.waited > span / 1000;
    const text = this.cpus.length > WIDE ? [] : [percent(share), waits ? h('span', { class: 'waited' }, `waited ${nanos(place.waited)}`) : null];
    const td = h('td', { class: `number place ${isConflict ? 'conflict' : ''} ${waits ? 'waits' : ''}`, title: words, 'data-ran': place.ran, 'data-waited': place.waited }, ...text, h('span', { class: 'hidden' }, `${isConflict ? ' conflict: ' : ' '}${words}`));
    return vary(td, { share: Math.min(1, share) });
  }

  private interruptRow(actor: number, row: Map<number, Stays>): HTMLElement {
    const seconds = this.app.trace.span_ns / 1e9;
    const cells = this.cpus.map((cpu) => {
      const stays = row.get(cpu);
      if (!stays) return h('td', { class: 'number none' }, h('span', { class: 'muted' }, '·'));
      const share = this.app.trace.span_ns > 0 ? stays.ns / this.app.trace.span_ns : 0;
      const words = `${grouped(stays.count)} times, ${nanos(stays.ns)} in all, ${nanos(stays.longest)} at most`;
      const rate = seconds > 0 ? stays.count / seconds : 0;
      const text = this.cpus.length > WIDE ? [] : [`${rate >= 10 ? grouped(rate) : rate.toFixed(1)}/s`, share >= 0.0005 ? h('span', { class: 'waited' }, percent(share)) : null];
      const td = h('td', { class: 'number place irq', title: words, 'data-count': stays.count, 'data-ns': stays.ns }, ...text, h('span', { class: 'hidden' }, ` ${words}`));
      return vary(td, { share: Math.min(1, share) });
    });
    return h('tr', {}, ...this.heads(actor), ...cells, this.cgroups ? h('td', {}) : null);
  }
}
