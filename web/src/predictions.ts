// What a change would do: for each fix the recorded value, the predicted one with its range, and who else gains or loses.

import type { App } from './app';
import type { Finding, Outlook, Predicted, PredictedMetric, PredictedOther, Remedy } from './data';
import { h, section, vary } from './dom';
import { nanos } from './format';

const WORDS: Record<Outlook, string> = {
  helps: 'helps',
  'helps-and-starves': 'helps it, and starves others',
  'no-difference': 'no clear difference',
  'starves-others': 'no clear difference to it, and starves others',
  harms: 'harms',
  refused: 'not predicted',
};

const TONES: Record<Outlook, string> = {
  helps: 'good',
  'helps-and-starves': 'bad',
  'no-difference': 'muted',
  'starves-others': 'bad',
  harms: 'bad',
  refused: 'muted',
};

/** Screens name the longest wait, so the picture is of it where it is predicted. */
const PICTURED = 'longest';

/** A fix with its number, and what it would do. */
interface Change {
  number: number;
  remedy: Remedy;
  predicted: Predicted;
}

/** Whether anything is said of any fix. */
export function hasPredictions(app: App): boolean {
  return app.trace.report.findings.some((finding) => changesOf(finding).length > 0);
}

/** Nothing where nothing was played. */
export function predictionsView(app: App): HTMLElement | null {
  const panels = app.trace.report.findings.map((finding, index) => panel(finding, index, changesOf(finding)));
  if (!panels.some(Boolean)) return null;
  return section(
    'predictions',
    'What a change would do',
    'The recording was played again by a model of its kernel’s scheduler, without a change and with each. A range has what replays with shifted timers, and earlier predictions, differed by. What could not be known is refused.',
    ...panels,
  );
}

function changesOf(finding: Finding): Change[] {
  return finding.remedies.flatMap((remedy, i) => (remedy.predicted ? [{ number: i + 1, remedy, predicted: remedy.predicted }] : []));
}

function panel(finding: Finding, index: number, changes: Change[]): HTMLElement | null {
  if (!changes.length) return null;
  const answered = changes.filter(({ predicted }) => predicted.metrics.length > 0);
  const refused = changes.filter(({ predicted }) => predicted.metrics.length === 0);
  return h(
    'div',
    { class: 'panel predicted', 'data-of': index },
    h('h3', {}, h('a', { href: `#finding-${index}` }, finding.headline || finding.sentence)),
    ...pictures(answered),
    answered.length ? figures(answered) : null,
    refused.length ? refusals(refused) : null,
  );
}

/** A picture for each metric that is the main one of a change: ranges of one metric share a scale. */
function pictures(changes: Change[]): HTMLElement[] {
  const byMetric = new Map<string, [Change, PredictedMetric][]>();
  for (const change of changes) {
    const { metrics } = change.predicted;
    const of = metrics.find(({ metric }) => metric === PICTURED) ?? metrics[0];
    byMetric.set(of.metric, [...(byMetric.get(of.metric) ?? []), [change, of]]);
  }
  return [...byMetric.values()].map((rows) => picture(rows));
}

function picture(rows: [Change, PredictedMetric][]): HTMLElement {
  const scale = new Scale(rows.map(([, of]) => of));
  const { name, unit, recorded } = rows[0][1];
  return h(
    'figure',
    {},
    h('figcaption', {}, `The ${name}: ${shown(recorded, unit)} as recorded, and with each change`),
    h('ul', { class: 'outlooks' }, ...rows.map(([change, of]) => row(change, of, scale))),
    axis(scale, unit),
    h('p', { class: 'legend small muted', 'aria-hidden': true }, h('span', {}, h('i', { class: 'mark recorded' }), ' recorded'), h('span', {}, h('i', { class: 'mark predicted' }), ' predicted, with its range'), rows.some(([, of]) => of.came !== undefined) ? h('span', {}, h('i', { class: 'mark came' }), ' as it came') : null),
  );
}

