// Who kept whom waiting: victims by culprits, in nanoseconds.

import type { App } from './app';
import { fill, h, section, vary } from './dom';
import { nanos, percent } from './format';
import { where } from './waits';
import { ALL_RULES, ruleLook } from './rules';
import { keep, onState, stateOf } from './state';

interface Filter {
  rule: number;
  cpu: number;
  cgroup: string;
}

/** What of a culprit's time was under which rule. */
type Cell = Map<number, number>;

const VICTIMS = 14;
const CULPRITS = 8;
/** Of findings, beyond those. */
const TOLD = 24;
/** Stands for all that have no row or column. */
const REST = -1;

export function blameView(app: App): HTMLElement {
  return new Blame(app).element;
}

class Blame {
  readonly element: HTMLElement;
  private readonly filter: Filter = { rule: -1, cpu: -1, cgroup: '' };
  /** Whoever a finding names, with a row or a column in any case. */
  private readonly victims = new Set<number>();
  private readonly culprits = new Set<number>();
  private readonly box = h('div', { class: 'scroll matrix', tabindex: 0, role: 'region', 'aria-label': 'Blame matrix' });
  private readonly sum = h('p', { class: 'small muted', id: 'blame-sum', 'aria-live': 'polite' });
  /** A culprit's number, or `REST` for the sum of all. */
  private sortBy = REST;
  private all = false;

  constructor(private readonly app: App) {
    const { blame, actors } = app.trace;
    const rules = [...new Set(blame.rule)].map((rule) => [rule, blame.rules[rule]] as const);
    rules.sort((a, b) => order(a[1]) - order(b[1]));
    const cpus = [...new Set(blame.cpu)].sort((a, b) => a - b);
    const cgroups = [...new Set([...blame.victim].map((actor) => actors.cgroup[actor]))].filter((path): path is string => path !== null).sort();
    const controls = h(
      'div',
      { class: 'filters' },
      choice('Rule', 'blame-rule', [['-1', 'all rules'], ...rules.map(([rule, word]) => [String(rule), word] as [string, string])], (value) => this.set({ rule: Number(value) })),
      choice('CPU', 'blame-cpu', [['-1', 'all CPUs'], ...cpus.map((cpu) => [String(cpu), `CPU ${cpu}`] as [string, string])], (value) => this.set({ cpu: Number(value) })),
      cgroups.length
        ? choice('Cgroup of the one who waits', 'blame-cgroup', [['', 'all cgroups'], ...cgroups.map((path) => [path, path] as [string, string])], (value) => this.set({ cgroup: value }))
        : h('span', { class: 'small muted' }, 'No cgroups: no host snapshot came with the recording.'),
    );
    const key = h('ul', { class: 'legend' }, ...rules.map(([, word]) => h('li', {}, swatch(word), word)));
    this.element = section(
      'blame',
      'Who kept whom waiting',
      'Each row is somebody who waited, each column what had the CPU meanwhile. The bar below a figure is its part of the row, in the colour of the rule under which most of it was. Figures of a row add up to all its waits, to the nanosecond.',
      h('div', { class: 'panel' }, controls, this.box, key, this.sum),
    );
    app.trace.report.findings.forEach((finding, i) => {
      app.trace.courses[app.trace.findings[i]].actors.slice(0, TOLD).forEach((actor) => this.victims.add(actor));
      finding.culprits.slice(0, TOLD).forEach((culprit) => {
        const actor = app.actorOf(culprit);
        if (actor !== undefined) this.culprits.add(actor);
      });
    });
    this.follow();
    onState(() => this.follow());
    app.onSearch(() => this.show());
  }

  /** What the address says. */
  private follow(): void {
    const { rules } = this.app.trace.blame;
    const number = (key: 'cpu'): number => (/^\d+$/.test(stateOf(key) ?? '') ? Number(stateOf(key)) : -1);
    Object.assign(this.filter, { rule: rules.indexOf(stateOf('rule') ?? ''), cpu: number('cpu'), cgroup: stateOf('cgroup') ?? '' });
    const select = (id: string, value: string): void => {
      const box = this.element.querySelector<HTMLSelectElement>(`#${id}`);
      if (box) box.value = value;
    };
    select('blame-rule', String(this.filter.rule));
    select('blame-cpu', String(this.filter.cpu));
    select('blame-cgroup', this.filter.cgroup);
    this.show();
  }

