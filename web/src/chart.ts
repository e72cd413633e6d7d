// uPlot with the page's colours, sizes and axes.

import uPlot from 'uplot';

import { nanos, since } from './format';
import { STEPS } from './ticks';
import { hideTip, showTip } from './tip';
import { onPaper, onTheme, palette, type Palette } from './theme';

export interface ChartSpec {
  label: string;
  height: number;
  data: uPlot.AlignedData;
  series: (colours: Palette) => uPlot.Series[];
  bands?: (colours: Palette) => uPlot.Band[];
  /** Spans of time instead of plain numbers, on a logarithmic scale. */
  isLogNanos: boolean;
  /** What the logarithmic scale must reach, where several charts share one. */
  limits?: [number, number];
  values?: (value: number) => string;
  draw?: (chart: uPlot, colours: Palette) => void;
  onHover?: (index: number | null) => void;
  onClick?: (seconds: number) => void;
  /** Another part is shown, in seconds. */
  onZoom?: (range: [number, number]) => void;
  /** What is told at the pointer. */
  tip?: (index: number) => string;
  /** Charts of one name zoom and point together. */
  sync: string;
}

/** A chart that fills its element's width, follows it, and follows the theme. */
export class Chart {
  private chart: uPlot | null = null;

  constructor(
    private readonly element: HTMLElement,
    private spec: ChartSpec,
  ) {
    this.make();
    new ResizeObserver(() => this.resize()).observe(element);
    onTheme(() => this.make());
    onPaper((width) => this.resize(width));
  }

  /** Shows other data. */
  update(spec: ChartSpec): void {
    this.spec = spec;
    this.make();
  }

  /** Shows `from..to`, in seconds; all without them. */
  zoom(range?: [number, number]): void {
    const times = this.spec.data[0];
    const [min, max] = range ?? [times[0], times[times.length - 1]];
    const [from, to] = this.range();
    if (from !== min || to !== max) this.chart?.setScale('x', { min, max });
  }

  /** What is shown, in seconds. */
  range(): [number, number] {
    const { min, max } = this.chart?.scales['x'] ?? {};
    return [min ?? 0, max ?? 0];
  }

  /** Puts the pointer on a time. */
  point(seconds: number): void {
    const chart = this.chart;
    if (!chart) return;
    chart.setCursor({ left: chart.valToPos(seconds, 'x'), top: chart.over.clientHeight / 2 });
  }

  private resize(paper?: number): void {
    const width = paper ?? this.element.clientWidth;
    if (this.chart && width > 0 && width !== this.chart.width) this.chart.setSize({ width, height: this.spec.height });
  }

  private make(): void {
    const colours = palette();
    const range = this.chart ? this.range() : undefined;
    this.chart?.destroy();
    const width = Math.max(200, this.element.clientWidth);
    this.chart = new uPlot(options(this.spec, colours, width), this.spec.data, this.element);
    if (range && this.spec.data[0].length > 1) this.zoom(range);
  }
}

const FONT = '12px system-ui, sans-serif';

function options(spec: ChartSpec, colours: Palette, width: number): uPlot.Options {
  const axis = { stroke: colours.muted, grid: { stroke: colours.grid, width: 1 }, ticks: { stroke: colours.grid, width: 1, size: 4 }, font: FONT };
  const write = spec.isLogNanos ? nanos : (spec.values ?? String);
  return {
    width,
    height: spec.height,
    legend: { show: false },
    cursor: { sync: { key: spec.sync }, drag: { x: true, y: false, setScale: true }, points: { size: 7 }, focus: { prox: 24 } },
    focus: { alpha: 1 },
    scales: {
      x: { time: false },
      y: spec.isLogNanos ? { distr: 3, log: 10, range: (_, min, max) => logRange(spec.limits?.[0] ?? min, spec.limits?.[1] ?? max) } : { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] },
    },
    axes: [
      { ...axis, size: 32, space: 80, incrs: STEPS, values: (_, ticks, __, ___, step) => ticks.map((tick) => since(tick * 1e9, Math.max(1, step * 1e9))) },
      { ...axis, size: 62, space: 28, incrs: STEPS, splits: spec.isLogNanos ? decades : undefined, values: (_, ticks) => ticks.map((tick) => label(tick, write, spec.isLogNanos)) },
    ],
    series: [{}, ...spec.series(colours)],
    bands: spec.bands?.(colours),
    hooks: {
      draw: [(chart) => spec.draw?.(chart, colours)],
      setCursor: [(chart) => spec.onHover?.(chart.cursor.idx ?? null)],
      setScale: [(chart, key) => zoomed(chart, key, spec)],
      ready: [(chart) => clicks(chart, spec)],
    },
  };
}

function label(tick: number, write: (value: number) => string, isLog: boolean): string {
  return isLog ? write(tick).replace(/\.00 /, ' ').replace(/\.0 /, ' ') : write(tick);
}

function decades(_: uPlot, __: number, min: number, max: number): number[] {
  const ticks: number[] = [];
  for (let tick = min; tick <= max * 1.001; tick *= 10) ticks.push(tick);
  return ticks;
}

/** Whole decades around what there is, one at least. */
function logRange(min: number | null, max: number | null): [number, number] {
  const low = 10 ** Math.floor(Math.log10(Math.max(1, min ?? 1)));
  const high = 10 ** Math.ceil(Math.log10(Math.max(10, (max ?? 10) * 2.2)));
  return [low, Math.max(high, low * 10)];
}

function zoomed(chart: uPlot, key: string, spec: ChartSpec): void {
  const { min, max } = chart.scales[key];
  if (key === 'x' && min !== undefined && min !== null && max !== undefined && max !== null) spec.onZoom?.([min, max]);
}

/** A click that is no drag, and words at the pointer. */
function clicks(chart: uPlot, spec: ChartSpec): void {
  chart.over.addEventListener('pointerleave', hideTip);
  chart.over.addEventListener('pointermove', (event) => {
    const index = chart.posToIdx(event.clientX - chart.over.getBoundingClientRect().left);
    const text = spec.tip?.(index);
    if (text) showTip(event.clientX, event.clientY, text);
  });
  let down: [number, number] | null = null;
  chart.over.addEventListener('pointerdown', (event) => (down = [event.clientX, event.clientY]));
  chart.over.addEventListener('click', (event) => {
    if (!down || Math.hypot(event.clientX - down[0], event.clientY - down[1]) > 4) return;
    const left = event.clientX - chart.over.getBoundingClientRect().left;
    spec.onClick?.(chart.posToVal(left, 'x'));
  });
}
