// Waits over time: p50, p99 and the longest in each interval, for the chosen tasks.

import type uPlot from 'uplot';

import type { App, Spot } from './app';
import { Chart, type ChartSpec } from './chart';
import type { Course } from './data';
import { button, fill, h, section } from './dom';
import { counted, grouped, nanos } from './format';
import { palette, type Palette } from './theme';

/** Colours of the tasks beside the first; told apart by dashes, too. */
const BESIDE: [string, number[]][] = [
  ['#d55e00', [6, 3]],
  ['#009e73', [2, 3]],
  ['#cc79a7', [8, 3, 2, 3]],
];

export function waitsView(app: App): [HTMLElement, () => void] {
  const view = new Waits(app);
  return [view.element, () => view.start()];
}

class Waits {
  readonly element: HTMLElement;
  private readonly plot = h('div', { class: 'plot', role: 'img', tabindex: 0, id: 'waits-plot' });
  private readonly readout = h('p', { class: 'readout', 'aria-live': 'polite' });
  private readonly note = h('p', { class: 'far', role: 'status' });
  private readonly key = h('div', { class: 'key' });
  private readonly spikes = h('div', { class: 'spikes' });
  private readonly table: HTMLTableElement;
  private chosen: number[];
  private chart: Chart | null = null;
  private pointer = -1;

  constructor(private readonly app: App) {
    this.chosen = [app.trace.findings[0] ?? 0];
    this.table = this.taskTable();
    this.element = section(
      'waits',
      'Waits over time',
      'How long the chosen tasks waited for a CPU, on a logarithmic scale. A click shows that moment in detail; drag to zoom, double-click for all.',
      h('div', { class: 'panel' }, this.key, this.plot, this.readout, this.note, h('div', { class: 'actions' }, button('Whole recording', () => this.app.zoom(null))), this.spikes),
      h('details', { open: true }, h('summary', {}, 'Choose tasks (up to four)'), h('div', { class: 'scroll tasks', tabindex: 0, role: 'region', 'aria-label': 'Tasks' }, this.table)),
    );
    this.plot.addEventListener('keydown', (event) => this.key_(event));
    app.onCourse((course) => this.choose([course]));
    app.onSearch(() => this.filter());
    this.filter();
  }

  start(): void {
    const chart = (this.chart = new Chart(this.plot, this.spec()));
    const follow = (range: [number, number] | null): void => chart.zoom(range ? [range[0] / 1e9, range[1] / 1e9] : undefined);
    this.app.onZoom(follow);
    if (this.app.range) follow(this.app.range);
    this.describe();
  }

  /** Leaves the tasks that are searched for. */
  private filter(): void {
    for (const row of this.table.querySelectorAll<HTMLElement>('tr[data-course]')) {
      const { actors } = this.app.trace.courses[Number(row.dataset['course'])];
      row.hidden = actors.length > 0 && !actors.some((actor) => this.app.matches(actor));
    }
  }

  private choose(courses: number[]): void {
    this.chosen = courses.length ? courses.slice(-4) : [0];
    for (const box of this.table.querySelectorAll('input')) box.checked = this.chosen.includes(Number(box.value));
    this.pointer = -1;
    this.chart?.update(this.spec());
    this.describe();
  }

  private get main(): Course {
    return this.app.trace.courses[this.chosen[0]];
  }

  private name(index: number): string {
    const { actors } = this.app.trace.courses[index];
    if (actors.length === 0) return 'all tasks';
    return actors.length === 1 ? this.app.label(actors[0]) : `${this.app.label(actors[0])} and ${actors.length - 1} more`;
  }

  private taskTable(): HTMLTableElement {
    const rows = this.app.trace.courses.map((course, index) => {
      const box = h('input', { type: 'checkbox', value: index, checked: this.chosen.includes(index), id: `course-${index}` });
      box.addEventListener('change', () => {
        const others = this.chosen.filter((other) => other !== index);
        this.choose(box.checked ? [...others, index] : others);
      });
      const number = (value: number): HTMLElement => h('td', { class: 'number', 'data-ns': value }, nanos(value));
      return h(
        'tr',
        { 'data-course': index },
        h('td', {}, box),
        h('th', { scope: 'row' }, h('label', { for: `course-${index}` }, this.name(index)), course.actors.length ? where(this.app, course.actors[0]) : null),
        h('td', { class: 'number', 'data-count': course.waits }, grouped(course.waits)),
        number(course.total_ns),
        number(course.max_ns),
        h('td', {}, this.app.trace.findings.includes(index) ? h('span', { class: 'tag' }, 'finding') : null),
      );
    });
    const heads = ['', 'task', 'waits', 'waited in all', 'longest', ''];
    return h(
      'table',
      {},
      h('thead', {}, h('tr', {}, ...heads.map((text, i) => (text ? h('th', { scope: 'col', class: i > 1 ? 'number' : '' }, text) : h('td', {}))))),
      h('tbody', {}, ...rows),
    );
  }