  private set(change: Partial<Filter>): void {
    Object.assign(this.filter, change);
    const { rule, cpu, cgroup } = this.filter;
    keep('rule', rule < 0 ? null : this.app.trace.blame.rules[rule]);
    keep('cpu', cpu < 0 ? null : String(cpu));
    keep('cgroup', cgroup || null);
    this.show();
  }

  /** Victim → culprit → rule → time, of what the filter lets through. */
  private table(): Map<number, Map<number, Cell>> {
    const { victim, occupant, rule, cpu, ns } = this.app.trace.blame;
    const { cgroup } = this.app.trace.actors;
    const table = new Map<number, Map<number, Cell>>();
    for (let i = 0; i < ns.length; i++) {
      if (this.filter.rule >= 0 && rule[i] !== this.filter.rule) continue;
      if (this.filter.cpu >= 0 && cpu[i] !== this.filter.cpu) continue;
      if (this.filter.cgroup && cgroup[victim[i]] !== this.filter.cgroup) continue;
      if (this.app.query && !this.app.matches(victim[i]) && !this.app.matches(occupant[i])) continue;
      const row = table.get(victim[i]) ?? new Map<number, Cell>();
      table.set(victim[i], row);
      const cell = row.get(occupant[i]) ?? new Map<number, number>();
      row.set(occupant[i], cell);
      cell.set(rule[i], (cell.get(rule[i]) ?? 0) + ns[i]);
    }
    return table;
  }

