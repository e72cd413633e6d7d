// What the machine did over time: switches and wakeups, who was runnable, where the CPUs' time went.

import type uPlot from 'uplot';

import type { App } from './app';
import { Chart } from './chart';
import { h, section } from './dom';
import { grouped, percent } from './format';
import { palette } from './theme';

/** Points of a line: more would be a hedge. */
const POINTS = 260;

interface Line {
  name: string;
  colour: string;
  dash: number[];
  values: Float32Array | number[];
  area?: boolean;
}

export function activityView(app: App): [HTMLElement, () => void] {
  const { intervals, report } = app.trace;
  const seconds = intervals.width_ns / 1e9;
  const cpus = report.trace.cpus;
  const rate = (values: Uint32Array): number[] => Array.from(values, (value) => value / seconds);
  const share = (values: Float32Array): number[] => Array.from(values, (value) => value / Math.max(1, cpus));
  const { accent } = palette();
  const charts: [string, string, Line[], (value: number) => string][] = [
    [
      'Switches and wakeups a second',
      'a second',
      [
        { name: 'went to sleep', colour: accent, dash: [], values: rate(intervals.voluntary) },
        { name: 'lost the CPU while runnable', colour: '#d55e00', dash: [6, 3], values: rate(intervals.involuntary) },
        { name: 'wakeups', colour: '#009e73', dash: [2, 3], values: rate(intervals.wakeups) },
      ],
      (value) => (value >= 10_000 ? `${grouped(value / 1000)}k` : grouped(value)),
    ],
    [
      `Runnable tasks, on average (${cpus} CPU${cpus === 1 ? '' : 's'})`,
      '',
      [
        { name: 'waiting for a CPU', colour: '#d55e00', dash: [], values: intervals.waiting, area: true },
        { name: 'running', colour: accent, dash: [6, 3], values: intervals.running },
      ],
      (value) => value.toFixed(value < 10 ? 1 : 0),
    ],
    [
      'Part of all CPUs’ time',
      '',
      [
        { name: 'real-time and deadline tasks', colour: accent, dash: [], values: share(intervals.rt), area: true },
        { name: 'softirqs', colour: '#e69f00', dash: [6, 3], values: share(intervals.softirq) },
        { name: 'hardware interrupts', colour: '#d55e00', dash: [2, 3], values: share(intervals.irq) },
      ],
      (value) => percent(value),
    ],
  ];
  const every = Math.max(1, Math.ceil(intervals.count / POINTS));
  const count = Math.ceil(intervals.count / every);
  const times = Array.from({ length: count }, (_, i) => (i + 0.5) * every * seconds);
  const panels = charts.map(([title, unit, lines, values]) => {
    const smooth = lines.map((line) => ({ ...line, values: means(line.values, every) }));
    return new Panel(app, title, unit, times, smooth, values);
  });
  const view = section(
    'activity',
    'Switches, wakeups and runnable tasks',
    'All tasks and CPUs together. The charts point at the same time.',
    h('div', { class: 'grid' }, ...panels.map((panel) => panel.element)),
  );
  return [view, () => panels.forEach((panel) => panel.start())];
}

class Panel {
  readonly element: HTMLElement;
  private readonly plot: HTMLElement;
  private readonly readout = h('p', { class: 'readout' });

  constructor(
    private readonly app: App,
    title: string,
    private readonly unit: string,
    private readonly times: number[],
    private readonly lines: Line[],
    private readonly write: (value: number) => string,
  ) {
    const peaks = lines.map((line) => `${line.name}: ${write(mean(line.values))} on average, ${write(peak(line.values))} at most`).join('; ');
    this.plot = h('div', { class: 'plot', role: 'img', 'aria-label': `${title}. ${peaks}.` });
    const key = h('ul', { class: 'legend' }, ...lines.map((line) => this.keyOf(line)));
    this.element = h('div', { class: 'panel' }, h('h3', {}, title), key, this.plot, this.readout);
  }

  start(): void {
    const chart = new Chart(this.plot, {
      label: '',
      height: 190,
      data: [this.times, ...this.lines.map((line) => line.values)] as uPlot.AlignedData,
      isLogNanos: false,
      sync: 'time',
      values: this.write,
      series: () => this.lines.map((line) => ({ label: line.name, stroke: line.colour, width: 1.6, dash: line.dash, fill: line.area ? `${line.colour}33` : undefined, points: { show: false } })),
      onHover: (index) => this.read(index),
      tip: (index) => this.words(index),
      onZoom: ([from, to]) => this.app.zoom([from * 1e9, to * 1e9]),
    });
    const follow = (range: [number, number] | null): void => chart.zoom(range ? [range[0] / 1e9, range[1] / 1e9] : undefined);
    this.app.onZoom(follow);
    if (this.app.range) follow(this.app.range);
    this.read(null);
  }

  private keyOf(line: Line): HTMLElement {
    const mark = h('span', { class: `swatch ${line.dash.length === 0 ? 'solid' : line.dash[0] > 3 ? 'dashed' : 'dotted'}` });
    mark.style.setProperty('--colour', line.colour);
    return h('li', {}, mark, line.name);
  }

  private read(index: number | null): void {
    this.readout.textContent = index === null ? `On average: ${this.of((line) => mean(line.values))}` : this.words(index);
  }

  private words(index: number): string {
    return `${this.app.time(this.times[index] * 1e9)}: ${this.of((line) => line.values[index])}`;
  }

  private of(value: (line: Line) => number): string {
    const { lines, write, unit } = this;
    return lines.map((line) => `${line.name} ${write(value(line))}${unit ? ` ${unit}` : ''}`).join(', ');
  }
}

/** The mean of each so many values. */
function means(values: ArrayLike<number>, every: number): number[] {
  return Array.from({ length: Math.ceil(values.length / every) }, (_, i) => mean(Array.prototype.slice.call(values, i * every, (i + 1) * every)));
}

function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i];
  return values.length ? sum / values.length : 0;
}

function peak(values: ArrayLike<number>): number {
  let most = 0;
  for (let i = 0; i < values.length; i++) most = Math.max(most, values[i]);
  return most;
}
