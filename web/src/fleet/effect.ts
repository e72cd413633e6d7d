// Whether a change changed anything. Before and after are parts of the time; what matters is a thousandth of it and a tenth of the greater
// side, as for `unstarve compare`.
//
// | hosts | what is known                        | basis | better or worse if it matters and        |
// | any   | not both sides of any                | none  | never: unknown                           |
// | 1     | four hours or more on both sides     | hours | Welch's interval over hours leaves out 0 |
// | 1     | fewer hours                          | size  |                                          |
// | 2     | as 1 for each                        | least | each of the two is, in one direction     |
// | 3 …   |                                      | hosts | the interval over their own differences leaves out 0 |
//
// Intervals of all rows of a table hold together with 95 % (Bonferroni).

import type { FleetPeriod } from '../data';
import { ofPeriod, share } from './shares';
import { quantile } from './student';

/** The smallest part of the time that matters, and the smallest part of the greater side. */
const LEAST = 0.001;
const LEAST_RELATIVE = 0.1;
/** With fewer hosts an interval over them says little. */
const FEWEST_HOSTS = 3;
/** With fewer hours their variance is not known. */
const FEWEST_HOURS = 4;
const ERROR = 0.05;

export type Verdict = 'better' | 'worse' | 'unclear' | 'unknown';

export interface Effect {
  verdict: Verdict;
  /** What the verdict rests on. */
  basis: 'hosts' | 'hours' | 'size' | 'none';
  /** Parts of the time: means over the hosts of which both are known. */
  before: number | null;
  after: number | null;
  /** Of after − before. */
  interval: [number, number] | null;
}

/** A host before and after a change. */
export interface Sides {
  before: FleetPeriod;
  after: FleetPeriod;
}

const UNKNOWN: Effect = { verdict: 'unknown', basis: 'none', before: null, after: null, interval: null };

/** What a change did to one host; `rows` is how many rows its table has. */
export function effectOnHost({ before, after }: Sides, rows: number): Effect {
  const [a, b] = [share(ofPeriod(before)), share(ofPeriod(after))];
  if (a === null || b === null) return UNKNOWN;
  const interval = overHours([a, before], [b, after], rows);
  return { verdict: verdict(a, b, interval), basis: interval ? 'hours' : 'size', before: a, after: b, interval };
}

/** What a change did to hosts. A host that was changed several times counts once, by the mean of its differences. */
export function effectOnHosts(changes: [host: unknown, sides: Sides][], rows: number): Effect {
  const hosts = new Map<unknown, { sides: Sides; a: number; b: number }[]>();
  for (const [host, sides] of changes) {
    const [a, b] = [share(ofPeriod(sides.before)), share(ofPeriod(sides.after))];
    if (a !== null && b !== null) hosts.set(host, [...(hosts.get(host) ?? []), { sides, a, b }]);
  }
  if (!hosts.size) return UNKNOWN;
  const all = [...hosts.values()];
  const [befores, afters] = [all.map((own) => mean(own.map(({ a }) => a))), all.map((own) => mean(own.map(({ b }) => b)))];
  const [before, after] = [mean(befores), mean(afters)];
  if (hosts.size < FEWEST_HOSTS) return { ...ofFew(all.flat().map(({ sides }) => effectOnHost(sides, rows))), before, after };
  const differences = afters.map((b, i) => b - befores[i]);
  const half = quantile(ERROR / rows, hosts.size - 1) * Math.sqrt(variance(differences) / hosts.size);
  const interval = around(after - before, half);
  return { verdict: verdict(before, after, interval), basis: 'hosts', before, after, interval };
}

/** Of one or two hosts: what is true of each of their changes. */
function ofFew(effects: Effect[]): Effect {
  const [first] = effects;
  if (effects.length === 1) return first;
  const isSame = effects.every((effect) => effect.verdict === first.verdict);
  return { ...first, verdict: isSame ? first.verdict : 'unclear', basis: effects.some(({ basis }) => basis === 'size') ? 'size' : 'hours', interval: null };
}

function verdict(before: number, after: number, interval: [number, number] | null): Verdict {
  const matters = Math.max(LEAST, LEAST_RELATIVE * Math.max(before, after));
  if (Math.abs(after - before) < matters) return 'unclear';
  if (interval && interval[0] <= 0 && interval[1] >= 0) return 'unclear';
  return after > before ? 'worse' : 'better';
}

/** Welch's interval: hours are the sample. */
function overHours([a, before]: [number, FleetPeriod], [b, after]: [number, FleetPeriod], rows: number): [number, number] | null {
  const sides = [before.hourly, after.hourly];
  if (!sides.every((side) => side !== null && side.hours >= FEWEST_HOURS)) return null;
  const errors = sides.map((side) => (side ? side.deviation ** 2 / side.hours : 0));
  const both = errors[0] + errors[1];
  if (both === 0) return [b - a, b - a];
  const freedom = both ** 2 / errors.reduce((sum, error, i) => sum + error ** 2 / ((sides[i]?.hours ?? 0) - 1), 0);
  return around(b - a, quantile(ERROR / rows, freedom) * Math.sqrt(both));
}

function around(middle: number, half: number): [number, number] {
  return [middle - half, middle + half];
}

function mean(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function variance(values: number[]): number {
  const middle = mean(values);
  return values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1);
}
