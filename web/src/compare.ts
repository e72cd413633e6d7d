// Two recordings side by side: which findings came or went, which rates differ, and who waits how long.

import type uPlot from 'uplot';

import { Chart } from './chart';
import type { Comparison, Course, Role, Trace } from './data';
import { button, fill, h } from './dom';
import { counted, grouped, nanos } from './format';

const OUTCOMES = {
  appeared: 'New in B',
  worse: 'Worse in B',
  milder: 'Milder in B',
  vanished: 'Gone in B',
  stays: 'In both',
} as const;

const METRICS: Record<string, string> = {
  'waited-under': 'waited',
  waited: 'waited in all',
  'item-latency': 'work item latency',
  ran: 'ran',
  softirq: 'softirq time',
  irq: 'interrupt time',
  'involuntary-switches': 'involuntary switches',
  'voluntary-switches': 'voluntary switches',
  wakeups: 'wakeups',
  migrations: 'migrations',
  items: 'work items',
};

const CHANGES = 12;
const WAITS = 14;

export function compareView(comparison: Comparison, traces: Trace[]): [HTMLElement, () => void] {
  const view = new Compare(comparison, traces);
  return [view.element, () => view.start()];
}

class Compare {
  readonly element: HTMLElement;
  private readonly plots = ['A', 'B'].map((side) => h('div', { class: 'plot', role: 'img', id: `compare-plot-${side}` }));
  private readonly title = h('h3', {});
  private readonly charts: Chart[] = [];
  private role: Role;

  constructor(
    private readonly comparison: Comparison,
    private readonly traces: Trace[],
  ) {
    const { findings, waits } = comparison.report;
    this.role = (findings.find((finding) => finding.outcome !== 'stays') ?? findings[0])?.victim ?? waits[0]?.role ?? { kind: 'all', name: 'all tasks' };
    const cured = isCure(comparison);
    const tone = cured ? 'healthy' : (comparison.severity ?? 'healthy');
    const isSame = comparison.report.changes.every((change) => change.verdict === 'unclear') && findings.every((finding) => finding.outcome === 'stays');
    this.element = h(
      'section',
      { id: 'compare', 'aria-labelledby': 'compare-title' },
      h(
        'div',
        { class: `verdict ${tone}` },
        h('p', { class: 'badge' }, isSame ? 'No difference that matters' : cured ? 'Better in B' : 'What changed from A to B'),
        h('h1', { id: 'compare-title' }, comparison.text),
        h('p', { class: 'lead' }, traces.map((trace) => trace.name).join(' · ')),
        this.findings(),
      ),
      h('div', { class: 'panel compare-charts' }, this.title, h('div', { class: 'sides' }, ...this.plots.map((plot, i) => h('div', {}, h('h4', {}, traces[i].name), plot)))),
      h('h3', { class: 'gap' }, 'How long who waits'),
      this.waits(),
      h('h3', { class: 'gap' }, 'Rates that differ'),
      this.changes(),
    );
  }

  start(): void {
    this.charts.push(...this.plots.map((plot, side) => new Chart(plot, this.spec(side))));
    this.describe();
  }

  private show(role: Role): void {
    this.role = role;
    this.charts.forEach((chart, side) => chart.update(this.spec(side)));
    this.describe();
    document.getElementById('compare')?.querySelector('.compare-charts')?.scrollIntoView({ block: 'nearest' });
  }

  private describe(): void {
    fill(this.title, `The longest wait and the p99 of ${this.role.name}, on the same scale`);
    this.plots.forEach((plot, side) => {
      const course = this.course(side);
      const most = course.reduce((longest, one) => Math.max(longest, one.max_ns), 0);
      plot.setAttribute('aria-label', `${this.role.name} in ${this.traces[side].name}: the longest wait ${nanos(most)}`);
    });
  }

  /** The courses of a role: names with numbers in place of its stars. */
  private course(side: number): Course[] {
    const { courses, actors } = this.traces[side];
    if (this.role.kind === 'all') return courses.slice(0, 1);
    const name = new RegExp(`^${this.role.name.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&')).join('\\d+')}$`);
    return courses.filter((course) => course.actors.length > 0 && course.actors.every((actor) => actors.kind[actor] === 0 && name.test(actors.name[actor])));
  }

  private values(side: number, of: 'max' | 'p99'): (number | null)[] {
    const all = new Array<number | null>(this.traces[side].intervals.count).fill(null);
    for (const course of this.course(side)) {
      course.interval.forEach((interval, i) => (all[interval] = Math.max(1, all[interval] ?? 1, course[of][i])));
    }
    return all;
  }

  private spec(side: number): ConstructorParameters<typeof Chart>[1] {
    const { width_ns, count } = this.traces[side].intervals;
    const times = Array.from({ length: count }, (_, i) => ((i + 0.5) * width_ns) / 1e9);
    const most = [0, 1].flatMap((one) => this.course(one)).reduce((longest, course) => Math.max(longest, course.max_ns), 10);
    return {
      label: '',
      height: 240,
      data: [times, this.values(side, 'max'), this.values(side, 'p99')] as uPlot.AlignedData,
      isLogNanos: true,
      limits: [1000, most],
      sync: `compare-${side}`,
      series: (colours) => [
        { stroke: colours.accent, width: 1.6, points: { show: true, size: 4, fill: colours.accent } },
        { stroke: colours.other, width: 1, dash: [4, 3], points: { show: false } },
      ],
    };
  }

