// Every view, by mouse, by finger and by keyboard alone; narrow; and for those who do not see it.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { launch, open, settle } from './browser.mjs';
import { explain, pageOf, trace } from './pages.mjs';

const NET = 'linux-5.10-net-rt.dat';
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let browser;
let file;
let report;
before(async () => {
  browser = await launch();
  file = pageOf(trace(NET));
  report = explain(trace(NET));
});
after(async () => browser?.close());

const sumOf = (page, selector) => page.$$eval(selector, (cells) => cells.reduce((sum, cell) => sum + Number(cell.dataset.ns), 0));
const view = (page) => page.$eval('#moment-canvas', (canvas) => canvas.dataset.view.split('-').map(Number));
const detail = (page) => page.$eval('#moment-detail', (output) => output.textContent);

test('the blame matrix adds up, filters and sorts', async () => {
  const page = await open(browser, file);
  const cells = '#blame tbody td[data-ns]';
  assert.equal(await sumOf(page, cells), report.trace.waits_total_ns);

  const finding = report.findings[0];
  const culprit = finding.culprits[0];
  const rule = await page.$eval('#blame-rule', (select, word) => [...select.options].find((option) => option.text === word).value, culprit.rule);
  await page.select('#blame-rule', rule);
  const row = await page.$$eval('#blame tbody tr', (rows, comm) => {
    const row = rows.find((row) => row.querySelector('th').textContent.startsWith(comm));
    return [...row.querySelectorAll('td[data-ns]')].map((cell) => Number(cell.dataset.ns));
  }, finding.victim.comm);
  assert.equal(Math.max(...row), culprit.ns, 'the culprit of the finding, to the nanosecond');

  await page.select('#blame-rule', '-1');
  let byCpu = 0;
  for (const cpu of await page.$$eval('#blame-cpu option', (options) => options.map((option) => option.value).filter((value) => value !== '-1'))) {
    await page.select('#blame-cpu', cpu);
    byCpu += await sumOf(page, cells);
  }
  assert.equal(byCpu, report.trace.waits_total_ns, 'each wait is on one CPU');

  await page.select('#blame-cpu', '-1');
  await page.click('#blame thead th:nth-child(3) button');
  const column = await page.$$eval('#blame tbody tr:not([data-rest])', (rows) => rows.map((row) => Number(row.children[2].dataset.ns)));
  assert.deepEqual(column, [...column].sort((a, b) => b - a));
  assert.equal(await page.$eval('#blame th[aria-sort]', (head) => head.cellIndex), 2);
  await page.close();
});

test('the layout shows who is in whose way, and where interrupts land', async () => {
  const page = await open(browser, file);
  const text = await page.$eval('#layout .conflicts', (list) => list.innerText);
  assert.match(text, /CPU 1: wl\[117\] RT 10 was put before ksoftirqd\/1\[18\] for 177 ms \(class\)/);
  assert.match(text, /CPU 1: serves softirq NET_RX/);
  const marked = await page.$$eval('#layout td.conflict', (cells) => cells.map((cell) => cell.parentElement.querySelector('th').textContent));
  assert.ok(marked.includes('wl[117]') && marked.includes('ksoftirqd/1[18]'), String(marked));
  const waited = await page.$$eval('#layout td[data-waited]', (cells) => cells.reduce((sum, cell) => sum + Number(cell.dataset.waited), 0));
  assert.equal(waited, report.trace.waits_total_ns);
  await page.close();
});

test('the recording and its losses are told', async () => {
  const page = await open(browser, file);
  const text = await page.$eval('#recording', (section) => section.innerText);
  for (const loss of report.losses) assert.ok(text.includes(loss), loss);
  const total = await page.$eval('[data-total=waits]', (cell) => cell.textContent.replaceAll(',', ''));
  assert.equal(Number(total), report.trace.waits_count);
  assert.equal((await page.$$('#activity canvas')).length, 3);
  await page.close();
});

test('a click on a spike opens that moment', async () => {
  const page = await open(browser, file);
  const second = report.findings[0].worst[1];
  const [start, end] = [second.start_ns - report.trace.start_ns, second.end_ns - report.trace.start_ns];
  const span = report.trace.end_ns - report.trace.start_ns;
  await page.$eval('#waits-plot', (plot) => plot.scrollIntoView({ block: 'center' }));
  const over = await (await page.$('#waits-plot .u-over')).boundingBox();
  await page.mouse.click(over.x + (over.width * end) / span, over.y + 40);
  await settle(page);
  assert.equal(await page.$eval('#moment-canvas', (canvas) => canvas.dataset.spot), `${start}-${end}`);
  await page.close();
});

