// A machine of 64 CPUs under dense load: more happens around the worst wait than can be drawn, or kept.
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { launch, open, settle } from './browser.mjs';
import { denseText, pageOf } from './pages.mjs';

let browser;
let file;
before(async () => {
  browser = await launch();
  file = pageOf({ text: denseText() });
});
after(async () => browser?.close());

test('the CPU of the worst wait is never drawn empty where it was busy', async () => {
  const page = await open(browser, file);
  assert.deepEqual(page.complaints, []);
  const spot = await page.$eval('#moment-canvas', (canvas) => canvas.dataset.spot.split('-').map(Number));
  assert.ok(spot[1] - spot[0] > 1.4e9, `the long wait is shown first: ${spot}`);
  const [from, to] = await page.$eval('#moment-canvas', (canvas) => canvas.dataset.view.split('-').map(Number));
  const painted = await page.$eval('#moment-canvas', (canvas) => {
    // The first row is the wait's CPU; its lowest part, where blocks stand.
    const context = canvas.getContext('2d');
    const scale = devicePixelRatio;
    const left = canvas.clientWidth < 560 ? 84 : 176;
    const y = Math.round((26 + 20) * scale);
    const pixels = context.getImageData(left * scale, y, canvas.width - left * scale, 1).data;
    const columns = [];
    for (let x = 0; x < pixels.length; x += 4) columns.push(Math.min(pixels[x], pixels[x + 1], pixels[x + 2]) < 240);
    return columns;
  });
  const origin = await page.$eval('#moment-canvas', (canvas) => Number(canvas.dataset.from));
  const at = (time) => Math.round(((time - origin - from) / (to - from)) * painted.length);
  const inWait = painted.slice(Math.max(0, at(spot[0])) + 4, at(spot[1]) - 4);
  const share = inWait.filter(Boolean).length / inWait.length;
  assert.ok(share > 0.97, `${(share * 100).toFixed(1)} % of the wait shows who had the CPU`);
  assert.match(await page.$eval('#moment', (section) => section.innerText), /short runs are drawn as blocks/);
  await page.close();
});

test('who a finding names has a row and a column in the matrix', async () => {
  const page = await open(browser, file);
  const findings = await page.$$eval('.card', (cards) => cards.map((card) => card.querySelector('h3').textContent));
  const victims = findings.map((sentence) => sentence.match(/^(.+?)(?: \(\d+ threads\))? (?:waited|is (?:starved|delayed))\b/)?.[1]).filter(Boolean);
  assert.ok(victims.length > 0, String(findings));
  const rows = await page.$$eval('#blame tbody th', (heads) => heads.map((head) => head.textContent));
  const columns = await page.$$eval('#blame thead th', (heads) => heads.map((head) => head.textContent));
  for (const victim of victims) assert.ok(rows.some((name) => name.startsWith(victim)), `${victim} in ${rows}`);
  assert.ok(columns.some((name) => name.startsWith('hog')), String(columns));
  await page.close();
});

test('the whole recording has a row for each CPU, and leads into a part of it', async () => {
  const page = await open(browser, file);
  const canvas = await page.$('#overview-canvas');
  await canvas.evaluate((element) => element.scrollIntoView({ block: 'start' }));
  const box = await canvas.boundingBox();
  assert.ok(box.height > 64 * 6 && box.height < 1000, `${box.height}`);
  await page.mouse.move(box.x + box.width * 0.5, box.y + 60);
  await settle(page);
  assert.match(await page.$eval('#overview-readout', (line) => line.textContent), /CPU \d+ at \+0\.\d+ s: \d+(\.\d+)? % busy, \d/);
  assert.match(await page.$eval('.tip', (tip) => tip.textContent), /% busy/, 'the words are at the pointer, too');
  await page.mouse.move(box.x + box.width * 0.4, box.y + 100);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 100, { steps: 5 });
  await page.mouse.up();
  await settle(page);
  const [from, to] = await page.$eval('#overview-canvas', (element) => element.dataset.view.split('-').map(Number));
  assert.ok(to - from < 0.8e9 && from > 0.5e9, `${from} to ${to}`);
  assert.match(await page.evaluate(() => location.hash), /z=\d+-\d+/);
  await page.$eval('#overview-all', (button) => button.click());
  await settle(page);
  assert.equal(await page.evaluate(() => /z=/.test(location.hash)), false);
  await page.close();
});

test('the size stays small', () => {
  assert.ok(statSync(file).size < 3e6, `${statSync(file).size} bytes`);
});

test('it is narrow where the screen is', async () => {
  const page = await open(browser, file, { width: 400, dark: true });
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 400);
  assert.deepEqual(page.complaints, []);
  await page.close();
});
