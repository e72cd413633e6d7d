// Parts of the time: sums of waiting divided by the time that hosts were watched.

import type { Fleet, FleetHost, FleetPeriod } from '../data';
import { h, vary } from '../dom';
import { nanos, percent } from '../format';

/** A sum of waiting and the time that was watched. */
export interface Part {
  ns: number;
  watched: number;
}

export function share({ ns, watched }: Part): number {
  return watched > 0 ? ns / watched : 0;
}

export function sum(parts: Iterable<Part>): Part {
  const total = { ns: 0, watched: 0 };
  for (const part of parts) {
    total.ns += part.ns;
    total.watched += part.watched;
  }
  return total;
}

export function ofPeriod(period: FleetPeriod): Part {
  return { ns: period.ns, watched: period.watched_ns };
}

/** What kernel threads of a host waited. */
export function ofKernel(fleet: Fleet, host: FleetHost): number {
  return fleet.roles.reduce((ns, role, i) => ns + (role.is_kernel ? host.ns[i] : 0), 0);
}

/** How hot a share is, 0 to 1: from a ten-thousandth of the time to all of it, by its logarithm. */
function heat(value: number): number {
  return value <= 0 ? 0 : Math.min(1, Math.max(0.04, (Math.log10(value) + 4) / 4));
}

/** A cell of the map: the figure in words, its heat as colour. */
export function cell(part: Part, title = ''): HTMLElement {
  const value = share(part);
  const text = part.watched <= 0 ? '?' : part.ns > 0 ? percent(value) : '–';
  const said = `${title}${title ? ': ' : ''}${nanos(part.ns)} in ${nanos(part.watched)}`;
  const box = h('td', { class: 'number heat', 'data-share': value.toFixed(6), title: said }, text);
  return part.ns > 0 ? vary(box, { heat: heat(value).toFixed(3) }) : box;
}

/** What the colours mean. */
export function heatLegend(): HTMLElement {
  const step = (value: number): HTMLElement => h('li', {}, vary(h('span', { class: 'swatch fill heat' }), { heat: heat(value).toFixed(3) }), percent(value));
  return h('ul', { class: 'legend' }, step(0.0002), step(0.001), step(0.01), step(0.1), step(1));
}

/** `2026-11-22 14:00 UTC`. */
export function moment(ms: number): string {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return '?';
  const text = date.toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 16)} UTC`;
}