test('the moment zooms and moves by mouse', async () => {
  const page = await open(browser, file);
  const canvas = await page.$('#moment-canvas');
  await canvas.evaluate((element) => element.scrollIntoView({ block: 'center' }));
  const box = await canvas.boundingBox();
  const middle = [box.x + box.width / 2, box.y + box.height / 2];
  const [from, to] = await view(page);
  await page.mouse.move(...middle);
  const scrolled = await page.evaluate(() => scrollY);
  await page.keyboard.down('Control');
  await page.mouse.wheel({ deltaY: -60 });
  await page.keyboard.up('Control');
  await settle(page);
  const zoomed = await view(page);
  assert.ok(zoomed[1] - zoomed[0] < (to - from) * 0.7, 'nearer');
  await page.mouse.down();
  await page.mouse.move(middle[0] - 120, middle[1], { steps: 4 });
  await page.mouse.up();
  const moved = await view(page);
  assert.ok(moved[0] > zoomed[0], 'later');
  assert.ok(Math.abs(moved[1] - moved[0] - (zoomed[1] - zoomed[0])) <= 1);
  assert.equal(await page.evaluate(() => scrollY), scrolled, 'the page stayed');
  await page.mouse.wheel({ deltaY: 200 });
  await settle(page);
  assert.ok((await page.evaluate(() => scrollY)) > scrolled, 'the wheel alone scrolls the page');
  await page.close();
});

test('everything can be done with the keyboard alone', async () => {
  const page = await open(browser, file);
  const focused = () => page.evaluate(() => ({ id: document.activeElement.id, text: document.activeElement.textContent, tag: document.activeElement.tagName }));
  const tabTo = async (wanted) => {
    for (let i = 0; i < 250; i++) {
      await page.keyboard.press('Tab');
      if (wanted(await focused())) return;
    }
    assert.fail('not reached by Tab');
  };
  await page.keyboard.press('Tab');
  assert.match((await focused()).text, /Skip to the findings/);
  await tabTo(({ text, tag }) => tag === 'BUTTON' && text.startsWith('Look at the worst'));
  await page.keyboard.press('Enter');
  await settle(page);
  assert.equal((await focused()).id, 'moment-canvas');

  const whole = await view(page);
  await page.keyboard.press('+');
  const near = await view(page);
  assert.ok(near[1] - near[0] < whole[1] - whole[0]);
  await page.keyboard.press('ArrowRight');
  assert.ok((await view(page))[0] > near[0]);
  await page.keyboard.press('0');
  assert.equal((await view(page))[0], 0);
  await page.keyboard.press('w');
  assert.deepEqual(await view(page), whole);
  assert.match(await detail(page), /ksoftirqd\/1\[18\] waited 90\.0 ms/);
  await page.keyboard.press('ArrowUp');
  const other = await detail(page);
  await page.keyboard.press('.');
  assert.notEqual(await detail(page), other);
  await page.keyboard.press('Tab');
  assert.notEqual((await focused()).id, 'moment-canvas', 'the timeline does not hold the keys');

  await page.focus('#waits-plot');
  await page.keyboard.press('End');
  assert.match(await page.$eval('#waits .readout', (line) => line.textContent), /the longest/);
  await page.keyboard.press('Enter');
  assert.equal((await focused()).id, 'moment-canvas');
  await page.close();
});

test('at 400 pixels nothing sticks out, and fingers work', async () => {
  for (const name of [NET, 'linux-6.1-dio-weight.dat', 'linux-6.1-pool.dat', 'perfetto-rt-hog.pftrace']) {
    const page = await open(browser, pageOf(trace(name)), { width: 400, height: 800 });
    const [inside, wide] = await page.evaluate(() => [document.documentElement.clientWidth, document.documentElement.scrollWidth]);
    assert.ok(wide <= inside, `${name}: ${wide} pixels wide`);
    if (name === NET) {
      const canvas = await page.$('#moment-canvas');
      await canvas.evaluate((element) => element.scrollIntoView({ block: 'center' }));
      const box = await canvas.boundingBox();
      // The first row is the wait's CPU; most of it is the real-time task's.
      await page.touchscreen.tap(box.x + box.width * 0.6, box.y + 26 + 15);
      await settle(page);
      assert.match(await detail(page), /wl\[117\] ran on CPU 1 for 90\.0 ms/);
      await page.$$eval('#moment .tools button', ([, nearer]) => nearer.click());
      const before = await view(page);
      const finger = await page.touchscreen.touchStart(box.x + 300, box.y + 60);
      await finger.move(box.x + 200, box.y + 60);
      await finger.end();
      assert.ok((await view(page))[0] > before[0], 'a finger moves it');
    }
    await page.close();
  }
});

