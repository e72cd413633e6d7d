// The report page: reads the blob, builds the views, links them.

import 'uplot/dist/uPlot.min.css';
import './style.css';

import { activityView } from './activity';
import { App } from './app';
import { blameView } from './blame';
import { compareView } from './compare';
import { load, type PageData } from './data';
import { button, fill, h } from './dom';
import { findingsView, verdictView } from './findings';
import { folded, unfoldNamed } from './folded';
import { grouped, nanos, utc } from './format';
import { layoutView } from './layout';
import { momentView } from './moment';
import { overviewView } from './overview';
import { hasPredictions, predictionsView } from './predictions';
import { recordingView } from './recording';
import { startRules } from './rules';
import { searchBox } from './search';
import { clearState, keep, onState, startState, stateOf } from './state';
import { nextTheme, startTheme } from './theme';
import { waitsView } from './waits';
import { evidenceView } from './evidence';

const SECTIONS: [string, string][] = [
  ['moment', 'The moment'],
  ['findings', 'Findings'],
  ['predictions', 'What a change would do'],
  ['timeline', 'The whole recording'],
  ['waits', 'Waits over time'],
  ['blame', 'Who kept whom waiting'],
  ['layout', 'What ran where'],
  ['activity', 'Activity'],
  ['recording', 'The recording'],
];

async function start(): Promise<void> {
  startTheme();
  startState();
  openForPrint();
  const page = document.getElementById('page');
  if (!page) return;
  let data: PageData;
  try {
    data = await load<PageData>();
  } catch (error) {
    page.prepend(h('p', { class: 'failed', role: 'alert' }, `This page's data is damaged: ${String(error)}`));
    return;
  }
  startRules(data.rules);
  addEventListener('hashchange', unfoldNamed);
  const index = Number(stateOf('r') ?? 0);
  show(page, data, data.traces[index] ? index : 0);
}

/** On paper nothing can be opened; afterwards everything is as it was. Of the fixes, the first are enough there. */
function openForPrint(): void {
  let opened: HTMLDetailsElement[] = [];
  addEventListener('beforeprint', () => {
    opened = [...document.querySelectorAll<HTMLDetailsElement>('details:not([open], .folded, .remedies details)')];
    opened.forEach((details) => (details.open = true));
  });
  addEventListener('afterprint', () => opened.forEach((details) => (details.open = false)));
}

function show(page: HTMLElement, data: PageData, index: number): void {
  const app = new App(data.traces[index]);
  const [comparison, chart] = data.comparison ? compareView(data.comparison, data.traces) : [null, () => {}];
  const still = (view: HTMLElement): [HTMLElement, () => void] => [view, () => {}];
  const [moment, drawMoment] = momentView(app);
  // Nothing to look for in charts of a healthy recording: they are a line each.
  const isHealthy = !data.comparison && app.trace.report.findings.length === 0 && !app.trace.report.trace.too_little;
  const views: [HTMLElement, () => void][] = [
    overviewView(app),
    waitsView(app),
    still(blameView(app)),
    still(layoutView(app)),
    activityView(app),
    still(recordingView(app)),
  ];
  // Logs and lists have no charts.
  const evidence = app.trace.report.evidence;
  const parts = evidence ? [] : isHealthy ? views.map(folded) : views;
  fill(
    page,
    header(page, data, index, app),
    comparison,
    comparison ? h('h2', { class: 'side' }, data.traces[index].name) : null,
    verdictView(app),
    evidence ? evidenceView(evidence) : moment,
    isHealthy ? null : findingsView(app),
    predictionsView(app),
    ...parts.map(([view]) => view),
    h('footer', {}, `Made by ${data.generator}. Nothing was loaded from anywhere: this file is all there is.`),
  );
  // Charts measure the room that they have, so they are made when they are in the page.
  chart();
  if (!evidence) drawMoment();
  parts.forEach(([, ready]) => ready());
  unfoldNamed();
  onState(() => {
    const wanted = Number(stateOf('r') ?? 0);
    if (wanted !== index && data.traces[wanted]) show(page, data, wanted);
  });
  document.documentElement.dataset['ready'] = 'true';
  performance.mark('ready');
}

function header(page: HTMLElement, data: PageData, index: number, app: App): HTMLElement {
  const { report, span_ns, name } = data.traces[index];
  const { format, events, cpus, kernel } = report.trace;
  const begins = utc(data.traces[index], 0, true);
  const amount = report.evidence
    ? [`${grouped(report.evidence.sources.reduce((sum, source) => sum + source.lines, 0))} lines`]
    : [`${grouped(events)} events`, nanos(span_ns), `${cpus} CPU${cpus === 1 ? '' : 's'}`];
  const facts = [report.trace.host ? `host ${report.trace.host}` : '', begins ? `from ${begins}` : '', format, ...amount, kernel ? `Linux ${kernel}` : ''];
  const theme = button('Theme: auto', () => (theme.textContent = `Theme: ${nextTheme()}`));
  const choose = h(
    'select',
    { 'aria-label': 'Recording', onchange: (event: Event) => chooseRecording(page, data, Number((event.target as HTMLSelectElement).value)) },
    ...data.traces.map((trace, i) => h('option', { value: i, selected: i === index }, trace.name)),
  );
  return h(
    'div',
    { class: 'top' },
    report.findings.length ? h('a', { class: 'skip', href: '#findings' }, 'Skip to the findings') : h('a', { class: 'skip', href: '#verdict' }, 'Skip to the verdict'),
    h(
      'header',
      { class: 'masthead' },
      h('p', { class: 'product' }, 'unstarve'),
      h('div', { class: 'source' }, data.traces.length > 1 ? choose : h('b', {}, name), h('span', { class: 'facts' }, facts.filter(Boolean).join(' · '))),
      searchBox(app),
      h('div', { class: 'tools' }, theme, button('Print', () => print())),
    ),
    h('nav', { 'aria-label': 'Sections' }, data.comparison ? h('a', { href: '#compare' }, 'What changed') : null, ...SECTIONS.filter(([id]) => !report.evidence || id === 'findings').filter(([id]) => id !== 'findings' || report.findings.length > 0 || report.trace.too_little).filter(([id]) => id !== 'predictions' || hasPredictions(app)).map(([id, title]) => h('a', { href: `#${id}` }, title))),
  );
}

/** Another recording: what was looked at in this one means nothing there. */
function chooseRecording(page: HTMLElement, data: PageData, index: number): void {
  clearState();
  keep('r', index ? String(index) : null);
  show(page, data, index);
}

void start();
