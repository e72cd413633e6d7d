// The page in a real browser.
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { launch, open, settle } from './browser.mjs';
import { explain, pageOf, trace } from './pages.mjs';

// Every labelled case with a finding.
const CASES = ['linux-5.10-net-rt.dat', 'linux-6.1-dio-weight.dat', 'linux-6.1-pool.dat', 'linux-6.1-preempt.dat', 'perfetto-rt-hog.pftrace'];

let browser;
before(async () => (browser = await launch()));
after(async () => browser?.close());

/** The same figures as the terminal's. */
function nanos(ns) {
  const figures = (value) => (value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0));
  if (ns < 1000) return `${ns} ns`;
  if (ns < 999_500) return `${figures(ns / 1e3)} µs`;
  return ns < 999_500_000 ? `${figures(ns / 1e6)} ms` : `${figures(ns / 1e9)} s`;
}

for (const name of CASES) {
  test(`${name}: the figures on the page are those of explain, and the worst wait opens`, async () => {
    const report = explain(trace(name));
    const page = await open(browser, pageOf(trace(name)));
    assert.ok(statSync(new URL(page.url()).pathname).size < 5e6);

    const cards = await page.$$eval('.card', (cards) =>
      cards.map((card) => ({
        id: card.dataset.finding,
        sentence: card.querySelector('h3').textContent,
        waits: { ...card.querySelector('[data-waits]').dataset },
        blame: [...card.querySelectorAll('.bars li')].map((row) => [row.dataset.rule, Number(row.dataset.ns), row.querySelector('.amount').textContent]),
        tested: [...card.querySelectorAll('.notes dt')]
          .filter((label) => label.textContent === 'Tested')
          .map((label) => label.nextElementSibling.textContent),
        commands: [...card.querySelectorAll('.command code')].map((code) => code.textContent),
      })),
    );
    assert.deepEqual(cards.map((card) => card.id), report.findings.map((finding) => finding.id));
    for (const [i, finding] of report.findings.entries()) {
      const card = cards[i];
      assert.equal(card.sentence, finding.sentence);
      const { count, total_ns, max_ns, p99_ns } = finding.waits;
      assert.deepEqual(card.waits, { waits: String(count), total: String(total_ns), max: String(max_ns), p99: String(p99_ns) });
      const shown = finding.blame.slice(0, 6).map((one) => [one.rule, one.ns, nanos(one.ns)]);
      assert.deepEqual(card.blame.slice(0, shown.length), shown);
      assert.equal(card.blame.reduce((sum, [, ns]) => sum + ns, 0), total_ns, 'the bars add up to all waits');
      const runnable = finding.remedies.filter((remedy) => remedy.apply.trim());
      const isFirst = (remedy) => !report.findings.slice(0, i).some((other) => other.remedies.some(({ id }) => id === remedy.id));
      assert.deepEqual(card.commands, runnable.map((remedy) => `unstarve fix ${name}${isFirst(remedy) ? '' : ` --finding ${i + 1}`} --remedy ${remedy.id}`));
      const helped = finding.remedies.flatMap((remedy) => remedy.proved ?? []).filter(({ this_series, answer }) => this_series && answer === 'helped');
      assert.equal(card.tested.length, helped.length);
      for (const [at, { metric, scenario, note = '' }] of helped.entries()) {
        assert.ok(card.tested[at].includes(metric) && card.tested[at].includes(scenario), card.tested[at]);
        assert.ok(!note.startsWith('not taken back') || card.tested[at].endsWith(note), card.tested[at]);
      }
    }

    const { start_ns, end_ns } = report.findings[0].worst[0];
    const zero = report.trace.start_ns;
    await page.click('.card .actions button.primary');
    await settle(page);
    const shown = await page.$eval('#moment-canvas', (canvas) => ({ ...canvas.dataset, focused: document.activeElement === canvas }));
    assert.equal(shown.spot, `${start_ns - zero}-${end_ns - zero}`);
    assert.ok(shown.focused, 'the keys go to the timeline');
    const what = await page.$eval('#moment-what', (title) => title.textContent);
    assert.ok(what.includes(nanos(end_ns - start_ns)), what);

    // Nothing but the file itself was asked for, and nothing was complained of: the policy let the page's own program run.
    assert.deepEqual(page.requests.filter((url) => !url.startsWith('file:')), []);
    assert.deepEqual(page.complaints, []);
    await page.close();
  });
}

