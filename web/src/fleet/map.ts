// Hosts by roles: for which part of the time each role waited while others were preferred.

import type { Fleet, FleetHost } from '../data';
import { button, fill, h, section } from '../dom';
import { counted, grouped } from '../format';
import { keep, onState, stateOf } from '../state';
import type { Filter } from './filter';
import { cell, heatLegend, moment, ofKernel, sum, type Part } from './shares';

/** Rows that are shown at first, and more by a click. */
const ROWS = 40;
const MORE = 200;

/** A column: its name, and what a host has in it. */
interface Column {
  id: string;
  name: string;
  of: (host: FleetHost) => number;
}

export class HostMap {
  readonly element: HTMLElement;
  private readonly columns: Column[];
  private readonly box = h('div', { class: 'scroll matrix hosts', tabindex: 0, role: 'region', 'aria-label': 'Hosts by roles' });
  private readonly below = h('p', { class: 'small muted', id: 'map-rest', 'aria-live': 'polite' });
  private readonly more = button('', () => this.showMore(), { class: 'more', id: 'map-more' });
  private shown = ROWS;

  constructor(
    private readonly fleet: Fleet,
    private readonly filter: Filter,
  ) {
    this.columns = [
      { id: '', name: 'Kernel threads', of: (host) => ofKernel(fleet, host) },
      ...fleet.roles.map((role, i) => ({ id: role.name, name: role.name, of: (host: FleetHost) => host.ns[i] })),
      ...(fleet.hosts.some((host) => host.others_ns > 0) ? [{ id: 'others of a host', name: 'All others', of: (host: FleetHost) => host.others_ns }] : []),
    ];
    const intro = 'For which part of the time each role waited while others were preferred to it (class, weight, wakeup-preemption, throttled). 100 % is one task that waited all the time; where several waited at once it is more. Click a column to rank hosts by it.';
    this.element = section('map', 'Hosts and who waits on them', intro, h('div', { class: 'panel' }, heatLegend(), this.box, this.below, this.more));
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
    const value = (host: FleetHost): number => (host.watched_ns > 0 ? rank.of(host) / host.watched_ns : 0);
    const hosts = [...this.filter.hosts].sort((a, b) => value(b) - value(a) || (a.name < b.name ? -1 : 1));
    const [top, rest] = [hosts.slice(0, this.shown), hosts.slice(this.shown)];
    const head = columns.map((column) => {
      const sort = button(column.name, () => this.sortBy(column), { class: 'sort', title: `Rank hosts by ${column.name}` });
      return h('th', { class: 'number', scope: 'col', 'aria-sort': column === rank ? 'descending' : null }, sort);
    });
    const rows = top.map((host) => this.row(host));
    const summed = (name: string, of: FleetHost[], kind: string): HTMLElement =>
      h('tr', { 'data-rest': kind }, h('th', { scope: 'row' }, name), ...columns.map((column) => cell(sum(of.map((host) => part(host, column))), column.name)));
    fill(
      this.box,
      h(
        'table',
        {},
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Host'), ...head)),
        h('tbody', {}, hosts.length > 1 ? summed(`All ${counted(hosts.length, 'host')}`, hosts, 'all') : null, ...rows, rest.length ? summed(`${counted(rest.length, 'more host')}`, rest, 'rest') : null),
      ),
    );
    this.more.hidden = rest.length === 0;
    this.more.textContent = `Show ${grouped(Math.min(MORE, rest.length))} more`;
    this.below.textContent = this.words(hosts.length, rest.length);
  }

  private words(all: number, rest: number): string {
    const { rest: unlisted } = this.fleet;
    if (all === 0) return 'No host matches.';
    const kept = rest ? `${grouped(all - rest)} of ${counted(all, 'host')} have a row, the others are summed up in the last one.` : `All ${counted(all, 'host')} have a row.`;
    if (!unlisted.hosts) return kept;
    return `${kept} ${counted(unlisted.hosts, 'more host')} with less waiting ${unlisted.hosts === 1 ? 'is' : 'are'} not in this file.`;
  }

  private row(host: FleetHost): HTMLElement {
    const last = host.periods[host.periods.length - 1];
    const where = [last?.kernel, last?.labels, host.periods.length > 1 ? counted(host.periods.length - 1, 'change') : null, this.isSilent(host) ? `silent since ${moment(host.last_ms)}` : null];
    const name = h('th', { scope: 'row' }, host.name, h('span', { class: 'where' }, where.filter(Boolean).join(' · ')));
    return h('tr', { 'data-host': host.name }, name, ...this.columns.map((column) => cell(part(host, column), column.name)));
  }

  private isSilent(host: FleetHost): boolean {
    return this.fleet.to_ms !== null && host.last_ms < this.fleet.to_ms - 3_600_000;
  }

  private sortBy(column: Column): void {
    keep('sort', column.id || null);
    this.reset();
  }
}

function part(host: FleetHost, column: Column): Part {
  return { ns: column.of(host), watched: host.watched_ns };
}
