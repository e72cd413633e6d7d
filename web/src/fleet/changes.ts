// Before and after: hosts whose kernel or labels changed, and all of them where the time of a change was said.

import type { Fleet, FleetHost, FleetPeriod } from '../data';
import { button, fill, h, section } from '../dom';
import { counted, grouped, percent } from '../format';
import type { Filter } from './filter';
import { effectOnHost, effectOnHosts, type Effect, type Sides } from './effect';
import { cell, greatestFirst, moment, ofPeriod, share, shareCell, sum, type Part } from './shares';
import { LONGEST_NAME, name, table } from './table';

const ROWS = 20;
const MORE = 200;

/** A change of a host. */
export interface Change extends Sides {
  host: FleetHost;
  what: string;
}

/** The changes of a host, in the order of time: each between a period and the next. */
export function changesOf(host: FleetHost, changedAt: number | null): Change[] {
  return host.periods.slice(1).map((after, i) => {
    const before = host.periods[i];
    return { host, what: difference(before, after, changedAt), before, after };
  });
}

function difference(before: FleetPeriod, after: FleetPeriod, changedAt: number | null): string {
  const kernel = before.kernel !== after.kernel ? `kernel ${before.kernel ?? 'unknown'} → ${after.kernel ?? 'unknown'}` : '';
  const [old, now] = [labels(before), labels(after)];
  const gone = old.filter((label) => !now.includes(label));
  const come = now.filter((label) => !old.includes(label));
  const changed = gone.length || come.length ? `labels ${gone.join(', ') || 'none'} → ${come.join(', ') || 'none'}` : '';
  const late = !before.is_after && after.is_after && changedAt !== null && !kernel && !changed ? `the change at ${moment(changedAt)}` : '';
  return [kernel, changed, late].filter(Boolean).join(', ') || 'back to what it was';
}

function labels(period: FleetPeriod): string[] {
  return period.labels ? period.labels.split(',') : [];
}

export class Changes {
  readonly element: HTMLElement;
  private readonly box = h('div', { class: 'panel', id: 'changes-box' });
  private shown = ROWS;

  constructor(
    private readonly fleet: Fleet,
    private readonly filter: Filter,
  ) {
    const intro = 'For which part of the time kernel threads waited while others were preferred: by kernel and labels, and on hosts that changed. What else changed at the same time is not known here. A difference has a colour if it is at least 0.1 points (0.1 % of the time) and a tenth of the greater side, and its interval over hosts, or over hours of one host, leaves out zero; the intervals of a table hold together with 95 %.';
    this.element = section('changes', 'Before and after', intro, this.box);
    filter.onChange(() => {
      this.shown = ROWS;
      this.show();
    });
    this.show();
  }

  private show(): void {
    const { hosts } = this.filter;
    const changes = hosts.flatMap((host) => changesOf(host, this.fleet.changed_ms));
    changes.sort((a, b) => size(b) - size(a));
    fill(
      this.box,
      this.kinds('By kernel', 'kernel', hosts, (period) => period.kernel ?? 'unknown'),
      this.kinds('By labels', 'labels', hosts, (period) => period.labels ?? 'none'),
      changes.length ? this.groups(changes) : h('p', { class: 'small muted', id: 'changes-none' }, none(hosts)),
      changes.length ? this.list(changes) : null,
    );
  }

  /** All periods of one kernel, or of the same labels. */
  private kinds(title: string, id: string, hosts: FleetHost[], of: (period: FleetPeriod) => string): HTMLElement | null {
    const kinds = new Map<string, { parts: Part[]; hosts: Set<FleetHost> }>();
    for (const host of hosts)
      for (const period of host.periods) {
        const kind = kinds.get(of(period)) ?? { parts: [], hosts: new Set() };
        kinds.set(of(period), kind);
        kind.parts.push(ofPeriod(period));
        kind.hosts.add(host);
      }
    if (id === 'labels' && kinds.size < 2) return null;
    const rows = [...kinds].map(([name, kind]) => ({ name, hosts: kind.hosts.size, part: sum(kind.parts) }));
    if (!rows.length) return null;
    rows.sort((a, b) => greatestFirst(a.part, b.part));
    const shown = rows.slice(0, ROWS);
    return h(
      'div',
      {},
      h('h3', { class: 'gap' }, title),
      table(
        `fleet-by-${id}`,
        [{ name: title === 'By kernel' ? 'Kernel' : 'Labels' }, number('Hosts'), number('Waited')],
        shown.map((row) => h('tr', { 'data-kind': row.name }, h('th', { scope: 'row' }, name(row.name, LONGEST_CHANGE)), h('td', { class: 'number' }, grouped(row.hosts)), cell(row.part))),
      ),
      rows.length > shown.length ? h('p', { class: 'small muted' }, `${grouped(rows.length - shown.length)} more wait less.`) : null,
    );
  }

