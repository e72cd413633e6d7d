// Before and after: hosts whose kernel or labels changed, and all of them where the time of a change was said.

import type { Fleet, FleetHost, FleetPeriod } from '../data';
import { button, fill, h, section } from '../dom';
import { counted, grouped, percent } from '../format';
import type { Filter } from './filter';
import { cell, moment, ofPeriod, share, sum, type Part } from './shares';

const ROWS = 20;
const MORE = 200;

/** A change of a host, with what its kernel threads waited before and after. */
export interface Change {
  host: FleetHost;
  what: string;
  at: number;
  before: Part;
  after: Part;
}

/** The changes of a host, in the order of time: each between a period and the next. */
export function changesOf(host: FleetHost, changedAt: number | null): Change[] {
  return host.periods.slice(1).map((after, i) => {
    const before = host.periods[i];
    return { host, what: difference(before, after, changedAt), at: after.first_ms, before: ofPeriod(before), after: ofPeriod(after) };
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
    const intro = 'For which part of the time kernel threads waited while others were preferred: by kernel and labels, and on hosts that changed. What else changed at the same time is not known here.';
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
    const difference = (change: Change): number => share(change.after) - share(change.before);
    changes.sort((a, b) => Math.abs(difference(b)) - Math.abs(difference(a)));
    fill(
      this.box,
      this.kinds('By kernel', 'kernel', hosts, (period) => period.kernel ?? 'unknown'),
      this.kinds('By labels', 'labels', hosts, (period) => period.labels ?? 'none'),
      changes.length ? this.groups(changes) : h('p', { class: 'small muted', id: 'changes-none' }, 'None of these hosts changed its kernel or labels in this time. unstarve sql --page FILE --changed-at TIME sets what was before a time against what was after it.'),
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
    rows.sort((a, b) => share(b.part) - share(a.part));
    const shown = rows.slice(0, ROWS);
    return h(
      'div',
      {},
      h('h3', { class: 'gap' }, title),
      table(`by-${id}`, [title === 'By kernel' ? 'Kernel' : 'Labels', 'Hosts', 'Waited'], shown.map((row) => h('tr', { 'data-kind': row.name }, h('th', { scope: 'row' }, row.name), h('td', { class: 'number' }, grouped(row.hosts)), cell(row.part)))),
      rows.length > shown.length ? h('p', { class: 'small muted' }, `${grouped(rows.length - shown.length)} more wait less.`) : null,
    );
  }

  /** What was changed, with all hosts on which it was. */
  private groups(changes: Change[]): HTMLElement {
    const groups = new Map<string, Change[]>();
    for (const change of changes) groups.set(change.what, [...(groups.get(change.what) ?? []), change]);
    const rows = [...groups].sort((a, b) => b[1].length - a[1].length).slice(0, ROWS);
    const better = (all: Change[]): number => all.filter((change) => share(change.after) < share(change.before)).length;
    return h(
      'div',
      {},
      h('h3', { class: 'gap' }, 'What was changed'),
      table(
        'groups',
        ['Change', 'Hosts', 'Wait less', 'Before', 'After', 'Difference'],
        rows.map(([what, all]) => {
          const [before, after] = [sum(all.map((one) => one.before)), sum(all.map((one) => one.after))];
          return h('tr', { 'data-what': what }, h('th', { scope: 'row' }, what), h('td', { class: 'number' }, grouped(new Set(all.map((one) => one.host)).size)), h('td', { class: 'number' }, grouped(better(all))), cell(before), cell(after), ratio(before, after));
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
        'changed',
        ['Host', 'When', 'Change', 'Before', 'After', 'Difference'],
        top.map((change) => h('tr', { 'data-host': change.host.name }, h('th', { scope: 'row' }, change.host.name), h('td', {}, moment(change.at)), h('td', {}, change.what), cell(change.before), cell(change.after), ratio(change.before, change.after))),
      ),
      h('p', { class: 'small muted' }, rest ? `${grouped(top.length)} of ${counted(changes.length, 'change')}.` : `${counted(changes.length, 'change')}.`),
      rest ? more : null,
    );
  }
}

function table(id: string, heads: string[], rows: HTMLElement[]): HTMLElement {
  const number = (head: string): boolean => ['Hosts', 'Wait less', 'Waited', 'Before', 'After', 'Difference'].includes(head);
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': heads.join(', ') }, h('table', { id: `fleet-${id}` }, h('thead', {}, h('tr', {}, ...heads.map((head) => h('th', { scope: 'col', class: number(head) ? 'number' : null }, head)))), h('tbody', {}, ...rows)));
}

function ratio(before: Part, after: Part): HTMLElement {
  const [a, b] = [share(before), share(after)];
  const text = a === b ? 'the same' : a === 0 ? 'new' : `${b > a ? '+' : '−'}${percent(Math.abs(b - a) / a)}`;
  return h('td', { class: `number ratio ${b < a ? 'good' : b > a ? 'bad' : ''}` }, text);
}