test('an automatic checker finds nothing serious for those who cannot see, hear or point', async () => {
  for (const [name, look] of [[NET, {}], [NET, { dark: true }], [NET, { width: 400 }], ['linux-6.1-pool.dat', {}], ['linux-6.1-idle.dat', {}]]) {
    const page = await open(browser, pageOf(trace(name)), look);
    await page.evaluate(AXE);
    const { violations, passes } = await page.evaluate(() => axe.run(document, { resultTypes: ['violations', 'passes'] }));
    const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
    assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes.length, nodes[0].html.slice(0, 200)]), [], `${name} ${JSON.stringify(look)}`);
    assert.ok(passes.length > 20, 'it did look');
    await page.close();
  }
});

test('on paper it is light, and nothing is a button', async () => {
  const page = await open(browser, file, { dark: true });
  await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
  await page.emulateMediaType('print');
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'light');
  assert.equal(await page.$$eval('.card button', (buttons) => buttons.filter((button) => button.offsetParent !== null).length), 0);
  assert.ok(await page.$$eval('details', (all) => all.every((one) => one.open)));
  const pdf = await page.pdf({ format: 'A4', timeout: 30_000 });
  assert.equal(Buffer.from(pdf.slice(0, 5)).toString(), '%PDF-');
  await page.close();
});

test('the policy lets nothing run that was put into the file', async () => {
  const evil = readFileSync(file, 'utf8').replace('<main id="page">', '<main id="page"><script>window.pwned = 1</script><img src="x" onerror="window.pwned = 2"><style>body { display: none }</style>');
  const copy = file.replace(/\.html$/, '-evil.html');
  writeFileSync(copy, evil);
  const page = await open(browser, copy);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).display), 'block');
  assert.ok(page.complaints.some((text) => text.includes('Content Security Policy')), 'the browser refused');
  await assert.rejects(page.evaluate(() => fetch('https://example.org/')), 'nor may it load anything');
  const markup = await page.evaluate(() => {
    try {
      document.createElement('div').innerHTML = '<b>x</b>';
      return 'made';
    } catch {
      return 'refused';
    }
  });
  assert.equal(markup, 'refused', 'text cannot become markup');
  await page.close();
});

test('without wakeups the page says what is missing and works', async () => {
  const lines = [];
  for (let i = 0; i < 200; i++) {
    const [a, b] = i % 2 ? ['one:1', 'two:2'] : ['two:2', 'one:1'];
    lines.push(`${a.replace(':', ' ')} [000] ${(100 + i * 0.01).toFixed(6)}: sched:sched_switch: ${a} [120] R ==> ${b} [120]`);
  }
  const page = await open(browser, pageOf({ text: lines.join('\n') + '\n' }));
  assert.deepEqual(page.complaints, []);
  assert.ok((await page.$$('#waits tbody tr')).length >= 3);
  assert.ok((await view(page))[1] > 0);
  await page.close();
});

test('sixty-four CPUs have room', async () => {
  const lines = [];
  for (let i = 0; i < 1280; i++) {
    const cpu = i % 64;
    const [a, b] = Math.floor(i / 64) % 2 ? [`hog:${1000 + cpu}`, `task:${2000 + cpu}`] : [`task:${2000 + cpu}`, `hog:${1000 + cpu}`];
    const at = (100 + Math.floor(i / 64) * 0.01 + cpu * 0.0001).toFixed(6);
    lines.push(`${a.replace(':', ' ')} [${String(cpu).padStart(3, '0')}] ${at}: sched:sched_switch: ${a} [120] R ==> ${b} [120]`);
  }
  for (const width of [1280, 400]) {
    const page = await open(browser, pageOf({ text: lines.join('\n') + '\n' }), { width });
    assert.deepEqual(page.complaints, []);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
    assert.equal(await page.$$eval('#layout thead th', (heads) => heads.filter((head) => /^\d+$/.test(head.textContent)).length), 64);
    assert.ok((await page.$eval('#moment-canvas', (canvas) => canvas.clientHeight)) < 1100);
    assert.match(await page.$eval('#moment', (section) => section.innerText), /48 more CPUs did less/);
    await page.close();
  }
});

test('colours follow the reader', async () => {
  const page = await open(browser, file, { dark: true });
  const theme = () => page.evaluate(() => [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]);
  const [name, dark] = await theme();
  assert.equal(name, 'dark');
  const click = () => page.$eval('.tools button', (button) => button.click());
  await click();
  await click();
  const [after_, light] = await theme();
  assert.equal(after_, 'light');
  assert.notEqual(dark, light);
  await page.close();
});

test('a command can be copied', async () => {
  const page = await open(browser, file);
  const copy = await page.$('.command .copy');
  await copy.click();
  await page.waitForFunction((button) => button.textContent === 'Copied', { timeout: 3000 }, copy);
  await page.close();
});
