// The page of many hosts: reads the blob, builds the views. Its style is that of the report page.

import { load, type FleetPage } from '../data';
import { button, fill, h } from '../dom';
import { counted, grouped } from '../format';
import { startRules } from '../rules';
import { startState } from '../state';
import { nextTheme, startTheme } from '../theme';
import { Changes } from './changes';
import { Filter } from './filter';
import { culpritsView, episodesView, hoursView } from './lists';
import { HostMap } from './map';
import { moment, ofKernel, share } from './shares';
import './style.css';

const SECTIONS: [string, string][] = [
  ['map', 'Hosts and who waits'],
  ['hours', 'Hour by hour'],
  ['changes', 'Before and after'],
  ['culprits', 'Who is preferred'],
  ['episodes', 'The worst episodes'],
];

async function start(): Promise<void> {
  startTheme();
  startState();
  const page = document.getElementById('page');
  if (!page) return;
  let data: FleetPage;
  try {
    data = await load<FleetPage>();
  } catch (error) {
    page.prepend(h('p', { class: 'failed', role: 'alert' }, `This page's data is damaged: ${String(error)}`));
    return;
  }
  startRules(data.rules);
  const { fleet } = data;
  const filter = new Filter(fleet);
  fill(
    page,
    header(data, filter),
    verdict(data),
    new HostMap(fleet, filter).element,
    hoursView(fleet),
    new Changes(fleet, filter).element,
    culpritsView(fleet),
    episodesView(fleet, filter),
    h('footer', {}, `Made by ${data.generator}. Nothing was loaded from anywhere: this file is all there is.`),
  );
  document.documentElement.dataset['ready'] = 'true';
  performance.mark('ready');
}

function header({ fleet }: FleetPage, filter: Filter): HTMLElement {
  const theme = button('Theme: auto', () => (theme.textContent = `Theme: ${nextTheme()}`));
  const span = fleet.from_ms !== null && fleet.to_ms !== null ? `${moment(fleet.from_ms)} to ${moment(fleet.to_ms)}` : '';
  const facts = [counted(fleet.hosts.length + fleet.rest.hosts, 'host'), span].filter(Boolean).join(' · ');
  return h(
    'div',
    { class: 'top' },
    h('a', { class: 'skip', href: '#map' }, 'Skip to the hosts'),
    h(
      'header',
      { class: 'masthead' },
      h('p', { class: 'product' }, 'unstarve'),
      h('div', { class: 'source' }, h('b', {}, fleet.places.join(', ')), h('span', { class: 'facts' }, facts)),
      h('div', { class: 'tools' }, theme, button('Print', () => print())),
    ),
    filter.element,
    h('nav', { 'aria-label': 'Sections' }, ...SECTIONS.map(([id, title]) => h('a', { href: `#${id}` }, title))),
  );
}

/** Between these parts of the time hosts are counted. */
const STEPS: [number, string][] = [
  [0.1, '10 % or more'],
  [0.01, '1 to 10 %'],
  [0.001, '0.1 to 1 %'],
  [0, 'less'],
];

function verdict({ headline, lead, gaps, fleet }: FleetPage): HTMLElement {
  const shares = fleet.hosts.map((host) => share(ofKernel(fleet, host)));
  const known = shares.filter((value) => value !== null);
  const restKnown = fleet.rest.hosts - fleet.rest.unknown;
  const unknown = shares.length - known.length + fleet.rest.unknown;
  const figure = (words: string, least: number | string, count: number): HTMLElement => h('div', {}, h('dt', {}, words), h('dd', { 'data-least': least }, grouped(count)), h('dd', { class: 'note' }, count === 1 ? 'host' : 'hosts'));
  // Of no host that is known "0 hosts" would be an answer.
  const steps = known.length + restKnown ? STEPS : [];
  const figures = steps.map(([least, words], i) => {
    const below = i ? STEPS[i - 1][0] : Infinity;
    return figure(words, least, known.filter((value) => value >= least && value < below).length + (i === STEPS.length - 1 ? restKnown : 0));
  });
  if (unknown) figures.push(figure('not known', 'unknown', unknown));
  const isWhole = figures.length && !unknown && !gaps.length;
  return h(
    'section',
    { class: `verdict ${isWhole ? 'info' : 'warning'}`, id: 'verdict', 'aria-labelledby': 'verdict-title' },
    h('h1', { id: 'verdict-title' }, headline),
    h('p', { class: 'lead' }, lead),
    gaps.length ? h('ul', { class: 'gaps' }, ...gaps.map((gap) => h('li', {}, gap))) : null,
    h('dl', { class: 'figures' }, ...figures),
  );
}

void start();