test('a finding leads to a wait by its own rule', async () => {
  const page = await open(browser, pageOf(trace('linux-6.1-dio-weight.dat')));
  const button = await page.$('[data-finding=completion-ping-pong] .typical');
  assert.match(await button.evaluate((element) => element.textContent), /Longest by wakeup-preemption/);
  await button.click();
  await settle(page);
  assert.match(await page.$eval('#moment-detail', (output) => output.textContent), /fio.*had it for .* \(wakeup-preemption\)/);
  await page.close();
});

test('a healthy recording says so', async () => {
  const page = await open(browser, pageOf(trace('linux-6.1-idle.dat')));
  assert.match(await page.$eval('#verdict', (verdict) => verdict.textContent), /Nobody is starved/);
  assert.equal((await page.$$('.card.critical, .card.warning')).length, 0);
  assert.deepEqual(page.complaints, []);
  await page.close();
});

test('the charts of a healthy recording are a line each, and drawn when they are opened', async () => {
  const page = await open(browser, pageOf(trace('linux-6.1-idle.dat')));
  const ids = ['timeline', 'waits', 'blame', 'layout', 'activity', 'recording'];
  const heights = () => page.evaluate((all) => all.map((id) => document.getElementById(id).offsetHeight), ids);
  assert.ok((await heights()).every((height) => height > 0 && height < 60), String(await heights()));
  assert.equal(await page.$('#findings'), null, 'the verdict says it already');
  await page.click('#waits summary');
  await settle(page);
  assert.ok(await page.$eval('#waits-plot canvas', (canvas) => canvas.offsetWidth > 300));
  await page.click('nav a[href="#blame"]');
  await settle(page);
  assert.ok(await page.$eval('#blame table', (table) => table.offsetHeight > 50));
  assert.deepEqual(page.complaints, []);
  await page.close();
  // Where there is a finding, all is open.
  const faulty = await open(browser, pageOf(trace(CASES[0])));
  assert.equal(await faulty.$('details.folded'), null);
  await faulty.close();
});

test('without scripts the verdict and the sentences are there', async () => {
  const report = explain(trace(CASES[0]));
  const page = await open(browser, pageOf(trace(CASES[0])), { javascript: false });
  const text = await page.$eval('body', (body) => body.innerText);
  assert.ok(text.includes(report.findings[0].sentence));
  await page.close();
});

test('nothing in a hostile recording runs or escapes', async () => {
  const evil = ['</script><img src=x onerror=alert(1)>', '\u001b[31mred', '<b>bold</b>'];
  const lines = [];
  let time = 100;
  for (let i = 0; i < 60; i++) {
    const [a, b] = [evil[i % 3].slice(0, 15), evil[(i + 1) % 3].slice(0, 15)];
    time += 0.005;
    lines.push(`${a} ${10 + (i % 3)} [000] ${time.toFixed(6)}: sched:sched_waking: comm=${b} pid=${10 + ((i + 1) % 3)} prio=120 target_cpu=000`);
    time += 0.004;
    lines.push(`${a} ${10 + (i % 3)} [000] ${time.toFixed(6)}: sched:sched_switch: ${a}:${10 + (i % 3)} [120] S ==> ${b}:${10 + ((i + 1) % 3)} [120]`);
  }
  const file = pageOf({ text: lines.join('\n') + '\n' });
  assert.equal(readFileSync(file, 'utf8').match(/<\/script/gi).length, 2, 'the page has two scripts and no more ends');
  const page = await open(browser, file);
  page.on('dialog', () => assert.fail('something ran'));
  assert.equal((await page.$$('main img, main b:not([class]) > *')).length, 0);
  const text = await page.$eval('body', (body) => body.innerText);
  assert.ok(text.includes('</script><img'), 'the name is shown as it is');
  assert.ok(text.includes('\\u{1b}'), 'control characters are escaped');
  assert.deepEqual(page.complaints, []);
  assert.deepEqual(page.requests.filter((url) => !url.startsWith('file:')), []);
  await page.close();
});

test('one event is a page, too, and no all-clear', async () => {
  const one = 'a 1 [000] 5.000000: sched:sched_switch: a:1 [120] S ==> swapper/0:0 [120]\n';
  const page = await open(browser, pageOf({ text: one }));
  assert.match(await page.$eval('#verdict', (verdict) => verdict.textContent), /^Not knownToo little was recorded/);
  assert.deepEqual(page.complaints, []);
  await page.close();
});