  private findings(): HTMLElement {
    const { findings } = this.comparison.report;
    const unjudged = this.comparison.report.unjudged ?? [];
    if (!findings.length && !unjudged.length) return h('p', { class: 'muted' }, 'Neither has a finding.');
    const items = findings.map((finding) =>
      h(
        'li',
        { class: finding.outcome === 'vanished' || finding.outcome === 'milder' ? 'healthy' : (finding.b ?? finding.a ?? 'info'), 'data-outcome': finding.outcome, 'data-id': finding.id },
        h('span', { class: 'badge' }, OUTCOMES[finding.outcome]),
        ' ',
        h('code', {}, finding.id),
        ` ${finding.sentence}`,
      ),
    );
    if (!unjudged.length) return h('ul', { class: 'outcomes' }, ...items);
    const open = unjudged.map((finding) =>
      h(
        'li',
        { class: finding.b ?? finding.a ?? 'info', 'data-outcome': 'unjudged', 'data-id': finding.id },
        h('span', { class: 'badge' }, finding.a ? 'in A' : 'in B'),
        ' ',
        h('code', {}, finding.id),
        ` ${finding.sentence}`,
      ),
    );
    const why = h('p', { class: 'muted' }, `Not judged new or gone: ${unjudged[0].because}.`);
    return h('div', {}, ...(items.length ? [h('ul', { class: 'outcomes' }, ...items)] : []), why, h('ul', { class: 'outcomes' }, ...open));
  }

  private waits(): HTMLElement {
    const { waits } = this.comparison.report;
    const cell = (ns: number | undefined): HTMLElement => h('td', { class: 'number', 'data-ns': ns }, ns === undefined ? '–' : nanos(ns));
    const rows = waits.slice(0, WAITS).map(({ role, a, b }) =>
      h(
        'tr',
        { 'data-role': role.name },
        h('th', { scope: 'row' }, button(role.name, () => this.show(role), { class: 'link', title: 'Show its waits over time' })),
        ...[a, b].flatMap((side) => [h('td', { class: 'number' }, side ? grouped(side.count) : '–'), cell(side?.p50_ns), cell(side?.p99_ns), cell(side?.max_ns)]),
      ),
    );
    const heads = ['A', 'B'].flatMap((side) => ['waits', 'p50', 'p99', 'longest'].map((name) => h('th', { scope: 'col', class: 'number' }, `${name}, ${side}`)));
    return h(
      'div',
      { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Waits by role' },
      h('table', {}, h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'who'), ...heads)), h('tbody', {}, ...rows)),
    );
  }

  private changes(): HTMLElement {
    const { changes, compared } = this.comparison.report;
    const sure = changes.filter((change) => change.verdict !== 'unclear');
    const unclear = changes.length - sure.length;
    const rows = sure.slice(0, CHANGES).map((change) => {
      const what = `${METRICS[change.metric] ?? change.metric}${change.rule ? ` under ${change.rule}` : ''}`;
      return h(
        'tr',
        { 'data-a': change.a, 'data-b': change.b },
        h('th', { scope: 'row' }, change.role.name),
        h('td', {}, what),
        h('td', { class: 'number' }, amount(change.a, change.unit)),
        h('td', { class: 'number' }, amount(change.b, change.unit)),
        h('td', { class: `number ratio ${tone(change)}` }, ratio(change.a, change.b)),
        h('td', { class: 'number' }, change.interval ? change.interval.map((edge) => signed(edge, change.unit)).join(' to ') : 'too short to tell'),
      );
    });
    const note = `${counted(compared, 'rate')} compared; the intervals hold for all of them at once with 95 %.${unclear ? ` ${grouped(unclear)} more are unclear (too much variation).` : ''}`;
    const heads: [string, string][] = [['who', ''], ['what', ''], ['A', 'number'], ['B', 'number'], ['B / A', 'number'], ['B − A', 'number']];
    return h(
      'div',
      {},
      rows.length
        ? h(
            'div',
            { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Rates that differ' },
            h('table', {}, h('thead', {}, h('tr', {}, ...heads.map(([text, type]) => h('th', { scope: 'col', class: type }, text)))), h('tbody', {}, ...rows)),
          )
        : h('p', { class: 'empty' }, 'None surely does.'),
      h('p', { class: 'small muted' }, note),
    );
  }
}

/** What B did to those that A starved: some findings went or became milder, and none came or became worse. */
function isCure({ report }: Comparison): boolean {
  const outcomes = new Set(report.findings.map((finding) => finding.outcome));
  return (outcomes.has('vanished') || outcomes.has('milder')) && !outcomes.has('appeared') && !outcomes.has('worse');
}

/** Less waiting is good for somebody, more is bad; of other rates nobody knows. */
function tone({ metric, verdict }: { metric: string; verdict: string }): string {
  if (!metric.startsWith('waited') && metric !== 'item-latency') return '';
  return { less: 'good', more: 'bad' }[verdict] ?? '';
}

function amount(value: number, unit: string): string {
  if (unit === 'ns/s') return `${nanos(value)}/s`;
  return unit === 'ns' ? nanos(value) : `${grouped(value)}/s`;
}

function signed(value: number, unit: string): string {
  return `${value < 0 ? '−' : '+'}${amount(Math.abs(value), unit)}`;
}

function ratio(a: number, b: number): string {
  if (a <= 0) return 'new';
  const times = b / a;
  return times >= 9.95 ? `× ${grouped(times)}` : `× ${times.toFixed(times < 0.1 ? 2 : 1)}`;
}