  private show(): void {
    const table = this.table();
    const totals = new Map<number, number>();
    for (const row of table.values()) for (const [culprit, cell] of row) totals.set(culprit, (totals.get(culprit) ?? 0) + sumOf(cell));
    const culprits = [...totals].sort((a, b) => b[1] - a[1]).map(([culprit]) => culprit);
    const told = culprits.filter((culprit) => this.culprits.has(culprit) || (this.app.query !== '' && this.app.matches(culprit))).slice(0, TOLD);
    const columns = [...new Set([...culprits.slice(0, CULPRITS), ...told])];
    if (!columns.includes(this.sortBy)) this.sortBy = REST;
    const rest = new Set(culprits.filter((culprit) => !columns.includes(culprit)));
    const total = (row: Map<number, Cell>): number => [...row.values()].reduce((sum, cell) => sum + sumOf(cell), 0);
    const key = (row: Map<number, Cell>): number => (this.sortBy === REST ? total(row) : sumOf(row.get(this.sortBy)));
    const rows = [...table].sort((a, b) => key(b[1]) - key(a[1]) || total(b[1]) - total(a[1]));
    const wanted = rows.filter(([victim], i) => i < VICTIMS || this.victims.has(victim));
    const shown = this.all ? rows : wanted;
    const hidden = this.all ? [] : rows.filter(([victim], i) => i >= VICTIMS && !this.victims.has(victim));
    const most = Math.max(1, ...rows.flatMap(([, row]) => [...row.values()].map(sumOf)));
    const grand = rows.reduce((sum, [, row]) => sum + total(row), 0);

    const line = (head: HTMLElement, parts: Map<number, Cell>[], isRest: boolean): HTMLElement => {
      const merged = merge(parts);
      const others = merge([...rest].map((culprit) => new Map([[REST, merged.get(culprit) ?? new Map<number, number>()]])));
      return h(
        'tr',
        { 'data-rest': isRest },
        head,
        ...columns.map((culprit) => this.cell(merged.get(culprit), total(merged), most)),
        rest.size ? this.cell(others.get(REST), total(merged), most) : null,
        h('td', { class: 'number total' }, nanos(total(merged))),
      );
    };
    const body = shown.map(([victim, row]) => line(this.head(victim), [row], false));
    if (hidden.length) body.push(line(h('th', { scope: 'row' }, `${hidden.length} more`), hidden.map(([, row]) => row), true));
    fill(
      this.box,
      rows.length
        ? h('table', {}, h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'who waited'), ...columns.map((culprit) => this.column(culprit, this.app.label(culprit))), rest.size ? h('th', { scope: 'col', class: 'number' }, `${rest.size} more`) : null, this.column(REST, 'all'))), h('tbody', {}, ...body))
        : h('p', { class: 'empty' }, 'Nobody waited there, or not by that rule.'),
    );
    const all = this.app.trace.report.trace.waits_total_ns;
    fill(this.sum, `${nanos(grand)} of waits${grand < all ? `, ${percent(grand / all)} of all` : ' in all'}.`);
    this.sum.dataset['ns'] = String(grand);
    if (rows.length > VICTIMS) {
      const more = h('button', { type: 'button', class: 'more', onclick: () => this.toggle() }, this.all ? 'Fewer rows' : `All ${rows.length} rows`);
      this.sum.append(' ', more);
    }
  }

  private toggle(): void {
    this.all = !this.all;
    this.show();
    this.sum.querySelector('button')?.focus();
  }

  private column(culprit: number, label: string): HTMLElement {
    const sorted = this.sortBy === culprit;
    const sort = (): void => {
      this.sortBy = culprit;
      this.show();
      this.box.querySelector<HTMLElement>('th[aria-sort] button')?.focus();
    };
    return h('th', { scope: 'col', class: 'number', 'aria-sort': sorted ? 'descending' : null }, h('button', { type: 'button', class: 'sort', onclick: sort, title: `Sort by ${label}` }, label, sorted ? ' ▾' : ''), culprit === REST ? null : where(this.app, culprit));
  }

  private head(victim: number): HTMLElement {
    const course = this.app.trace.courses.findIndex((one) => one.actors.length === 1 && one.actors[0] === victim);
    const label = this.app.label(victim);
    const place = where(this.app, victim);
    if (course < 0) return h('th', { scope: 'row' }, label, place);
    return h('th', { scope: 'row' }, h('button', { type: 'button', class: 'link', onclick: () => this.app.chart(course), title: 'Its waits over time' }, label), place);
  }

  /** The bar's length is the part of all that the row waited. */
  private cell(cell: Cell | undefined, whole: number, most: number): HTMLElement {
    const ns = sumOf(cell);
    if (!cell || ns === 0) return h('td', { class: 'number none', 'data-ns': 0 }, h('span', { class: 'muted' }, '·'));
    const { rules } = this.app.trace.blame;
    const parts = [...cell].sort((a, b) => b[1] - a[1]);
    const words = parts.map(([rule, part]) => `${rules[rule]} ${nanos(part)}`).join(', ');
    const look = ruleLook(rules[parts[0][0]]);
    const td = h('td', { class: `number cell ${ns > most * 0.04 ? 'hot' : ''}`, 'data-ns': ns, title: words }, nanos(ns), h('span', { class: `stripe fill ${look.pattern}` }), h('span', { class: 'hidden' }, ` ${words}`));
    return vary(td, { share: whole > 0 ? ns / whole : 0, colour: look.colour });
  }
}

function order(word: string): number {
  return ALL_RULES.findIndex((rule) => rule.word === word);
}

function sumOf(cell: Cell | undefined): number {
  let sum = 0;
  for (const ns of cell?.values() ?? []) sum += ns;
  return sum;
}

function merge(rows: Map<number, Cell>[]): Map<number, Cell> {
  if (rows.length === 1) return rows[0];
  const merged = new Map<number, Cell>();
  for (const row of rows) {
    for (const [culprit, cell] of row) {
      const into = merged.get(culprit) ?? new Map<number, number>();
      merged.set(culprit, into);
      for (const [rule, ns] of cell) into.set(rule, (into.get(rule) ?? 0) + ns);
    }
  }
  return merged;
}

/** A labelled choice. */
export function choice(label: string, id: string, options: [string, string][], pick: (value: string) => void): HTMLElement {
  const select = h('select', { id, onchange: () => pick(select.value) }, ...options.map(([value, text]) => h('option', { value }, text)));
  return h('label', { class: 'choice' }, h('span', {}, label), select);
}

export function swatch(word: string): HTMLElement {
  const look = ruleLook(word);
  return vary(h('span', { class: `swatch fill ${look.pattern}` }), { colour: look.colour });
}