  /** The course's values in every interval; `null` where nothing ended. */
  private full(course: Course, values: ArrayLike<number>): (number | null)[] {
    const all = new Array<number | null>(this.app.trace.intervals.count).fill(null);
    course.interval.forEach((interval, i) => (all[interval] = Math.max(1, values[i])));
    return all;
  }

  private spec(): ChartSpec {
    const { width_ns, count } = this.app.trace.intervals;
    const [first, ...beside] = this.chosen.map((index) => this.app.trace.courses[index]);
    const times = Array.from({ length: count }, (_, i) => ((i + 0.5) * width_ns) / 1e9);
    const main = [first.max, first.p99, first.p50].map((values) => this.full(first, values));
    const others = beside.map((course) => this.full(course, course.max));
    return {
      label: '',
      height: 300,
      data: [times, ...main, ...others] as uPlot.AlignedData,
      isLogNanos: true,
      sync: 'time',
      series: (colours) => [
        line('longest', colours.accent, 1.6, [], first.interval.length < 300),
        line('p99', colours.other, 1, [4, 3]),
        line('p50', colours.other, 1.2, []),
        ...beside.map((_, i) => line('longest', BESIDE[i][0], 1.6, BESIDE[i][1], true)),
      ],
      bands: (colours) => [{ series: [2, 3], fill: colours.other + '3d' }],
      draw: (chart, colours) => this.mark(chart, colours),
      onHover: (index) => this.read(index),
      onClick: (seconds) => this.openNear(seconds * 1e9),
      onZoom: ([from, to]) => this.app.zoom([from * 1e9, to * 1e9]),
      tip: (index) => this.words(index),
    };
  }

  /** Intervals in which the longest wait stands out: at least half of the worst, and far above what is usual. */
  private standOut(): number[] {
    const { interval, max, max_ns } = this.main;
    const sorted = Array.from(max).sort((a, b) => a - b);
    const usual = sorted[sorted.length >> 1] ?? 0;
    const found: number[] = [];
    interval.forEach((at, i) => {
      if (max[i] < max_ns / 2 || (max[i] < usual * 4 && interval.length > 8)) return;
      const last = found[found.length - 1];
      if (last !== undefined && at - interval[last] <= 2) {
        if (max[i] > max[last]) found[found.length - 1] = i;
      } else found.push(i);
    });
    return found.length > 24 ? [] : found;
  }

  private mark(chart: uPlot, colours: Palette): void {
    const { width_ns } = this.app.trace.intervals;
    const { interval, max } = this.main;
    const context = chart.ctx;
    const scale = devicePixelRatio;
    const at = (i: number): [number, number] => [
      chart.valToPos(((interval[i] + 0.5) * width_ns) / 1e9, 'x', true),
      chart.valToPos(max[i], 'y', true),
    ];
    const spikes = this.standOut().filter((i) => at(i)[0] >= chart.bbox.left && at(i)[0] <= chart.bbox.left + chart.bbox.width);
    context.save();
    context.fillStyle = colours.text;
    context.font = `${12 * scale}px system-ui, sans-serif`;
    context.textAlign = 'center';
    const taken: [number, number][] = [];
    for (const i of [...spikes].sort((a, b) => max[b] - max[a])) {
      const [x, y] = at(i);
      context.beginPath();
      context.moveTo(x, y - 3 * scale);
      context.lineTo(x - 4 * scale, y - 10 * scale);
      context.lineTo(x + 4 * scale, y - 10 * scale);
      context.fill();
      const text = nanos(max[i]);
      const half = context.measureText(text).width / 2 + 3 * scale;
      const middle = Math.min(Math.max(x, chart.bbox.left + half), chart.bbox.left + chart.bbox.width - half);
      if (taken.some(([from, to]) => middle - half < to && middle + half > from)) continue;
      context.fillText(text, middle, y - 14 * scale);
      taken.push([middle - half, middle + half]);
    }
    this.markPeriod(chart, colours, spikes.map(at));
    context.restore();
  }

  /** A bracket between the first two spikes that are a period apart. */
  private markPeriod(chart: uPlot, colours: Palette, at: [number, number][]): void {
    const finding = this.app.trace.report.findings[this.app.trace.findings.indexOf(this.chosen[0])];
    const period = finding?.period_ns;
    if (!period || at.length < 2) return;
    const scale = devicePixelRatio;
    const context = chart.ctx;
    const wanted = Math.abs(chart.valToPos(period / 1e9, 'x', true) - chart.valToPos(0, 'x', true));
    for (const [i, [x]] of at.entries()) {
      const next = at.slice(i + 1).find(([other]) => Math.abs(other - x - wanted) < wanted * 0.15);
      if (!next) continue;
      const y = Math.max(at[i][1], next[1]) + 44 * scale;
      const text = `every ${nanos(period)}`;
      const half = context.measureText(text).width / 2 + 6 * scale;
      if (next[0] - x < 2 * half) return;
      const middle = (x + next[0]) / 2;
      context.strokeStyle = colours.muted;
      context.lineWidth = scale;
      context.setLineDash([3 * scale, 3 * scale]);
      context.beginPath();
      for (const [from, to] of [[x, middle - half], [middle + half, next[0]]]) {
        context.moveTo(from, y);
        context.lineTo(to, y);
      }
      for (const [edge, top] of [[x, at[i][1]], next]) {
        context.moveTo(edge, top);
        context.lineTo(edge, y + 4 * scale);
      }
      context.stroke();
      context.fillText(text, middle, y + 4 * scale);
      return;
    }
  }

