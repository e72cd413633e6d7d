// Two recordings side by side.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { launch, open, settle } from './browser.mjs';
import { compare, comparedPage, trace } from './pages.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const GOOD = trace('linux-6.1-dio-good.dat');
const BAD = trace('linux-6.1-dio-weight.dat');

let browser;
before(async () => (browser = await launch()));
after(async () => browser?.close());

test('the page of a comparison says what compare says, and shows both sides', async () => {
  const expected = compare(GOOD, BAD);
  const page = await open(browser, comparedPage(GOOD, BAD));
  const findings = await page.$$eval('#compare .outcomes li', (items) => items.map((item) => [item.dataset.id, item.dataset.outcome]));
  assert.deepEqual(findings, expected.findings.map((finding) => [finding.id, finding.outcome]));
  assert.match(await page.$eval('#compare', (section) => section.innerText), /New in B/i);

  const sure = expected.changes.filter((change) => change.verdict !== 'unclear').slice(0, 12);
  const shown = await page.$$eval('#compare tr[data-a]', (rows) => rows.map((row) => [Number(row.dataset.a), Number(row.dataset.b)]));
  assert.deepEqual(shown, sure.map((change) => [change.a, change.b]));
  const worker = expected.waits.find((waits) => waits.role.name === 'kworker/*:*');
  const row = await page.$$eval('#compare tr[data-role="kworker/*:*"] td[data-ns]', (cells) => cells.map((cell) => Number(cell.dataset.ns)));
  assert.deepEqual(row, [worker.a, worker.b].flatMap((side) => [side.p50_ns, side.p99_ns, side.max_ns]));

  assert.equal((await page.$$('#compare canvas')).length, 2, 'the waits of both, side by side');
  const names = await page.$$eval('.masthead select option', (options) => options.map((option) => option.text));
  assert.deepEqual(names, ['A: linux-6.1-dio-good.dat', 'B: linux-6.1-dio-weight.dat']);
  assert.equal((await page.$$('.card.critical')).length, 0, 'A is shown first, and is healthy');
  await page.select('.masthead select', '1');
  await settle(page);
  assert.ok((await page.$$('.card.critical')).length > 0, 'B is not');
  await page.$eval('.card .typical, .card .primary', (button) => button.click());
  await settle(page);
  assert.deepEqual(page.complaints, []);
  await page.close();
});

test('the same thing twice has no difference that matters', async () => {
  const page = await open(browser, comparedPage(GOOD, GOOD));
  assert.match(await page.$eval('#compare-title', (title) => title.textContent), /No difference that matters/);
  assert.deepEqual(page.complaints, []);
  await page.close();
});

test('it is narrow where the screen is, and for everybody', async () => {
  const page = await open(browser, comparedPage(GOOD, BAD), { width: 400 });
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 400);
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => axe.run(document));
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes[0].html.slice(0, 160)]), []);
  await page.close();
});
