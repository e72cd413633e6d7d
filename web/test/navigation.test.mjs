// Links to what is looked at, a search across all views, clicks where nothing is kept, and paper.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, open, settle } from './browser.mjs';
import { comparedPage, explain, pageOf, trace } from './pages.mjs';

const NET = 'linux-5.10-net-rt.dat';
const POOL = 'linux-6.1-pool.dat';

let browser;
let file;
let report;
before(async () => {
  browser = await launch();
  file = pageOf(trace(NET));
  report = explain(trace(NET));
});
after(async () => browser?.close());

const data = (page, selector) => page.$eval(selector, (element) => ({ ...element.dataset }));

test('a moment, its view, the zoom and the filters have a link that shows them again', async () => {
  const page = await open(browser, file);
  const second = report.findings[0].worst[1];
  const spot = `${second.start_ns - report.trace.start_ns}-${second.end_ns - report.trace.start_ns}`;
  await page.$eval(`[data-spot="${spot}"]`, (button) => button.click());
  await settle(page);
  await page.focus('#moment-canvas');
  await page.keyboard.press('+');
  await page.keyboard.press('ArrowRight');
  await page.select('#blame-cpu', '1');
  await page.focus('#overview-canvas');
  await page.keyboard.press('+');
  await settle(page);
  const before_ = [await data(page, '#moment-canvas'), await data(page, '#overview-canvas'), await page.$eval('#blame-sum', (sum) => sum.dataset.ns)];
  const hash = await page.evaluate(() => location.hash);
  assert.match(hash, new RegExp(`w=${spot}-1`));
  assert.equal(await page.$eval('.permalink', (link) => new URL(link.href).hash.includes(`w=${link.ownerDocument.querySelector('#moment-canvas').dataset.spot}`)), true);
  await page.close();

  const again = await open(browser, `${file}${hash}`);
  const after_ = [await data(again, '#moment-canvas'), await data(again, '#overview-canvas'), await again.$eval('#blame-sum', (sum) => sum.dataset.ns)];
  assert.deepEqual(after_, before_);
  assert.equal(await again.$eval('#blame-cpu', (select) => select.value), '1');
  assert.deepEqual(again.complaints, []);
  // A link to a section leaves the rest as it is.
  await again.evaluate(() => (location.hash = '#layout'));
  await settle(again);
  assert.match(await again.evaluate(() => location.hash), /^#layout&.*w=/);
  // A link to another moment is followed.
  const first = report.findings[0].worst[0];
  const other = `${first.start_ns - report.trace.start_ns}-${first.end_ns - report.trace.start_ns}`;
  await again.evaluate((spot) => (location.hash = `#moment&w=${spot}-1`), other);
  await settle(again);
  assert.equal((await data(again, '#moment-canvas')).spot, other);
  await again.close();
});

test('nonsense in the address does no harm', async () => {
  for (const hash of ['#w=x-y-z&v=5-1&z=9-3&cpu=-4&rule=%E0%A4%A&q=%', '#r=99&z=-1--2', '#&&&=']) {
    const page = await open(browser, `${file}${hash}`);
    assert.deepEqual(page.complaints, [], hash);
    assert.ok((await data(page, '#moment-canvas')).spot, hash);
    await page.close();
  }
});

test('a task is searched for in all views', async () => {
  const page = await open(browser, pageOf(trace(POOL)));
  const rows = (selector) => page.$$eval(selector, (all) => all.filter((row) => !row.hidden && row.offsetParent !== null).map((row) => row.querySelector('th')?.textContent ?? row.textContent));
  const all = [await rows('#blame tbody tr'), await rows('#layout tbody tr[data-actor]'), await rows('#waits tbody tr[data-course]')];
  await page.type('#search', 'nfsd');
  await settle(page);
  const found = [await rows('#blame tbody tr'), await rows('#layout tbody tr[data-actor]'), await rows('#waits tbody tr[data-course]')];
  assert.ok(found[1].length > 0 && found[1].every((name) => /nfsd/.test(name)), String(found[1]));
  assert.ok(found[2].every((name) => /nfsd|all tasks/.test(name)), String(found[2]));
  found.forEach((list, i) => assert.ok(list.length < all[i].length, `view ${i}`));
  assert.ok((await page.$$eval('#moment-choose option', (options) => options.map((option) => option.text))).slice(1).every((text) => /nfsd/.test(text)));
  assert.match(await page.$eval('#search-found', (said) => said.textContent), /kinds? of task, .* moments?/);
  assert.match(await page.evaluate(() => location.hash), /q=nfsd/);
  await page.$eval('#search', (input) => {
    input.value = 'no such thing';
    input.dispatchEvent(new Event('input'));
  });
  await settle(page);
  assert.equal(await page.$eval('#search-found', (said) => said.textContent), 'no such task');
  await page.$eval('#search', (input) => {
    input.value = '';
    input.dispatchEvent(new Event('input'));
  });
  await settle(page);
  assert.deepEqual([await rows('#blame tbody tr'), await rows('#layout tbody tr[data-actor]'), await rows('#waits tbody tr[data-course]')], all);
  assert.deepEqual(page.complaints, []);
  await page.close();
});

test('a click far from any kept moment says so, and leads to the nearest', async () => {
  const page = await open(browser, file);
  const before_ = (await data(page, '#moment-canvas')).spot;
  const spots = await page.$$eval('#moment-choose option', (options) => options.filter((option) => option.text.startsWith('ksoftirqd/1[18]')).map((option) => Number(option.text.match(/at \+([\d.]+) s/)[1])));
  const span = (report.trace.end_ns - report.trace.start_ns) / 1e9;
  // The middle of the widest stretch without a moment, between 5 % and 95 % of the recording.
  const edges = [0, ...spots.sort((a, b) => a - b), span].filter((at) => at >= 0);
  const gaps = edges.slice(1).map((at, i) => [at - edges[i], (at + edges[i]) / 2]).sort((a, b) => b[0] - a[0]);
  await page.$eval('#waits-plot', (plot) => plot.scrollIntoView({ block: 'center' }));
  const over = await (await page.$('#waits-plot .u-over')).boundingBox();
  await page.mouse.click(over.x + (over.width * gaps[0][1]) / span, over.y + 60);
  await settle(page);
  assert.match(await page.$eval('#waits .far', (line) => line.textContent), /No details are kept around \+\d/);
  assert.equal((await data(page, '#moment-canvas')).spot, before_, 'nothing else opened');
  await page.click('#waits .nearest');
  await settle(page);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'moment-canvas');
  await page.close();
});

