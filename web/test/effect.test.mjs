// Whether a change changed anything: the table of effect.ts, without a browser.
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { build } from 'esbuild';

async function load(file) {
  const made = await build({ entryPoints: [fileURLToPath(new URL(`../src/fleet/${file}.ts`, import.meta.url))], bundle: true, write: false, format: 'esm', target: 'node18' });
  return import(`data:text/javascript;base64,${Buffer.from(made.outputFiles[0].text).toString('base64')}`);
}

const { effectOnHost, effectOnHosts } = await load('effect');
const { quantile } = await load('student');

const WATCHED = 1e15;
const period = (share, hourly = null) => ({ kernel: null, labels: null, is_after: false, first_ms: 0, watched_ns: share === null ? null : WATCHED, ns: share === null ? null : Math.round(share * WATCHED), hourly });
const sides = (before, after, hours = null) => ({ before: period(before, hours), after: period(after, hours) });

test("Student's quantiles are those of tables", () => {
  const table = [
    [0.05, 1, 12.7062],
    [0.05, 2, 4.3027],
    [0.05, 3, 3.1824],
    [0.05, 10, 2.2281],
    [0.05, 29, 2.0452],
    [0.01, 7, 3.4995],
    [0.001, 11, 4.437],
    [0.05, 1e6, 1.9623],
  ];
  for (const [error, freedom, expected] of table) assert.ok(Math.abs(quantile(error, freedom) - expected) < 1e-4 * expected, `${error} ${freedom}: ${quantile(error, freedom)}`);
  assert.equal(quantile(0.05, 0.5), Infinity);
});

// What one host shows: sizes × what is known of its hours.
test('one host', () => {
  const steady = { hours: 12, deviation: 0.001 };
  const unsteady = { hours: 12, deviation: 0.1 };
  const few = { hours: 3, deviation: 0.001 };
  const constant = { hours: 12, deviation: 0 };
  const hours = [[null, 'size', 'clear'], [few, 'size', 'clear'], [steady, 'hours', 'clear'], [unsteady, 'hours', 'unclear'], [constant, 'hours', 'clear']];
  const sizes = [
    [0.01, 0.02, 'worse'],
    [0.02, 0.01, 'better'],
    [0, 0.01, 'worse'],
    [0.01, 0, 'better'],
    // Less than a thousandth of the time, less than a tenth of the greater side, nothing.
    [0.0001, 0.0009, 'unclear'],
    [0.4, 0.43, 'unclear'],
    [0.02, 0.02, 'unclear'],
    [0, 0, 'unclear'],
  ];
  for (const [before, after, clear] of sizes)
    for (const [hourly, basis, seen] of hours) {
      const effect = effectOnHost(sides(before, after, hourly), 1);
      assert.deepEqual([effect.verdict, effect.basis, effect.interval !== null], [seen === 'clear' ? clear : 'unclear', basis, basis === 'hours'], `${before} ${after} ${JSON.stringify(hourly)}`);
    }
  for (const [before, after] of [[null, 0.1], [0.1, null], [null, null]]) assert.equal(effectOnHost(sides(before, after, steady), 1).verdict, 'unknown');
  const one = { before: period(0.1, steady), after: period(0.2) };
  assert.equal(effectOnHost(one, 1).basis, 'size', 'hours of both sides are needed');
});

// Numbers of hosts × what their differences are.
test('many hosts', () => {
  const of = (differences, base = 0.05) => effectOnHosts(differences.map((difference, i) => [i, difference === null ? sides(null, null) : sides(base, base + difference)]), 1);
  const cases = [
    [[], 'unknown', 'none'],
    [[null, null, null, null], 'unknown', 'none'],
    [[0.01], 'worse', 'size'],
    [[0.01, 0.012], 'worse', 'size'],
    [[-0.01, -0.012], 'better', 'size'],
    [[0.01, -0.012], 'unclear', 'size'],
    [[0.01, 0.0001], 'unclear', 'size'],
    [[0.01, 0.011, 0.012], 'worse', 'hosts'],
    [[-0.01, -0.011, -0.012], 'better', 'hosts'],
    [[0.01, -0.011, 0.012], 'unclear', 'hosts'],
    [[0.01, 0.011, 0.012, null], 'worse', 'hosts'],
    // One host makes the mean, the others did not change.
    [[0.04, 0, 0, 0, 0, 0, 0, 0], 'unclear', 'hosts'],
    // Sure, and too small to matter.
    [Array.from({ length: 100 }, (_, i) => 0.0005 + (i % 2) * 1e-6), 'unclear', 'hosts'],
    [Array.from({ length: 100 }, (_, i) => 0.0105 + (i % 2) * 1e-6), 'worse', 'hosts'],
  ];
  for (const [differences, verdict, basis] of cases) {
    const effect = of(differences);
    assert.deepEqual([effect.verdict, effect.basis], [verdict, basis], differences.join());
  }
  // A host that went back and forth is one host.
  const back = [0.02, -0.02].map((difference) => ['a', sides(0.05, 0.05 + difference)]);
  assert.deepEqual([effectOnHosts(back, 1).basis, effectOnHosts(back, 1).verdict], ['size', 'unclear']);
});

test('of two thousand groups of hosts that did not change few have a colour', () => {
  let seed = 7;
  const random = () => ((seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) + 0.5) / 2 ** 32;
  // As uneven as hosts are: the worst wait a hundred times as long as most.
  const waits = () => 0.01 * Math.exp(1.5 * Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random()));
  for (const hosts of [3, 6, 20, 189]) {
    let coloured = 0;
    for (let group = 0; group < 500; group++) {
      const changes = Array.from({ length: hosts }, (_, i) => [i, sides(Math.min(1, waits()), Math.min(1, waits()))]);
      coloured += effectOnHosts(changes, 1).verdict !== 'unclear' ? 1 : 0;
    }
    assert.ok(coloured <= 500 * 0.07, `${hosts} hosts: ${coloured} of 500`);
    console.log(`${hosts} hosts: ${coloured} of 500 groups without a change have a colour`);
  }
});

test('rows of a table are corrected for their number', () => {
  const differences = [0.02, 0.001, 0.03, 0.012, 0.028, 0.004];
  const of = (rows) => effectOnHosts(differences.map((difference, i) => [i, sides(0.05, 0.05 + difference)]), rows).verdict;
  assert.deepEqual([of(1), of(100)], ['worse', 'unclear']);
});