/** Logarithmic, for changes differ by factors; zero, which has no logarithm, has a place of its own on the left. */
class Scale {
  private readonly least: number;
  private readonly most: number;
  readonly hasZero: boolean;

  constructor(values: PredictedMetric[]) {
    const all = values.flatMap(({ recorded, predicted, low, high, came }) => [recorded, predicted, low, high, came ?? recorded]);
    const positive = all.filter((value) => value > 0);
    const most = Math.max(...positive, Number.MIN_VALUE);
    // Below a ten-millionth of the most, all is the same to a reader.
    const least = Math.max(Math.min(...positive, most), most / 1e7);
    this.most = Math.ceil(Math.log10(most) - 1e-9);
    this.least = Math.min(Math.floor(Math.log10(least)), this.most - 1);
    this.hasZero = all.some((value) => value < 10 ** this.least);
  }

  /** The part of the width that zero has. */
  private get zero(): number {
    return this.hasZero ? 0.07 : 0;
  }

  /** From 0 to 1. */
  at(value: number): number {
    if (value < 10 ** this.least) return 0;
    const part = (Math.log10(value) - this.least) / (this.most - this.least);
    return this.zero + Math.min(1, part) * (1 - this.zero);
  }

  /** At most six powers of ten. */
  ticks(): number[] {
    const step = Math.ceil((this.most - this.least) / 5);
    const powers = [];
    for (let power = this.least; power <= this.most; power += step) powers.push(10 ** power);
    return this.hasZero ? [0, ...powers] : powers;
  }
}

function row({ number, remedy, predicted }: Change, of: PredictedMetric, scale: Scale): HTMLElement {
  const words = `${shown(of.predicted, of.unit)} (${shown(of.low, of.unit)} to ${shown(of.high, of.unit)})`;
  const mark = (kind: string, value: number): HTMLElement => vary(h('i', { class: `mark ${kind}` }), { at: scale.at(value) });
  const track = h(
    'span',
    { class: 'span', 'aria-hidden': true },
    vary(h('i', { class: `range ${TONES[predicted.verdict]}` }), { from: scale.at(of.low), to: scale.at(of.high) }),
    mark('recorded', of.recorded),
    mark('predicted', of.predicted),
    of.came === undefined ? null : mark('came', of.came),
  );
  return h(
    'li',
    { 'data-remedy': remedy.id, 'data-low': of.low, 'data-high': of.high, 'data-predicted': of.predicted },
    h('span', { class: 'who' }, `${number} ${remedy.id}`, h('span', { class: `verdict-word ${TONES[predicted.verdict]}` }, WORDS[predicted.verdict])),
    track,
    h('span', { class: 'amount' }, words, of.came === undefined ? null : h('span', { class: 'where' }, `came: ${shown(of.came, of.unit)}`)),
    ...predicted.newly_starved.map((who) => h('span', { class: 'aside bad' }, `starves ${who}`)),
  );
}

function axis(scale: Scale, unit: string): HTMLElement {
  const ticks = scale.ticks().map((value) => vary(h('span', {}, tick(value, unit)), { at: scale.at(value) }));
  return h('div', { class: 'axis', 'aria-hidden': true }, h('span', { class: 'span' }, ...ticks));
}