test('ticks are round', async () => {
  const page = await open(browser, file);
  const steps = await page.evaluate(() => {
    const seen = [];
    const plain = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
      if (/^\+[\d.]+ s$/.test(text)) seen.push(Number(text.slice(1, -2)));
      return plain.call(this, text, ...rest);
    };
    document.querySelector('.tools button').click();
    return new Promise((done) => setTimeout(() => done(seen), 300));
  });
  assert.ok(steps.length > 10);
  const gaps = [];
  steps.forEach((at, i) => i > 0 && at > steps[i - 1] && gaps.push(at - steps[i - 1]));
  const lead = gaps.map((gap) => Number(gap.toExponential(6).split('e')[0]));
  assert.ok(lead.every((first) => [1, 2, 5, 10].some((round) => Math.abs(first - round) < 1e-3)), String([...new Set(lead)]));
  await page.close();
});

test('a pointer on the moment is told what is below it, at the pointer', async () => {
  const page = await open(browser, file);
  const canvas = await page.$('#moment-canvas');
  await canvas.evaluate((element) => element.scrollIntoView({ block: 'center' }));
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 26 + 15);
  await settle(page);
  const tip = await page.$eval('.tip', (element) => ({ text: element.textContent, hidden: element.hidden, box: element.getBoundingClientRect().toJSON() }));
  assert.match(tip.text, /wl\[117\] ran on CPU 1 for 90\.0 ms/);
  assert.ok(!tip.hidden && Math.abs(tip.box.left - (box.x + box.width * 0.6)) < 500);
  await page.mouse.move(box.x + box.width * 0.6, box.y - 40);
  await settle(page);
  assert.equal(await page.$eval('.tip', (element) => element.hidden), true);
  await page.close();
});

test('a cure is green', async () => {
  const page = await open(browser, comparedPage(trace('linux-6.1-dio-weight.dat'), trace('linux-6.1-dio-good.dat')));
  const [verdict, outcomes] = await page.evaluate(() => [document.querySelector('#compare .verdict').className, [...document.querySelectorAll('.outcomes li')].map((item) => [item.dataset.outcome, item.className])]);
  assert.match(verdict, /healthy/);
  assert.ok(outcomes.length > 0 && outcomes.every(([outcome, look]) => (outcome === 'vanished' || outcome === 'milder') === (look === 'healthy')), String(outcomes));
  const green = await page.evaluate(() => getComputedStyle(document.querySelector('#compare .badge')).color);
  assert.equal(green, 'rgb(27, 107, 58)');
  assert.ok((await page.$$('#compare .ratio.good')).length > 0);
  await page.close();

  const worse = await open(browser, comparedPage(trace('linux-6.1-dio-good.dat'), trace('linux-6.1-dio-weight.dat')));
  assert.doesNotMatch(await worse.$eval('#compare .verdict', (verdict) => verdict.className), /healthy/);
  await worse.close();
});

test('on paper are the verdict, the moment and the fixes, and no chart is cut off', async () => {
  const page = await open(browser, file, { width: 1280 });
  await page.setViewport({ width: 720, height: 1000 });
  await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
  await page.emulateMediaType('print');
  await settle(page);
  const printed = await page.$$eval('main section', (sections) => sections.filter((one) => one.offsetParent !== null).map((one) => one.id));
  assert.deepEqual(printed, ['verdict', 'moment', 'findings']);
  const cut = await page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    return [...document.querySelectorAll('canvas, table')].filter((one) => one.offsetParent !== null && one.getBoundingClientRect().right > width + 1).map((one) => one.id || one.parentElement.className);
  });
  assert.deepEqual(cut, []);
  await page.evaluate(() => dispatchEvent(new Event('afterprint')));
  assert.equal(await page.$$eval('.remedies details[open]', (open) => open.length), 0, 'what was closed is closed again');
  await page.close();
});
