// Parts of the time: sums of waiting divided by the time that hosts were watched. What no table says is null, never 0.

import type { Fleet, FleetHost, FleetPeriod } from '../data';
import { h, vary } from '../dom';
import { grouped, nanos, percent } from '../format';

/** A sum of waiting and the time that was watched. */
export interface Part {
  ns: number | null;
  watched: number | null;
}

export function share({ ns, watched }: Part): number | null {
  return ns !== null && watched !== null && watched > 0 ? ns / watched : null;
}

/** Of those parts that are parts of a known time; if there are none, the sum of what is known of waiting. */
export function sum(parts: Part[]): Part {
  const total = (numbers: (number | null)[]): number => numbers.reduce<number>((all, one) => all + (one ?? 0), 0);
  const known = parts.filter((part) => share(part) !== null);
  if (known.length) return { ns: total(known.map(({ ns }) => ns)), watched: total(known.map(({ watched }) => watched)) };
  const waited = parts.filter(({ ns }) => ns !== null);
  return { ns: waited.length ? total(waited.map(({ ns }) => ns)) : null, watched: null };
}

/** The greatest part of the time first, then sums of which that is not known, then what is not known at all. */
export function greatestFirst(one: Part, other: Part): number {
  const below = (value: number | null): number => value ?? -1;
  return below(share(other)) - below(share(one)) || (share(one) === null ? below(other.ns) - below(one.ns) : 0);
}

export function ofPeriod(period: FleetPeriod): Part {
  return { ns: period.ns, watched: period.watched_ns };
}

/** What kernel threads of a host waited. */
export function ofKernel(fleet: Fleet, host: FleetHost): Part {
  const ns = host.ns && fleet.roles.reduce((sum, role, i) => sum + (role.is_kernel ? (host.ns?.[i] ?? 0) : 0), 0);
  return { ns, watched: host.watched_ns };
}

/** How hot a share is, 0 to 1: from a ten-thousandth of the time to all of it, by its logarithm. */
function heat(value: number): number {
  return value <= 0 ? 0 : Math.min(1, Math.max(0.04, (Math.log10(value) + 4) / 4));
}

/** A cell of the map: the figure in words, its heat as colour. A sum of which nobody knows the time has no colour. */
export function cell(part: Part, title = ''): HTMLElement {
  const before = title ? `${title}: ` : '';
  if (part.ns === null) return h('td', { class: 'number heat', title: `${before}not known` }, '?');
  const value = share(part);
  if (value === null) return h('td', { class: 'number heat', 'data-ns': part.ns, title: `${before}${seconds(part.ns)} in a time that is not known` }, part.ns > 0 ? seconds(part.ns) : '–');
  return shareCell(value, `${before}${seconds(part.ns)} in ${seconds(part.watched ?? 0)}`);
}

export function shareCell(value: number | null, title: string): HTMLElement {
  if (value === null) return h('td', { class: 'number heat', title }, '?');
  const box = h('td', { class: `number heat${value > 0 ? '' : ' none'}`, 'data-share': value.toFixed(6), title }, value > 0 ? percent(value) : '–');
  return value > 0 ? vary(box, { heat: heat(value).toFixed(3) }) : box;
}

/** What the colours mean. */
export function heatLegend(): HTMLElement {
  const step = (value: number): HTMLElement => h('li', {}, vary(h('span', { class: 'swatch fill heat' }), { heat: heat(value).toFixed(3) }), percent(value));
  return h('ul', { class: 'legend' }, step(0.0002), step(0.001), step(0.01), step(0.1), step(1));
}

/** `183,699 s`; below a thousand seconds as everywhere. */
export function seconds(ns: number): string {
  return ns < 1e12 ? nanos(ns) : `${grouped(ns / 1e9)} s`;
}

/** `2026-11-22 14:00 UTC`. */
export function moment(ms: number): string {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return '?';
  const text = date.toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 16)} UTC`;
}
