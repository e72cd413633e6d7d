// Fleets as `unstarve sql --page` finds them, of any number of hosts; what is wrong on which is known.

const HOUR = 3_600_000;
export const BEGIN = Date.UTC(2026, 10, 22);
const DAY_NS = 86_400e9;
const ROLES = ['direct-io', 'kworker', 'ksoftirqd', 'rcu', 'storage'].map((name) => ({ name, is_kernel: true }));
const GROUPS = ['/system.slice', '/kubepods.slice', '/user.slice', '/batch.slice'].map((name) => ({ name, is_kernel: false }));

/** The same number for the same host and purpose, 0 to 1. */
function even(host, purpose) {
  let x = (host + 1) * 2654435761 + purpose * 40503;
  x = Math.imul(x ^ (x >>> 15), 2246822519);
  return ((x ^ (x >>> 13)) >>> 0) / 2 ** 32;
}

/**
 * Each tenth host starves its direct I/O for 4 % of the time; hosts with kernel 6.1 its workers for 1 %. Half of the hosts get a policy at noon, which
 * takes nine tenths of both away.
 */
export function fleetOf(count) {
  const hosts = Array.from({ length: count }, (_, i) => {
    const isOld = i % 4 === 2;
    const base = ROLES.map((_, role) => Math.round(DAY_NS * 1e-4 * even(i, role) ** 3));
    if (i % 10 === 3 || (count < 10 && i === 1)) base[0] += DAY_NS * 0.04;
    if (isOld) base[1] += DAY_NS * 0.01;
    const hasPolicy = i % 2 === 0;
    const kernel = isOld ? '6.1.0-18' : '6.12.9-1';
    const sum = base.reduce((a, b) => a + b, 0);
    const period = (labels, share, first, is_after = false) => ({ kernel, labels, is_after, first_ms: first, watched_ns: DAY_NS / 2, ns: Math.round((sum / 2) * share), hourly: { hours: 12, deviation: (0.2 * share * sum) / DAY_NS } });
    const periods = hasPolicy
      ? [period('pool=a', 1, BEGIN), period('policy=workers,pool=a', 0.1, BEGIN + 12 * HOUR)]
      : [{ ...period('pool=b', 1, BEGIN), watched_ns: DAY_NS, ns: sum }];
    const scale = periods.reduce((ns, one) => ns + one.ns, 0) / sum;
    const kernelNs = base.map((ns) => Math.round(ns * scale));
    const groups = GROUPS.map((_, group) => Math.round(DAY_NS * 0.3 * even(i, 20 + group) ** 4));
    return { name: `node-${String(i).padStart(4, '0')}.example`, last_ms: BEGIN + 24 * HOUR - 300_000, watched_ns: DAY_NS, ns: [...kernelNs, ...groups], others_ns: Math.round(DAY_NS * 0.01 * even(i, 30)), periods };
  });
  const kernel = (host) => host.ns.slice(0, ROLES.length).reduce((a, b) => a + b, 0);
  hosts.sort((a, b) => kernel(b) - kernel(a));
  const all = hosts.reduce((ns, host) => ns + kernel(host), 0);
  const hours = Array.from({ length: 24 }, (_, i) => ({ at_ms: BEGIN + i * HOUR, ns: Math.round((all / 24) * (i < 12 ? 1.3 : 0.7) * (0.8 + even(i, 50) * 0.4)), hosts: count }));
  const starved = hosts.filter((host) => host.ns[0] > DAY_NS * 0.01);
  const episodes = starved.slice(0, 200).map((host, i) => ({
    at_ms: BEGIN + (i % 24) * HOUR,
    host: host.name,
    id: `20261122-${String(i).padStart(6, '0')}-122`,
    finding: 'rt-starvation',
    victim: 'kworker/0:1H',
    culprit: 'spinner',
    rule: 'class',
    ns: 9e9 - i * 1e6,
    remedy: 'rt-throttling',
    trace: `/var/lib/unstarve/20261122-${i}/trace.dat`,
    link: `https://${host.name}:9846/episodes/20261122-${i}/report.html`,
  }));
  const culprits = [
    { occupant: 'real-time', rule: 'class', hosts: starved.length, ns: Math.round(all * 0.7) },
    { occupant: '/heavy.slice', rule: 'weight', hosts: Math.floor(count / 4), ns: Math.round(all * 0.25) },
    { occupant: '/kubepods.slice', rule: 'wakeup-preemption', hosts: count, ns: Math.round(all * 0.05) },
  ];
  return { places: ['s3://fleet/unstarve'], missing: [], from_ms: BEGIN, to_ms: BEGIN + 24 * HOUR - 300_000, roles: [...ROLES, ...GROUPS], hosts, rest: { hosts: 0, unknown: 0 }, changed_ms: null, hours, culprits, episodes, episodes_in_all: episodes.length };
}