/** The picture in figures, and who else gains or loses. */
function figures(changes: Change[]): HTMLElement {
  const hasCame = changes.some(({ predicted }) => predicted.metrics.some(({ came }) => came !== undefined));
  const heads = ['change', 'what', 'recorded', 'predicted', 'range', ...(hasCame ? ['came'] : [])];
  const rows = changes.flatMap(({ number, remedy, predicted }) =>
    predicted.metrics.map((of, i) =>
      h(
        'tr',
        { 'data-remedy': remedy.id, 'data-metric': of.metric },
        i ? null : h('th', { scope: 'rowgroup', rowspan: predicted.metrics.length }, `${number} ${remedy.id}`),
        h('td', { class: 'what' }, of.name),
        h('td', { class: 'number' }, shown(of.recorded, of.unit)),
        h('td', { class: 'number' }, shown(of.predicted, of.unit)),
        h('td', { class: 'number' }, `${shown(of.low, of.unit)} to ${shown(of.high, of.unit)}`),
        hasCame ? h('td', { class: 'number' }, of.came === undefined ? '' : shown(of.came, of.unit)) : null,
      ),
    ),
  );
  const others = changes.filter(({ predicted }) => predicted.others.length > 0);
  return h(
    'div',
    {},
    others.length ? h('h4', {}, 'Who else gains or loses') : null,
    others.length ? h('ul', { class: 'small' }, ...others.map(othersOf)) : null,
    h(
      'details',
      {},
      h('summary', {}, 'All figures as a table'),
      h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Predicted figures' }, h('table', {}, h('thead', {}, h('tr', {}, ...heads.map((text, i) => h('th', { scope: 'col', class: i > 1 ? 'number' : '' }, text)))), h('tbody', {}, ...rows))),
    ),
  );
}

function othersOf({ number, remedy, predicted }: Change): HTMLElement {
  const list = predicted.others.map((of, i) => h('span', {}, i ? '; ' : '', h('span', { class: of.waited_after_ns > of.waited_before_ns ? 'bad' : 'good' }, gain(of))));
  return h('li', { 'data-others': remedy.id }, h('b', {}, `${number} ${remedy.id}: `), ...list);
}

/** `stress-ng ×2 waits longer: 10 ms → 80 ms in all, longest 4 ms → 12 ms`. */
function gain(of: PredictedOther): string {
  const who = of.threads > 1 ? `${of.comm} ×${of.threads}` : of.comm;
  const { waited_before_ns: before, waited_after_ns: after, longest_before_ns: was, longest_after_ns: is } = of;
  return `${who} waits ${after > before ? 'longer' : 'less'}: ${nanos(before)} → ${nanos(after)} in all, longest ${nanos(was)} → ${nanos(is)}`;
}

function refusals(changes: Change[]): HTMLElement {
  const items = changes.map(({ number, remedy, predicted }) => h('li', { 'data-refused': remedy.id }, h('b', {}, `${number} ${remedy.id}: `), predicted.refused.join('; ')));
  return h('div', {}, h('h4', {}, 'Not predicted, and why'), h('ul', { class: 'small' }, ...items));
}

/** A value of a metric: a time, or a number of times. */
export function shown(value: number, unit: string): string {
  if (unit === 'ns') return nanos(value);
  return value < 10 ? value.toFixed(2) : value.toFixed(0);
}

function tick(value: number, unit: string): string {
  if (value === 0) return '0';
  if (unit !== 'ns') return String(Number(value.toPrecision(1)));
  const [size, word] = value < 1e3 ? [1, 'ns'] : value < 1e6 ? [1e3, 'µs'] : value < 1e9 ? [1e6, 'ms'] : [1e9, 's'];
  return `${Number((value / size).toPrecision(1))} ${word}`;
}

/** `longest wait: 90.6 ms → 3.03 ms (1.51 to 6.06 ms)`; nothing where nothing is predicted. */
export function inALine(predicted: Predicted | undefined): string {
  const metrics = predicted?.metrics ?? [];
  const of = metrics.find(({ metric }) => metric === PICTURED) ?? metrics[0];
  if (!predicted || !of) return '';
  const [was, is, low, high] = [of.recorded, of.predicted, of.low, of.high].map((value) => shown(value, of.unit));
  const starves = predicted.newly_starved.length ? `; starves ${predicted.newly_starved.join(', ')}` : '';
  return `${WORDS[predicted.verdict]}: ${of.name} ${was} → ${is} (${low} to ${high})${starves}`;
}
