// Numbers for people; the same figures as in the terminal.

/** Three significant figures and a unit: `950 ns`, `12.3 µs`, `94.8 ms`, `1.20 s`. */
export function nanos(ns: number): string {
  if (ns < 1000) return `${Math.round(ns)} ns`;
  if (ns < 999_500) return `${figures(ns / 1e3)} µs`;
  if (ns < 999_500_000) return `${figures(ns / 1e6)} ms`;
  return `${figures(ns / 1e9)} s`;
}

function figures(value: number): string {
  if (value < 9.995) return value.toFixed(2);
  return value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

/** `97,887`. */
export function grouped(count: number): string {
  return Math.round(count).toString().replace(/\B(?=(\d{3})+$)/g, ',');
}

/** `1 wait`, `150 waits`. */
export function counted(count: number, what: string): string {
  return `${grouped(count)} ${what}${count === 1 ? '' : 's'}`;
}

/** `98 %`, `0.4 %`. */
export function percent(share: number): string {
  const value = share * 100;
  if (value > 0 && value < 0.05) return '< 0.1 %';
  return `${value >= 9.95 || value === 0 ? value.toFixed(0) : value.toFixed(1)} %`;
}

/** A time since the trace's start, with as many digits as a step of `step` needs: `+0.790 s`. */
export function since(ns: number, step = 1e6): string {
  const least = Math.max(0, Math.ceil(9 - Math.log10(Math.max(step, 1))));
  const fits = Math.abs(((step / 1e9) * 10 ** least) % 1) < 1e-6;
  const digits = Math.min(9, fits || least === 0 ? least : least + 1);
  return `+${(ns / 1e9).toFixed(digits)} s`;
}

/** The time of day, `14:03:07.205 UTC`; with the date, `2026-11-22 14:03:07.205 UTC`. Nothing where it is not known. */
export function utc(trace: { wall: string | null; wall_drift_ns: number; span_ns: number }, ns: number, withDate = false): string {
  if (trace.wall === null) return '';
  const drift = trace.span_ns > 0 ? (ns / trace.span_ns) * trace.wall_drift_ns : 0;
  const at = Number((BigInt(trace.wall) + BigInt(Math.round(ns + drift))) / 1_000_000n);
  const text = new Date(at).toISOString();
  return `${withDate ? `${text.slice(0, 10)} ` : ''}${text.slice(11, 23)} UTC`;
}

/** The time on the trace's own clock, exact: `812.098000123`. */
export function clock(zero: string, ns: number): string {
  const at = BigInt(zero) + BigInt(Math.round(ns));
  const digits = at.toString().padStart(10, '0');
  return `${digits.slice(0, -9)}.${digits.slice(-9)}`;
}

/** `wl[117]`, `nfsd ×128`. */
export function tasks(comm: string, tids: number[], count = tids.length): string {
  if (count > 1) return `${comm} ×${grouped(count)}`;
  return tids.length === 1 ? `${comm}[${tids[0]}]` : comm;
}
