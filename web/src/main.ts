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
import { grouped, nanos } from './format';
import { layoutView } from './layout';
import { momentView } from './moment';
import { recordingView } from './recording';
import { nextTheme, startTheme } from './theme';
import { waitsView } from './waits';

const SECTIONS: [string, string][] = [
  ['findings', 'Findings'],
  ['waits', 'Waits over time'],
  ['moment', 'The moment'],
  ['blame', 'Who kept whom waiting'],
  ['layout', 'What ran where'],
  ['activity', 'Activity'],
  ['recording', 'The recording'],
];

async function start(): Promise<void> {
  startTheme();
  // On paper nothing can be opened.
  addEventListener('beforeprint', () => document.querySelectorAll('details').forEach((details) => (details.open = true)));
  const page = document.getElementById('page');
  if (!page) return;
  let data: PageData;
  try {
    data = await load();
  } catch (error) {
    page.prepend(h('p', { class: 'failed', role: 'alert' }, `This page's data is damaged: ${String(error)}`));
    return;
  }
  show(page, data, 0);
}

function show(page: HTMLElement, data: PageData, index: number): void {
  const app = new App(data.traces[index]);
  const [comparison, chart] = data.comparison ? compareView(data.comparison, data.traces) : [null, () => {}];
  const still = (view: HTMLElement): [HTMLElement, () => void] => [view, () => {}];
  const parts: [HTMLElement, () => void][] = [
    waitsView(app),
    momentView(app),
    still(blameView(app)),
    still(layoutView(app)),
    activityView(app),
    still(recordingView(app)),
  ];
  fill(
    page,
    header(page, data, index),
    comparison,
    comparison ? h('h2', { class: 'side' }, data.traces[index].name) : null,
    verdictView(app),
    findingsView(app),
    ...parts.map(([view]) => view),
    h('footer', {}, `Made by ${data.generator}. Nothing was loaded from anywhere: this file is all there is.`),
  );
  // Charts measure the room that they have, so they are made when they are in the page.
  chart();
  parts.forEach(([, ready]) => ready());
  document.documentElement.dataset['ready'] = 'true';
  performance.mark('ready');
}

function header(page: HTMLElement, data: PageData, index: number): HTMLElement {
  const { report, span_ns, name } = data.traces[index];
  const { format, events, cpus, kernel } = report.trace;
  const facts = [format, `${grouped(events)} events`, nanos(span_ns), `${cpus} CPU${cpus === 1 ? '' : 's'}`, kernel ? `Linux ${kernel}` : ''];
  const theme = button('Theme: auto', () => (theme.textContent = `Theme: ${nextTheme()}`));
  const choose = h(
    'select',
    { 'aria-label': 'Recording', onchange: (event: Event) => show(page, data, Number((event.target as HTMLSelectElement).value)) },
    ...data.traces.map((trace, i) => h('option', { value: i, selected: i === index }, trace.name)),
  );
  return h(
    'div',
    { class: 'top' },
    h('a', { class: 'skip', href: '#findings' }, 'Skip to the findings'),
    h(
      'header',
      { class: 'masthead' },
      h('p', { class: 'product' }, 'unstarve'),
      h('div', { class: 'source' }, data.traces.length > 1 ? choose : h('b', {}, name), h('span', { class: 'facts' }, facts.filter(Boolean).join(' · '))),
      h('div', { class: 'tools' }, theme, button('Print', () => print())),
    ),
    h('nav', { 'aria-label': 'Sections' }, data.comparison ? h('a', { href: '#compare' }, 'What changed') : null, ...SECTIONS.map(([id, title]) => h('a', { href: `#${id}` }, title))),
  );
}

void start();
