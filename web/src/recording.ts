// What was recorded, and what is lost: what the page cannot say.

import type { App } from './app';
import { h, section } from './dom';
import { clock, grouped, nanos, utc } from './format';

const WORDS: Record<string, string> = {
  runs: 'stays on a CPU',
  waits: 'waits for a CPU',
  wakeups: 'wakeups',
  migrations: 'moves to another CPU',
  interrupts: 'hardware interrupts',
  softirqs: 'softirqs',
  work_items: 'work items of kernel workers',
};

export function recordingView(app: App): HTMLElement {
  const { trace } = app;
  const { report, recording, losses } = trace;
  const rows: [string, string][] = [
    ['Recording', trace.name],
    ['Format', report.trace.format],
    ['Host', report.trace.host ?? 'not known'],
    ['Kernel', report.trace.kernel ?? 'not known'],
    ['CPUs', String(report.trace.cpus)],
    ['Events', grouped(report.trace.events)],
    ['Lost events', report.trace.lost ? grouped(report.trace.lost) : 'none known'],
    ['From', `${clock(trace.zero, 0)} to ${clock(trace.zero, trace.span_ns)} (${nanos(trace.span_ns)})${recording.clock ? `, clock ${recording.clock}` : ''}`],
    ['Time of day', trace.wall === null ? 'not known: the recording has no pair of clocks' : `${utc(trace, 0, true)} to ${utc(trace, trace.span_ns, true)}`],
    ['Host snapshot', report.trace.snapshot ? 'came with it' : 'none: weights, affinities and settings are inferred or unknown'],
  ];
  const totals = Object.entries(recording.totals).map(([name, count]) => row(WORDS[name] ?? name, grouped(count), name));
  const facts = h('table', {}, h('tbody', {}, ...rows.map(([name, value]) => row(name, value))));
  return section(
    'recording',
    'What was recorded, and what was not',
    '',
    h(
      'div',
      { class: 'grid two' },
      h('div', { class: 'panel' }, h('h3', {}, 'The recording'), facts),
      h('div', { class: 'panel' }, h('h3', {}, 'What it holds'), h('table', {}, h('tbody', {}, ...totals)), events(recording.recorded)),
    ),
    h('div', { class: 'panel losses' }, h('h3', {}, losses.length ? 'What it cannot say' : 'Nothing is known to be missing'), losses.length ? h('ul', {}, ...losses.map((loss) => h('li', {}, loss))) : null),
  );
}

function row(name: string, value: string, id?: string): HTMLElement {
  return h('tr', {}, h('th', { scope: 'row' }, name), h('td', { class: id ? 'number' : '', 'data-total': id }, value));
}

function events(recorded: [string, boolean][] | null): HTMLElement {
  if (!recorded) return h('p', { class: 'small muted' }, 'The file does not say which kinds of events were enabled.');
  const list = (wanted: boolean): string => recorded.filter(([, was]) => was === wanted).map(([name]) => name).join(', ');
  return h('dl', { class: 'notes' }, h('dt', {}, 'Enabled'), h('dd', {}, list(true) || 'none'), h('dt', {}, 'Not enabled'), h('dd', {}, list(false) || 'none'));
}