  private read(index: number | null): void {
    this.readout.textContent = index === null ? 'Point at the chart, or use the arrow keys on it.' : this.words(index);
  }

  private words(index: number): string {
    const course = this.main;
    const width = this.app.trace.intervals.width_ns;
    const at = course.interval.indexOf(index);
    const time = this.app.time((index + 0.5) * width, width);
    if (at < 0) return `${time}: no wait ended here`;
    return `${time}: ${counted(course.count[at], 'wait')}; half at most ${nanos(course.p50[at])}, 99 % at most ${nanos(course.p99[at])}, the longest ${nanos(course.max[at])}`;
  }

  private describe(): void {
    const course = this.main;
    const text = `Waits of ${this.name(this.chosen[0])} over time: ${counted(course.waits, 'wait')}, the longest ${nanos(course.max_ns)}. Left and right move between intervals, Enter shows the moment.`;
    this.plot.setAttribute('aria-label', text);
    const colours = palette();
    fill(
      this.key,
      h('b', {}, this.name(this.chosen[0])),
      swatch('longest', colours.accent, 'solid'),
      swatch('p99', colours.other, 'dashed'),
      swatch('p50', colours.other, 'solid'),
      ...this.chosen.slice(1).map((index, i) => swatch(`longest of ${this.name(index)}`, BESIDE[i][0], 'dashed')),
    );
    const spots = this.app.spotsOf(course.actors).slice(0, 6);
    fill(
      this.spikes,
      spots.length ? h('h3', {}, 'The longest') : null,
      h('ul', { class: 'chips' }, ...spots.map((spot) => h('li', {}, this.chip(spot)))),
    );
    this.read(null);
  }

  private chip(spot: Spot): HTMLElement {
    const who = this.main.actors.length === 1 ? '' : `${this.app.name(spot.actor)}: `;
    return button(`${who}${nanos(spot.end - spot.start)} at ${this.app.time(spot.start)}, CPU ${spot.cpu}`, () => this.app.open(spot), { 'data-spot': `${spot.start}-${spot.end}` });
  }

  /** The wait kept in detail that is nearest to a click; of those at the same place, the longest. */
  private openNear(ns: number): void {
    const [from, to] = this.chart?.range() ?? [0, 0];
    const slack = Math.max(((to - from) * 1e9) / 60, this.app.trace.intervals.width_ns);
    const away = (spot: Spot): number => Math.max(0, Math.max(spot.start - ns, ns - spot.end) - slack);
    const spots = this.app.spotsOf(this.main.actors);
    const nearest = spots.reduce<Spot | null>((best, spot) => (best && away(best) <= away(spot) ? best : spot), null);
    const isNear = nearest !== null && away(nearest) === 0;
    fill(this.note, ...(isNear ? [] : this.app.nothingNear(ns, nearest)));
    if (isNear) this.app.open(nearest);
  }

  private key_(event: KeyboardEvent): void {
    const { interval } = this.main;
    const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20 }[event.key];
    if (step) {
      this.pointer = Math.min(interval.length - 1, Math.max(0, this.pointer + step));
    } else if (event.key === 'Home' || event.key === 'End') {
      this.pointer = event.key === 'Home' ? 0 : interval.length - 1;
    } else if (event.key === 'Enter' && this.pointer >= 0) {
      this.openNear((interval[this.pointer] + 0.5) * this.app.trace.intervals.width_ns);
    } else return;
    event.preventDefault();
    const at = interval[this.pointer];
    if (at === undefined) return;
    this.chart?.point(((at + 0.5) * this.app.trace.intervals.width_ns) / 1e9);
    this.read(at);
  }
}

/** Where somebody is found, in small letters below the name. */
export function where(app: App, actor: number): HTMLElement | null {
  const text = app.whereabouts(actor);
  return text ? h('span', { class: 'where', title: text }, text) : null;
}

function line(label: string, stroke: string, width: number, dash: number[], points = false): uPlot.Series {
  return { label, stroke, width, dash, spanGaps: false, points: { show: points, size: 5, fill: stroke } };
}

function swatch(label: string, colour: string, style: string): HTMLElement {
  const mark = h('span', { class: `swatch ${style}` });
  mark.style.setProperty('--colour', colour);
  return h('span', {}, mark, label);
}