  /** What was changed, with all hosts on which it was. */
  private groups(changes: Change[]): HTMLElement {
    const groups = new Map<string, Change[]>();
    for (const change of changes) groups.set(change.what, [...(groups.get(change.what) ?? []), change]);
    const rows = [...groups].sort((a, b) => b[1].length - a[1].length).slice(0, ROWS);
    return h(
      'div',
      {},
      h('h3', { class: 'gap' }, 'What was changed'),
      table(
        'fleet-groups',
        [{ name: 'Change' }, number('Hosts'), number('Wait less'), number('Before'), number('After'), number('Difference')],
        rows.map(([what, all]) => {
          const effect = effectOnHosts(all.map((change) => [change.host, change]), groups.size);
          const hosts = new Set(all.map((one) => one.host)).size;
          return h('tr', { 'data-what': what }, h('th', { scope: 'row' }, name(what, LONGEST_CHANGE)), h('td', { class: 'number' }, grouped(hosts)), h('td', { class: 'number' }, waitLess(all)), ...sides(effect, all.map(({ before }) => before), all.map(({ after }) => after)), differenceCell(effect));
        }),
      ),
      groups.size > rows.length ? h('p', { class: 'small muted' }, `${counted(groups.size - rows.length, 'more kind')} of change.`) : null,
    );
  }

  private list(changes: Change[]): HTMLElement {
    const top = changes.slice(0, this.shown);
    const rest = changes.length - top.length;
    const more = button(`Show ${grouped(Math.min(MORE, rest))} more`, () => {
      this.shown += MORE;
      this.show();
    }, { class: 'more', id: 'changes-more' });
    return h(
      'div',
      {},
      h('h3', { class: 'gap' }, 'Host by host, the greatest difference first'),
      table(
        'fleet-changed',
        [{ name: 'Host' }, { name: 'When', isWords: true }, { name: 'Change', isWords: true }, number('Before'), number('After'), number('Difference')],
        top.map((change) => h('tr', { 'data-host': change.host.name }, h('th', { scope: 'row' }, name(change.host.name, LONGEST_NAME)), h('td', {}, moment(change.after.first_ms)), h('td', {}, name(change.what, LONGEST_CHANGE)), cell(ofPeriod(change.before)), cell(ofPeriod(change.after)), differenceCell(effectOnHost(change, changes.length)))),
      ),
      h('p', { class: 'small muted' }, rest ? `${grouped(top.length)} of ${counted(changes.length, 'change')}.` : `${counted(changes.length, 'change')}.`),
      rest ? more : null,
    );
  }
}

/** Characters of labels, and of what was changed. */
const LONGEST_CHANGE = 160;

function number(head: string): { name: string; isNumber: true } {
  return { name: head, isNumber: true };
}

/** By how much the part of the time changed; what is not known comes last. */
function size({ before, after }: Change): number {
  const [a, b] = [share(ofPeriod(before)), share(ofPeriod(after))];
  return a === null || b === null ? -1 : Math.abs(b - a);
}

function none(hosts: FleetHost[]): string {
  if (!hosts.some((host) => host.periods.length)) return 'Of these hosts no row says which kernel and labels they had.';
  return 'None of these hosts changed its kernel or labels in this time. unstarve sql --page FILE --changed-at TIME sets what was before a time against what was after it.';
}

/** How many hosts wait less after their last change, of those of which that is known. */
function waitLess(changes: Change[]): string {
  const less = new Map<FleetHost, boolean>();
  for (const { host, before, after } of changes) {
    const [a, b] = [share(ofPeriod(before)), share(ofPeriod(after))];
    if (a !== null && b !== null) less.set(host, b < a);
  }
  return less.size ? grouped([...less.values()].filter(Boolean).length) : '?';
}

/** Before and after: means over the hosts; where no part of the time is known, sums. */
function sides(effect: Effect, before: FleetPeriod[], after: FleetPeriod[]): HTMLElement[] {
  const of = (periods: FleetPeriod[]): Part => sum(periods.map(ofPeriod));
  if (effect.verdict === 'unknown') return [cell(of(before)), cell(of(after))];
  return [shareCell(effect.before, 'mean of the hosts'), shareCell(effect.after, 'mean of the hosts')];
}

const COLOURS = { better: 'good', worse: 'bad', unclear: 'muted', unknown: 'muted' };

/** How much more or less, in a colour where that is clear. */
function differenceCell({ verdict, basis, before, after, interval }: Effect): HTMLElement {
  const relative = before === null || after === null ? '' : ratio(before, after);
  const isClear = verdict === 'better' || verdict === 'worse';
  const said = isClear ? relative : verdict === 'unclear' ? 'no clear change' : 'not known';
  const range = interval ? `${points(interval[0])} to ${points(interval[1])} points` : basis === 'size' ? 'by its size alone, too few hours' : '';
  const note = [isClear ? '' : relative, range].filter(Boolean).join(', ');
  return h('td', { class: `number ratio ${COLOURS[verdict]}`, 'data-verdict': verdict, 'data-basis': basis }, h('span', {}, said), note ? h('span', { class: 'note' }, note) : null);
}

function ratio(a: number, b: number): string {
  return a === b ? 'the same' : a === 0 ? 'new' : `${b > a ? '+' : '−'}${percent(Math.abs(b - a) / a)}`;
}

/** `−0.46`: hundredths of the time. */
function points(value: number): string {
  const text = Math.abs(value * 100).toFixed(2);
  return `${Number(text) === 0 ? '' : value > 0 ? '+' : '−'}${text}`;
}
