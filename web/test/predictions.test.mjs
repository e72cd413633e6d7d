// What a change would do: the picture and its table say what explain says, and nothing in it is markup.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { launch, open } from './browser.mjs';
import { explain, pageOf, ROOT } from './pages.mjs';

const truth = (name) => join(ROOT, 'testdata/truth', `${name}.fault.dat.zst`);
// One remedy that starves others; ranges from zero, no difference, and refusals.
const CASES = ['highpri-xfs.6.1', 'hog-over-softirq.6.12'];

let browser;
before(async () => (browser = await launch()));
after(async () => browser?.close());

for (const name of CASES) {
  for (const [width, dark] of [[1280, false], [400, true]]) {
    test(`${name} at ${width}: what is predicted of each fix is drawn, and is what explain says`, async () => {
      const report = explain(truth(name));
      const page = await open(browser, pageOf(truth(name)), { width, dark });
      const panels = await page.$$eval('#predictions .panel', (all) =>
        all.map((panel) => ({
          of: Number(panel.dataset.of),
          drawn: [...panel.querySelectorAll('.outlooks li')].map((row) => [row.dataset.remedy, Number(row.dataset.predicted), Number(row.dataset.low), Number(row.dataset.high)]),
          inside: [...panel.querySelectorAll('.outlooks .range, .outlooks .mark')].every((mark) => {
            const [box, track] = [mark.getBoundingClientRect(), mark.parentElement.getBoundingClientRect()];
            return box.width >= 1 && box.left >= track.left - 1 && box.right <= track.right + 1;
          }),
          ordered: [...panel.querySelectorAll('.outlooks li')].every((row) => {
            const [range, predicted] = ['.range', '.mark.predicted'].map((kind) => row.querySelector(kind).getBoundingClientRect());
            return predicted.left >= range.left - 5 && predicted.right <= range.right + 5;
          }),
          table: [...panel.querySelectorAll('tbody tr')].map((row) => `${row.dataset.remedy} ${row.dataset.metric}`),
          refused: [...panel.querySelectorAll('[data-refused]')].map((item) => [item.dataset.refused, item.textContent]),
          text: panel.textContent,
        })),
      );
      const predicted = report.findings.map((finding, i) => [i, finding.remedies.filter((remedy) => remedy.predicted)]).filter(([, remedies]) => remedies.length);
      assert.deepEqual(panels.map((panel) => panel.of), predicted.map(([i]) => i));
      for (const [at, [, remedies]] of predicted.entries()) {
        const panel = panels[at];
        const answered = remedies.filter((remedy) => remedy.predicted.metrics.length);
        const main = ({ predicted: { metrics } }) => metrics.find(({ metric }) => metric === 'longest') ?? metrics[0];
        const bounds = (remedy) => [remedy.id, main(remedy).predicted, main(remedy).low, main(remedy).high];
        assert.deepEqual([...panel.drawn].sort(), answered.map(bounds).sort());
        assert.deepEqual(panel.table, answered.flatMap((remedy) => remedy.predicted.metrics.map(({ metric }) => `${remedy.id} ${metric}`)));
        assert.ok(panel.inside, 'marks are on their line');
        assert.ok(panel.ordered, 'the predicted value is in its range');
        const refused = remedies.filter((remedy) => remedy.predicted.refused.length);
        assert.deepEqual(panel.refused.map(([id]) => id), refused.map(({ id }) => id));
        refused.forEach((remedy, i) => assert.ok(panel.refused[i][1].includes(remedy.predicted.refused[0])));
        for (const who of remedies.flatMap((remedy) => remedy.predicted.newly_starved)) assert.ok(panel.text.includes(`starves ${who}`));
      }
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than the page');
      assert.deepEqual(page.complaints, []);
      assert.deepEqual(page.requests.filter((url) => !url.startsWith('file:')), []);
      await page.close();
    });
  }
}

test('what came of a fix that was tried is drawn beside what was predicted', async () => {
  const [finding] = explain(truth(CASES[0])).findings;
  const [remedy] = finding.remedies;
  const came = join(process.env.TMPDIR ?? '/tmp', `unstarve-came-${process.pid}.json`);
  writeFileSync(came, JSON.stringify({ schema: 'unstarve.fix/1', finding: { id: finding.id }, remedy: { id: remedy.id }, compared: [{ metric: 'longest', measured: 4_200_000 }] }));
  const page = await open(browser, pageOf(truth(CASES[0]), '--came', came));
  assert.equal((await page.$$('#predictions .outlooks .mark.came')).length, 1);
  assert.match(await page.$eval('#predictions .outlooks li', (row) => row.textContent), /came: 4\.20 ms/);
  assert.match(await page.$eval('#predictions tbody tr', (row) => row.textContent), /4\.20 ms$/);
  await page.close();
});

test('the section is left out on request, and where nothing is known', async () => {
  const page = await open(browser, pageOf(truth(CASES[0]), '--no-predictions'));
  assert.equal(await page.$('#predictions'), null);
  assert.equal(await page.$('nav a[href="#predictions"]'), null);
  await page.close();
});
