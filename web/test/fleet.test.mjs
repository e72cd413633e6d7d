// The page of many hosts in a real browser.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import { launch, open, settle } from './browser.mjs';
import { EMPTY, fleetOf } from './fleets.mjs';
import { fleetPage } from './pages.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const skip = process.env.FLEET_PAGE ? false : 'FLEET_PAGE names no program';

describe('many hosts', { skip }, () => {
  let browser;
  let thousand;
  const fleet = fleetOf(1000);
  const kernel = (host) => host.ns.slice(0, 5).reduce((a, b) => a + b, 0);
  before(async () => {
    browser = await launch();
    thousand = fleetPage(fleet);
  });
  after(async () => browser?.close());

  const shown = (page) => page.$$eval('#map tr[data-host]', (rows) => rows.map((row) => [row.dataset.host, ...[...row.querySelectorAll('td')].map((cell) => Number(cell.dataset.share))]));
  const type = async (page, selector, text) => {
    await page.click(selector);
    await page.keyboard.type(text);
    await settle(page);
  };

  test('a thousand hosts are ranked, and those without a row are summed up', async () => {
    const page = await open(browser, thousand);
    const rows = await shown(page);
    assert.equal(rows.length, 40);
    assert.deepEqual(rows.map(([name]) => name), fleet.hosts.slice(0, 40).map((host) => host.name));
    const close = (a, b) => assert.ok(Math.abs(a - b) < 2e-6, `${a} is not ${b}`);
    rows.forEach(([, first, ...roles], i) => {
      close(first, kernel(fleet.hosts[i]) / fleet.hosts[i].watched_ns);
      fleet.hosts[i].ns.forEach((ns, role) => close(roles[role], ns / fleet.hosts[i].watched_ns));
    });
    const summed = await page.$$eval('#map tr[data-rest]', (rows) => rows.map((row) => [row.dataset.rest, row.querySelector('th').textContent, Number(row.querySelector('td').dataset.share)]));
    const mean = (hosts) => hosts.reduce((ns, host) => ns + kernel(host), 0) / hosts.reduce((ns, host) => ns + host.watched_ns, 0);
    assert.deepEqual(summed.map(([kind, name]) => [kind, name]), [['all', 'All 1,000 hosts'], ['rest', '960 more hosts']]);
    close(summed[0][2], mean(fleet.hosts));
    close(summed[1][2], mean(fleet.hosts.slice(40)));
    await page.click('#map-more');
    await settle(page);
    assert.equal((await shown(page)).length, 240);
    const counts = await page.$$eval('#verdict dd[data-least]', (all) => all.map((one) => Number(one.textContent.replace(',', ''))));
    assert.equal(counts.reduce((a, b) => a + b, 0), 1000);
    assert.deepEqual(page.complaints, []);
    assert.deepEqual(page.requests.filter((url) => !url.startsWith('file:')), []);
    await page.close();
  });

  test('hosts are found by name, kernel and label, and all views follow', async () => {
    const page = await open(browser, thousand);
    await page.select('#fleet-kernel', '6.1.0-18');
    await settle(page);
    assert.equal(await page.$eval('#fleet-found', (one) => one.textContent), '250 of 1,000 hosts');
    assert.deepEqual(await page.$$eval('#fleet-by-kernel tr[data-kind]', (rows) => rows.map((row) => row.dataset.kind)), ['6.1.0-18']);
    await page.select('#fleet-label', 'policy=workers');
    await type(page, '#fleet-search', 'NODE-000');
    const names = fleet.hosts.filter((host) => host.name.includes('node-000') && host.periods.some((one) => one.kernel === '6.1.0-18' && one.labels?.includes('policy'))).map((host) => host.name);
    assert.deepEqual((await shown(page)).map(([name]) => name).sort(), names.sort());
    assert.ok(names.length > 0);
    const episodes = await page.$$eval('#fleet-episodes tr[data-episode] th', (cells) => cells.map((cell) => cell.textContent));
    assert.deepEqual(episodes.filter((name) => !names.includes(name)), []);
    // What is looked at is in the address.
    await page.reload({ waitUntil: 'load' });
    await page.waitForFunction('document.documentElement.dataset.ready === "true"');
    assert.deepEqual((await shown(page)).map(([name]) => name).sort(), names.sort());
    await page.$eval('#fleet-search', (box) => (box.value = ''));
    await type(page, '#fleet-search', 'no such host');
    assert.equal((await shown(page)).length, 0);
    assert.match(await page.$eval('#map-rest', (one) => one.textContent), /No host matches/);
    await page.close();
  });

  test('another column ranks hosts anew', async () => {
    const page = await open(browser, thousand);
    const buttons = await page.$$('#map thead button');
    const names = await Promise.all(buttons.map((one) => one.evaluate((element) => element.textContent)));
    const group = names.indexOf('/batch.slice');
    await buttons[group].click();
    await settle(page);
    const column = fleet.roles.findIndex((role) => role.name === '/batch.slice');
    const expected = [...fleet.hosts].sort((a, b) => b.ns[column] - a.ns[column]).slice(0, 40).map((host) => host.name);
    assert.deepEqual((await shown(page)).map(([name]) => name), expected);
    assert.equal(await page.$eval('#map th[aria-sort]', (one) => one.textContent), '/batch.slice');
    await page.close();
  });

  test('before is set against after, host by host', async () => {
    const page = await open(browser, thousand);
    const [what, hosts, less, before, after, difference] = await page.$eval('#fleet-groups tbody tr', (row) => [row.dataset.what, ...[...row.querySelectorAll('td')].map((cell) => cell.textContent)]);
    assert.equal(what, 'labels none → policy=workers');
    assert.deepEqual([hosts, less], ['500', '500']);
    assert.ok(parseFloat(before) > parseFloat(after), `${before} ${after}`);
    assert.equal(difference, '−90 %');
    const rows = await page.$$eval('#fleet-changed tbody tr', (rows) => rows.map((row) => [row.dataset.host, ...[...row.querySelectorAll('td.heat')].map((cell) => Number(cell.dataset.share))]));
    assert.equal(rows.length, 20);
    for (const [name, a, b] of rows) {
      const { periods } = fleet.hosts.find((host) => host.name === name);
      [a, b].forEach((share, i) => assert.ok(Math.abs(share - periods[i].ns / periods[i].watched_ns) < 2e-6, name));
    }
    await page.close();
  });

  test('a time that was said is a change of all hosts', async () => {
    const split = structuredClone(fleetOf(3));
    split.changed_ms = split.from_ms + 43_200_000;
    for (const host of split.hosts) {
      const [period] = host.periods;
      const half = (is_after, ns) => ({ ...period, labels: 'pool=a', is_after, first_ms: is_after ? split.changed_ms : split.from_ms, watched_ns: host.watched_ns / 2, ns });
      host.periods = [half(false, 4e9), half(true, 1e9)];
    }
    const page = await open(browser, fleetPage(split));
    const rows = await page.$$eval('#fleet-groups tbody tr', (rows) => rows.map((row) => [row.dataset.what, row.querySelector('td.ratio').textContent]));
    assert.deepEqual(rows, [['the change at 2026-11-22 12:00 UTC', '−75 %']]);
    await page.close();
  });

  test('the worst episodes lead to their pages, and nowhere else', async () => {
    const odd = fleetOf(3);
    const episode = odd.episodes[0];
    odd.episodes = ['javascript:alert(1)', 'data:text/html,x', 'file:///etc/passwd', 'https://node/report.html', null].map((link, i) => ({ ...episode, id: String(i), link }));
    const page = await open(browser, fleetPage(odd));
    assert.deepEqual(await page.$$eval('#fleet-episodes a', (links) => links.map((link) => [link.href, link.rel])), [['https://node/report.html', 'noreferrer noopener']]);
    assert.equal((await page.$$('#fleet-episodes tr[data-episode]')).length, 5);
    await page.close();
  });

  test('nothing that hosts call themselves runs or escapes', async () => {
    const evil = '</script><img src=x onerror=alert(1)><b>bold</b>';
    const text = JSON.stringify(fleetOf(3)).replaceAll('node-', evil).replaceAll('spinner', evil).replaceAll('/batch.slice', evil).replaceAll('6.1.0-18', evil).replaceAll('pool=a', evil);
    const file = fleetPage(JSON.parse(text));
    assert.equal(readFileSync(file, 'utf8').match(/<\/script/gi).length, 2);
    const page = await open(browser, file);
    page.on('dialog', () => assert.fail('something ran'));
    assert.equal((await page.$$('main img, main th b, main td b')).length, 0);
    assert.ok((await page.$eval('body', (body) => body.innerText)).includes('</script><img'), 'the name is shown as it is');
    assert.deepEqual(page.complaints, []);
    assert.deepEqual(page.requests.filter((url) => !url.startsWith('file:')), []);
    await page.close();
  });

  test('no hosts are a page, too; without scripts the worst are named', async () => {
    const page = await open(browser, fleetPage(EMPTY));
    assert.match(await page.$eval('#verdict', (one) => one.textContent), /no rows of any host/);
    assert.deepEqual(page.complaints, []);
    await page.close();
    const plain = await open(browser, thousand, { javascript: false });
    const text = await plain.$eval('body', (body) => body.innerText);
    assert.ok(text.includes(fleet.hosts[0].name) && /On \d+ of 1,000 hosts/.test(text));
    await plain.close();
  });

  for (const [width, dark] of [[1280, false], [1280, true], [400, false]]) {
    test(`it is for everybody at ${width} pixels${dark ? ', dark' : ''}`, async () => {
      const page = await open(browser, thousand, { width, dark });
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => axe.run(document));
      const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
      assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes[0].html.slice(0, 160)]), []);
      await page.close();
    });
  }
});
