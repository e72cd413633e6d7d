// What is beside the map: hours, who is preferred, and episodes.

import type { Fleet, FleetEpisode } from '../data';
import { fill, h, section, vary } from '../dom';
import { counted, grouped, nanos, percent } from '../format';
import { ruleLook } from '../rules';
import type { Filter } from './filter';
import { moment, seconds } from './shares';
import { LONGEST_NAME, name, table } from './table';

const EPISODES = 50;

/** What nobody may conclude from, if this table has no row. */
const NO_BLAME = 'Not known: blame_rollup, which says who waited for whom, has no rows here.';
const NO_EPISODES = 'There are no episodes here: either nothing was recorded, or the table episodes did not get here.';

/** Kernel threads of all hosts, hour by hour. */
export function hoursView(fleet: Fleet): HTMLElement {
  const most = Math.max(1, ...fleet.hours.map((hour) => hour.ns));
  const bars = fleet.hours.map((hour) => vary(h('i', { title: `${moment(hour.at_ms)}: ${seconds(hour.ns)} on ${counted(hour.hosts, 'host')}`, 'data-ns': hour.ns }), { share: (hour.ns / most).toFixed(4) }));
  const [first, last] = [fleet.hours[0], fleet.hours[fleet.hours.length - 1]];
  const said = first ? `From ${moment(first.at_ms)} to ${moment(last.at_ms)}; the highest bar is ${seconds(most)} of one hour.` : '';
  const body = first ? h('div', { class: 'panel' }, h('div', { class: 'hours', role: 'img', 'aria-label': said }, ...bars), h('p', { class: 'small muted' }, said)) : h('p', { class: 'empty' }, fleet.missing.includes('blame_rollup') ? NO_BLAME : 'In the sums that are here no kernel thread waited while others were preferred.');
  return section('hours', 'Hour by hour', 'For how long kernel threads of all hosts waited while others were preferred.', body);
}

/** Who is preferred to others. */
export function culpritsView(fleet: Fleet): HTMLElement {
  const all = fleet.culprits.reduce((ns, one) => ns + one.ns, 0);
  const rows = fleet.culprits.map(({ occupant, rule, hosts, ns }) => {
    const look = ruleLook(rule);
    const part = all > 0 ? ns / all : 0;
    return h(
      'li',
      { 'data-ns': ns },
      h('span', { class: 'who' }, name(occupant, LONGEST_NAME)),
      h('span', { class: 'rule', title: look.meaning }, rule),
      h('span', { class: 'track' }, vary(h('span', { class: `fill ${look.pattern}` }), { colour: look.colour, share: part.toFixed(4) })),
      h('span', { class: 'amount' }, seconds(ns)),
      h('span', { class: 'share', title: `on ${counted(hosts, 'host')}` }, percent(part)),
    );
  });
  const body = rows.length ? h('div', { class: 'panel' }, h('ul', { class: 'bars' }, ...rows)) : h('p', { class: 'empty' }, fleet.missing.includes('blame_rollup') ? NO_BLAME : 'In the sums that are here nobody was preferred to anybody.');
  return section('culprits', 'Who is preferred', 'Who had the CPU while others waited, by which rule, on all hosts together, worst first. Percentages are parts of what is listed.', body);
}

/** The longest episodes of the hosts that are looked at. */
export function episodesView(fleet: Fleet, filter: Filter): HTMLElement {
  const box = h('div', { class: 'panel' });
  const show = (): void => {
    const names = new Set(filter.hosts.map((host) => host.name));
    const matching = fleet.episodes.filter((episode) => !filter.isOn || names.has(episode.host));
    const rows = matching.slice(0, EPISODES).map(row);
    const heads = [{ name: 'Host' }, { name: 'When' }, { name: 'Who waited' }, { name: 'For whom' }, { name: 'Waited', isNumber: true }, { name: 'What to do' }, { name: 'Report', isWords: true }];
    const said = `${grouped(rows.length)} of ${counted(fleet.episodes_in_all, 'episode')}${filter.isOn ? ', of the hosts that are looked at' : ''}, the longest first.`;
    fill(
      box,
      rows.length
        ? table('fleet-episodes', heads, rows)
        : h('p', { class: 'empty' }, fleet.episodes_in_all ? 'None of these hosts has one of the longest episodes.' : NO_EPISODES),
      rows.length ? h('p', { class: 'small muted' }, said) : null,
    );
  };
  filter.onChange(show);
  show();
  return section('episodes', 'The worst episodes', 'What unstarve watch saw, by what was waited in all. Those with a link have a report on their host.', box);
}

function row(episode: FleetEpisode): HTMLTableRowElement {
  const { host, id, victim, culprit, rule, finding, ns, remedy, trace, link } = episode;
  const report = link && isWeb(link) ? h('a', { href: link, rel: 'noreferrer noopener', target: '_blank' }, 'Report') : null;
  return h(
    'tr',
    { 'data-episode': id },
    h('th', { scope: 'row' }, name(host, LONGEST_NAME)),
    h('td', {}, moment(episode.at_ms)),
    h('td', {}, name(victim ?? '?', LONGEST_NAME), h('span', { class: 'where', title: finding }, finding ?? '')),
    h('td', {}, name(culprit ?? '?', LONGEST_NAME), h('span', { class: 'where', title: rule }, rule ?? '')),
    h('td', { class: 'number', 'data-ns': ns }, nanos(ns)),
    h('td', {}, remedy ?? '–'),
    h('td', {}, report, h('span', { class: 'where', title: trace ?? '' }, trace ?? '')),
  );
}

/** Hosts name traces: only what a browser can open without running it becomes a link. */
function isWeb(text: string): boolean {
  try {
    return ['http:', 'https:'].includes(new URL(text).protocol);
  } catch {
    return false;
  }
}
