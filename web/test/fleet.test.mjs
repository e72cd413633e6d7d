// The page of many hosts in a real browser.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import { launch, open, settle } from './browser.mjs';
import { EMPTY, TABLES, changedFleet, fleetOf, wideFleetOf, without } from './fleets.mjs';
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
    const [what, hosts, less, before, after, difference] = await page.$eval('#fleet-groups tbody tr', (row) => [row.dataset.what, ...[...row.querySelectorAll('td')].map((cell) => (cell.querySelector('span') ?? cell).textContent)]);
    assert.equal(what, 'labels none → policy=workers');
    assert.deepEqual([hosts, less], ['500', '500']);
    assert.ok(parseFloat(before) > parseFloat(after), `${before} ${after}`);
    assert.equal(difference, '−90 %');
    assert.deepEqual([...new Set(await page.$$eval('#fleet-changed .ratio', (cells) => cells.map((cell) => `${cell.dataset.verdict} by ${cell.dataset.basis}`)))], ['better by hours']);
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
      host.periods = [half(false, 4e12), half(true, 1e12)];
    }
    const page = await open(browser, fleetPage(split));
    const rows = await page.$$eval('#fleet-groups tbody tr', (rows) => rows.map((row) => [row.dataset.what, row.querySelector('td.ratio span').textContent]));
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
    assert.ok(!/No kernel thread waited|Nobody was preferred/i.test(await page.$eval('main', (one) => one.innerText)));
    await page.close();
    const plain = await open(browser, thousand, { javascript: false });
    const text = await plain.$eval('body', (body) => body.innerText);
    assert.ok(text.includes(fleet.hosts[0].name) && /On \d+ of 1,000 hosts/.test(text));
    await plain.close();
  });

  // Each set of tables without a row: what the page says of waiting, of hours and culprits, of changes, of episodes.
  test('no table is health', async () => {
    const whole = fleetOf(8);
    for (let bits = 0; bits < 16; bits++) {
      const missing = TABLES.filter((_, bit) => (bits >> bit) & 1);
      const is = (table) => !missing.includes(table);
      const page = await open(browser, fleetPage(without(whole, missing)), { width: bits % 2 ? 1280 : 420 });
      const said = await page.evaluate(() => {
        const text = (selector) => document.querySelector(selector)?.innerText ?? '';
        const all = (selector, of) => [...document.querySelectorAll(selector)].map(of);
        return {
          heading: text('#verdict h1'),
          gaps: all('#verdict .gaps li', (one) => one.innerText.split(' ')[0]),
          figures: all('#verdict dd[data-least]', (one) => [one.dataset.least, one.innerText]),
          isWarning: document.querySelector('#verdict').classList.contains('warning'),
          hosts: all('#map tr[data-host] td:nth-of-type(1)', (one) => one.innerText),
          hot: document.querySelectorAll('#map td[data-share]').length,
          hours: text('#hours'),
          culprits: text('#culprits'),
          differences: all('#changes [data-verdict]', (one) => one.dataset.verdict),
          changes: text('#changes'),
          episodes: text('#episodes'),
          bars: document.querySelectorAll('#hours i').length,
        };
      });
      const why = missing.join();
      const [hasTime, hasWaits] = [is('wait_rollup'), is('blame_rollup')];
      assert.deepEqual(said.gaps, missing, why);
      assert.equal(said.isWarning, missing.length > 0, why);
      const heading = missing.length === 4 ? /There are no rows of any host/ : !hasWaits ? /It is not known how long/ : hasTime ? /On 2 of 8 hosts/ : /waited [\d,.]+ s on 8 hosts .* not known/;
      assert.match(said.heading, heading, why);
      assert.equal(said.hosts.length, missing.length === 4 ? 0 : 8, why);
      const figure = hasWaits ? (hasTime ? / %$/ : / (s|ms|µs)$/) : /^\?$/;
      assert.ok(said.hosts.every((text) => figure.test(text)), `${why}: ${said.hosts}`);
      assert.equal(said.hot > 0, hasTime && hasWaits, `${why}: colour is a part of the time`);
      const known = said.figures.filter(([least]) => least !== 'unknown');
      assert.equal(known.length, hasTime && hasWaits ? 4 : 0, `${why}: nobody counts as well`);
      assert.equal(said.figures.length - known.length, missing.length === 4 || (hasTime && hasWaits) ? 0 : 1, why);
      assert.equal(said.bars, hasWaits ? 24 : 0, why);
      assert.equal(/Not known: blame_rollup/.test(said.hours), !hasWaits, why);
      assert.equal(/Not known: blame_rollup/.test(said.culprits), !hasWaits, why);
      assert.equal(said.differences.length > 0, hasTime || hasWaits, why);
      assert.ok(said.differences.every((verdict) => (verdict === 'unknown') === !(hasTime && hasWaits)), `${why}: ${said.differences}`);
      assert.equal(/no row says which kernel/.test(said.changes), !hasTime && !hasWaits, why);
      assert.equal(/There are no episodes here: either/.test(said.episodes), !is('episodes'), why);
      assert.deepEqual(page.complaints, [], why);
      await page.close();
    }
  });

  test('hosts of which a table says nothing stand beside the others', async () => {
    const some = fleetOf(4);
    Object.assign(some.hosts[0], { watched_ns: null });
    Object.assign(some.hosts[1], { ns: null, others_ns: 0 });
    Object.assign(some.hosts[2], { ns: null, others_ns: 0, watched_ns: null, periods: [] });
    some.rest = { hosts: 3, unknown: 1 };
    const page = await open(browser, fleetPage(some));
    const rows = await page.$$eval('#map tbody tr', (rows) => rows.map((row) => [row.dataset.host ?? row.dataset.rest, row.querySelector('td').innerText, row.querySelector('.where')?.innerText.split(' · ')[0]]));
    const [noTime, noWaits, nothing, whole] = some.hosts.map((host) => host.name);
    assert.deepEqual(rows.map(([name]) => name), ['all', whole, noTime, ...[noWaits, nothing].sort()]);
    assert.equal(rows[0][2], 'of 1 of which the part of the time is known');
    assert.equal(rows[0][1], rows[1][1], 'the part of the time of all is that of those of which it is known');
    assert.match(rows[2][1], / s$/);
    assert.deepEqual(Object.fromEntries(rows.slice(2).map(([name, , where]) => [name, where])), { [noTime]: 'time watched not known', [noWaits]: 'waiting not known', [nothing]: 'no sums' });
    const counts = await page.$$eval('#verdict dd[data-least]', (all) => all.map((one) => [one.dataset.least, one.innerText]));
    assert.deepEqual(counts.filter(([, count]) => count !== '0').map(([least, count]) => `${least}:${count}`).sort(), ['0:3', 'unknown:4'].sort());
    await page.close();
  });

  test('a change has a colour only where it is one', async () => {
    const noise = (i) => 0.01 * (1 + 0.8 * Math.sin(i * 12.9898));
    const times = (count, of) => Array.from({ length: count }, (_, i) => of(i));
    const steady = { hours: 12, deviation: 0.002 };
    const page = await open(
      browser,
      fleetPage(
        changedFleet({
          noise: times(189, (i) => [noise(i), noise(i + 1000)]),
          worse: times(20, (i) => [noise(i), noise(i) + 0.01]),
          tiny: [[0.0005, 0.00054]],
          jump: [[0.001, 0.02]],
          hours: [[0.01, 0.03, steady]],
          unsteady: [[0.01, 0.03, { hours: 12, deviation: 0.03 }]],
        }),
      ),
    );
    const rows = await page.$$eval('#fleet-groups tbody tr', (rows) => rows.map((row) => [row.dataset.what.split('=')[1], ...['verdict', 'basis'].map((key) => row.querySelector('.ratio').dataset[key]), row.querySelector('.ratio').className.split(' ').pop(), row.querySelector('.ratio').innerText.split('\n')]));
    assert.deepEqual(
      rows.map(([what, verdict, basis, colour]) => [what, verdict, basis, colour]).sort(),
      [
        ['hours', 'worse', 'hours', 'bad'],
        ['jump', 'worse', 'size', 'bad'],
        ['noise', 'unclear', 'hosts', 'muted'],
        ['tiny', 'unclear', 'size', 'muted'],
        ['unsteady', 'unclear', 'hours', 'muted'],
        ['worse', 'worse', 'hosts', 'bad'],
      ],
    );
    const text = Object.fromEntries(rows.map(([what, , , , lines]) => [what, lines]));
    assert.equal(text.noise[0], 'no clear change');
    assert.match(text.noise[1], /^[+−][\d.]+ %, −0\.\d\d to \+0\.\d\d points$/u);
    assert.deepEqual(text.tiny, ['no clear change', '+8.0 %, by its size alone, too few hours']);
    await page.close();
  });

  // All that a page has, at its most: sixteen roles, names as long as they come.
  for (const [width, dark] of [[1400, false], [1400, true], [900, false], [420, false], [420, true]])
    test(`nothing is cut at ${width} pixels${dark ? ', dark' : ''}`, async () => {
      const page = await open(browser, fleetPage(wideFleetOf(30)), { width, dark });
      assert.equal(await page.$$eval('#map thead th', (all) => all.length), 19, 'a host, its kernel threads, sixteen roles, all others');
      const cut = await page.evaluate(() => {
        const isCut = (element) => {
          const box = element.getBoundingClientRect();
          const { overflowX, display } = getComputedStyle(element);
          return box.width > 1 && (box.right > innerWidth + 0.5 || box.left < -0.5 || (element.scrollWidth > element.clientWidth + 1 && overflowX !== 'visible' && display !== 'inline'));
        };
        // What is in a cell reaches into no other.
        const isOver = (element) => {
          const [range, box] = [document.createRange(), element.getBoundingClientRect()];
          range.selectNodeContents(element);
          return box.width > 1 && [...range.getClientRects()].some(({ left, right }) => right > box.right + 1 || left < box.left - 1);
        };
        const hidden = (element) => element.closest('.skip') || getComputedStyle(element.closest('thead') ?? element).clipPath !== 'none';
        return [...document.querySelectorAll('main *')].filter((element) => !hidden(element) && (isCut(element) || (['TH', 'TD'].includes(element.tagName) && isOver(element)))).map((element) => `${element.tagName} ${element.textContent.slice(0, 60)}`);
      });
      assert.deepEqual(cut, []);
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
      // What is shortened has the whole as its title.
      const short = await page.$$eval('#map .sort span', (all) => all.filter((one) => one.textContent.includes('…')).map((one) => one.title));
      assert.ok(short.length >= 2 && short.every((title) => title.length > 40 && !title.includes('…')), short.join());
      await page.close();
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
