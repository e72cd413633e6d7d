// The pictures in docs/report/ and docs/fleet/: UNSTARVE=… FLEET_PAGE=… node shots.mjs [DIRECTORY [DIRECTORY]]; without UNSTARVE, those of many hosts alone
import { mkdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { launch, open, settle } from './test/browser.mjs';
import { fleetOf } from './test/fleets.mjs';
import { comparedPage, fleetPage, pageOf, trace } from './test/pages.mjs';

const out = resolve(process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), '../docs/report'));
// Name, recording, width, dark, what is shown (the top of the page without), what is clicked before.
const SHOTS = [
  ['net-rt', 'linux-5.10-net-rt.dat', 1280, false, null],
  ['net-rt-waits', 'linux-5.10-net-rt.dat', 1280, false, '#waits .panel'],
  ['net-rt-moment', 'linux-5.10-net-rt.dat', 1280, false, '#moment .panel'],
  ['net-rt-blame', 'linux-5.10-net-rt.dat', 1280, true, '#blame .panel'],
  ['net-rt-layout', 'linux-5.10-net-rt.dat', 1280, false, '#layout .panel'],
  ['net-rt-activity', 'linux-5.10-net-rt.dat', 1280, true, '#activity .grid'],
  ['net-rt-400', 'linux-5.10-net-rt.dat', 400, true, null],
  ['net-rt-waits-400', 'linux-5.10-net-rt.dat', 400, false, '#waits .panel'],
  ['dio-weight-moment', 'linux-6.1-dio-weight.dat', 1280, false, '#moment .panel', '.card .actions button:nth-of-type(2)'],
  ['pool-moment', 'linux-6.1-pool.dat', 1280, true, '#moment .panel'],
  ['pool-400', 'linux-6.1-pool.dat', 400, false, null],
  ['preempt-moment', 'linux-6.1-preempt.dat', 1280, false, '#moment .panel'],
  ['outlook', '../truth/highpri-xfs.6.1.fault.dat.zst', 1280, false, '#predictions .panel'],
  ['compare', null, 1280, false, '#compare'],
  ['idle', 'linux-6.1-idle.dat', 1280, false, null],
];

// Name, hosts, width, dark, what is shown.
const FLEETS = [
  ['thousand', 1000, 1280, false, null],
  ['thousand-dark', 1000, 1280, true, null],
  ['changes', 1000, 1280, true, '#changes'],
  ['three', 3, 1280, false, null],
  ['thousand-400', 1000, 400, true, null],
];
const outOfFleets = resolve(process.argv[3] ?? join(dirname(fileURLToPath(import.meta.url)), '../docs/fleet'));

mkdirSync(out, { recursive: true });
mkdirSync(outOfFleets, { recursive: true });
const pages = new Map();
const browser = await launch();
try {
  for (const [name, hosts, width, dark, selector] of process.env.FLEET_PAGE ? FLEETS : []) {
    const page = await open(browser, fleetPage(fleetOf(hosts)), { width, dark, height: width < 600 ? 820 : 960 });
    const path = join(outOfFleets, `${name}.png`);
    if (selector) await page.$eval('nav', (nav) => (nav.style.display = 'none'));
    if (selector) await (await page.$(selector)).screenshot({ path });
    else await page.screenshot({ path });
    await page.close();
  }
  for (const [name, recording, width, dark, selector, button] of process.env.UNSTARVE ? SHOTS : []) {
    const make = () => (recording ? pageOf(trace(recording)) : comparedPage(trace('linux-6.1-dio-good.dat'), trace('linux-6.1-dio-weight.dat')));
    if (!pages.has(recording)) pages.set(recording, make());
    const page = await open(browser, pages.get(recording), { width, dark, height: width < 600 ? 820 : 860 });
    const path = join(out, `${name}.png`);
    if (button) await page.$eval(button, (element) => element.click());
    if (selector) await page.$eval('nav', (nav) => (nav.style.display = 'none'));
    await settle(page);
    if (selector) await (await page.$(selector)).screenshot({ path });
    else await page.screenshot({ path });
    await page.close();
  }
} finally {
  await browser.close();
}