export const TABLES = ['wait_rollup', 'blame_rollup', 'episodes', 'hosts'];

export const EMPTY = { places: ['/srv/unstarve'], missing: TABLES, from_ms: null, to_ms: null, roles: [], hosts: [], rest: { hosts: 0, unknown: 0 }, changed_ms: null, hours: [], culprits: [], episodes: [], episodes_in_all: 0 };

/** What is found of the same hosts if these tables have no row. */
export function without(fleet, missing) {
  const found = { ...structuredClone(fleet), missing };
  const is = (table) => !missing.includes(table);
  if (!is('episodes')) Object.assign(found, { episodes: [], episodes_in_all: 0 });
  if (!is('blame_rollup')) Object.assign(found, { roles: [], hours: [], culprits: [] });
  // Kernels and labels are read from sums.
  const known = (host) => ({
    ...host,
    watched_ns: is('wait_rollup') ? host.watched_ns : null,
    ns: is('blame_rollup') ? host.ns : null,
    others_ns: is('blame_rollup') ? host.others_ns : 0,
    periods: host.periods
      .map((period) => ({ ...period, watched_ns: is('wait_rollup') ? period.watched_ns : null, ns: is('blame_rollup') ? period.ns : null }))
      .filter((period) => period.watched_ns !== null || period.ns !== null),
  });
  found.hosts = missing.length < TABLES.length ? found.hosts.map(known) : [];
  if (!found.hosts.length) Object.assign(found, { from_ms: null, to_ms: null });
  return found;
}

/** As many columns as a page has, with names as long as cgroups have them, and hosts and labels with long names. */
export function wideFleetOf(count) {
  const fleet = fleetOf(count);
  const kernel = ['nfsd', 'kernel', 'rcu-callback-offload'].map((name) => ({ name, is_kernel: true }));
  const pods = ['/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7d1f3c52_88ab.slice', '/limited.slice', '/machine.slice/libpod-0123456789abcdef0123456789abcdef.scope/container', '/init.scope'].map((name) => ({ name, is_kernel: false }));
  fleet.roles.splice(ROLES.length, 0, ...kernel);
  fleet.roles.push(...pods);
  for (const [i, host] of fleet.hosts.entries()) {
    host.ns.splice(ROLES.length, 0, ...kernel.map((_, k) => Math.round(DAY_NS * 1e-3 * even(i, 60 + k) ** 5)));
    host.ns.push(...pods.map((_, k) => Math.round(DAY_NS * 0.2 * even(i, 70 + k) ** 3)));
    if (i % 7 === 0) host.name = `${host.name.slice(0, 9)}.a-name-that-is-longer.than-any-column-of-the-page.eu-central-1.compute.internal.example.org`;
    for (const period of host.periods) period.labels += ',rack=17,zone=eu-central-1b,owner=platform-engineering,image=debian-12-20261101';
  }
  fleet.culprits[1].occupant = pods[0].name;
  for (const episode of fleet.episodes) Object.assign(episode, { culprit: `/kubepods.slice/${'0123456789abcdef'.repeat(3)}`, trace: `/var/lib/unstarve/episodes/${episode.id}/${'x'.repeat(60)}/trace.dat` });
  return fleet;
}

/** Hosts that all got a policy at noon, with this change of the part of the time on each; by the name of what was changed. */
export function changedFleet(kinds) {
  const hosts = Object.entries(kinds).flatMap(([kind, changes]) =>
    changes.map(([before, after, hourly = null], i) => {
      const period = (share, label, first_ms) => ({ kernel: '6.12.9-1', labels: label, is_after: false, first_ms, watched_ns: DAY_NS / 2, ns: Math.round((DAY_NS / 2) * share), hourly });
      return { name: `${kind}-${i}`, last_ms: BEGIN + 24 * HOUR, watched_ns: DAY_NS, ns: [Math.round((DAY_NS / 2) * (before + after))], others_ns: 0, periods: [period(before, null, BEGIN), period(after, `policy=${kind}`, BEGIN + 12 * HOUR)] };
    }),
  );
  return { ...EMPTY, missing: [], from_ms: BEGIN, to_ms: BEGIN + 24 * HOUR, roles: ROLES.slice(0, 1), hosts };
}
