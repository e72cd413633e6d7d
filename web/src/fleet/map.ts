// Hosts by roles: for which part of the time each role waited while others were preferred.

import type { Fleet, FleetHost } from '../data';
import { button, fill, h, section } from '../dom';
import { counted, grouped } from '../format';
import { keep, onState, stateOf } from '../state';
import type { Filter } from './filter';
import { cell, greatestFirst, heatLegend, moment, ofKernel, share, sum, type Part } from './shares';
import { LONGEST_HEAD, LONGEST_NAME, name, table } from './table';

/** Rows that are shown at first, and more by a click. */
const ROWS = 40;
const MORE = 200;

/** More columns are narrow ones. */
const WIDE_COLUMNS = 11;

/** A column: its name, and what a host has in it. */
interface Column {
  id: string;
  name: string;
  of: (host: FleetHost) => Part;
}

export class HostMap {
  readonly element: HTMLElement;
  private readonly columns: Column[];
  private readonly box = h('div');
  private readonly below = h('p', { class: 'small muted', id: 'map-rest', 'aria-live': 'polite' });
  private readonly more = button('', () => this.showMore(), { class: 'more', id: 'map-more' });
  private shown = ROWS;

  constructor(
    private readonly fleet: Fleet,
    private readonly filter: Filter,
  ) {
    this.columns = [
      { id: '', name: 'Kernel threads', of: (host) => ofKernel(fleet, host) },
      ...fleet.roles.map((role, i) => ({ id: role.name, name: role.name, of: (host: FleetHost) => ({ ns: host.ns?.[i] ?? null, watched: host.watched_ns }) })),
      ...(fleet.hosts.some((host) => host.others_ns > 0) ? [{ id: 'others of a host', name: 'All others', of: (host: FleetHost) => ({ ns: host.ns && host.others_ns, watched: host.watched_ns }) }] : []),
    ];
    const intro = 'For which part of the time each role waited while others were preferred to it (class, weight, wakeup-preemption, throttled). 100 % is one task that waited all the time; where several waited at once it is more. Click a column to rank hosts by it.';
    const isHot = fleet.hosts.some((host) => this.isKnown(host));
    this.element = section('map', 'Hosts and who waits on them', intro, h('div', { class: 'panel' }, isHot ? heatLegend() : null, this.box, this.below, this.more));
    filter.onChange(() => this.reset());
    onState(() => this.show());
    this.show();
  }

  private reset(): void {
    this.shown = ROWS;
    this.show();
  }

  private showMore(): void {
    this.shown += MORE;
    this.show();
  }

  /** The column by which hosts are ranked. */
  private get rank(): Column {
    return this.columns.find((column) => column.id === stateOf('sort')) ?? this.columns[0];
  }

  private show(): void {
    const { rank, columns } = this;
    const hosts = [...this.filter.hosts].sort((a, b) => greatestFirst(rank.of(a), rank.of(b)) || (a.name < b.name ? -1 : 1));
    const [top, rest] = [hosts.slice(0, this.shown), hosts.slice(this.shown)];
    const head = columns.map((column) => {
      const sort = button('', () => this.sortBy(column), { class: 'sort', title: `Rank hosts by ${column.name}` });
      sort.append(name(column.name, LONGEST_HEAD));
      return { name: column.name, isNumber: true, content: sort, isRank: column === rank };
    });
    const rows = top.map((host) => this.row(host));
    if (hosts.length > 1) rows.unshift(this.summed(`All ${counted(hosts.length, 'host')}`, hosts, 'all'));
    if (rest.length) rows.push(this.summed(counted(rest.length, 'more host'), rest, 'rest'));
    fill(this.box, hosts.length ? table(null, [{ name: 'Host' }, ...head], rows, columns.length > WIDE_COLUMNS ? 'hosts many' : 'hosts') : null);
    this.more.hidden = rest.length === 0;
    this.more.textContent = `Show ${grouped(Math.min(MORE, rest.length))} more`;
    this.below.textContent = this.words(hosts.length, rest.length);
  }

  private summed(title: string, hosts: FleetHost[], kind: string): HTMLTableRowElement {
    const known = hosts.filter((host) => this.isKnown(host)).length;
    const where = known && known < hosts.length ? h('span', { class: 'where' }, `of ${grouped(known)} of which the part of the time is known`) : null;
    return h('tr', { 'data-rest': kind }, h('th', { scope: 'row' }, title, where), ...this.columns.map((column) => cell(sum(hosts.map(column.of)), column.name)));
  }

  /** Whether it is known for which part of the time its kernel threads waited. */
  private isKnown(host: FleetHost): boolean {
    return share(ofKernel(this.fleet, host)) !== null;
  }

  private words(all: number, rest: number): string {
    const { rest: unlisted } = this.fleet;
    if (!this.fleet.hosts.length) return 'No table here has a row of any host.';
    if (all === 0) return 'No host matches.';
    const kept = rest ? `${grouped(all - rest)} of ${counted(all, 'host')} have a row, the others are summed up in the last one.` : `All ${counted(all, 'host')} have a row.`;
    if (!unlisted.hosts) return kept;
    return `${kept} ${counted(unlisted.hosts, 'more host')} with less waiting ${unlisted.hosts === 1 ? 'is' : 'are'} not in this file.`;
  }

  private row(host: FleetHost): HTMLTableRowElement {
    const last = host.periods[host.periods.length - 1];
    const where = [this.gap(host), last?.kernel, last?.labels, host.periods.length > 1 ? counted(host.periods.length - 1, 'change') : null, this.isSilent(host) ? `silent since ${moment(host.last_ms)}` : null].filter(Boolean).join(' · ');
    const head = h('th', { scope: 'row' }, name(host.name, LONGEST_NAME), h('span', { class: 'where', title: where }, where));
    return h('tr', { 'data-host': host.name }, head, ...this.columns.map((column) => cell(column.of(host), column.name)));
  }

  /** What the tables do not say of a host. */
  private gap(host: FleetHost): string | null {
    const isWatched = host.watched_ns !== null && host.watched_ns > 0;
    if (host.ns) return isWatched ? null : 'time watched not known';
    return isWatched ? 'waiting not known' : 'no sums';
  }

  private isSilent(host: FleetHost): boolean {
    return this.fleet.to_ms !== null && host.last_ms < this.fleet.to_ms - 3_600_000;
  }

  private sortBy(column: Column): void {
    keep('sort', column.id || null);
    this.reset();
  }
}
