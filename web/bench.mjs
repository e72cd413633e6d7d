// How long a page takes to open, and its longest frame while it is scrolled through: node bench.mjs PAGE.html…
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { launch, open, settle } from './test/browser.mjs';

const ROUNDS = 5;
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

const browser = await launch();
try {
  console.log('| page | size | opens in | longest frame while scrolling |\n|---|---|---|---|');
  for (const name of process.argv.slice(2)) {
    const file = resolve(name);
    const opened = [];
    const frames = [];
    for (let round = 0; round < ROUNDS; round++) {
      const page = await open(browser, file);
      // From the start of navigation to the moment in which all views are built.
      opened.push(await page.evaluate(() => performance.getEntriesByName('ready')[0].startTime));
      await settle(page);
      frames.push(await page.evaluate(scrollThrough));
      await page.close();
    }
    console.log(`| ${name} | ${(statSync(file).size / 1e6).toFixed(2)} MB | ${median(opened).toFixed(0)} ms | ${median(frames).toFixed(0)} ms |`);
  }
} finally {
  await browser.close();
}

/** In the page: a screenful at a time, a frame each. */
function scrollThrough() {
  return new Promise((done) => {
    let last = performance.now();
    let longest = 0;
    const step = (now) => {
      longest = Math.max(longest, now - last);
      last = now;
      if (scrollY + innerHeight >= document.documentElement.scrollHeight - 1) return done(longest);
      scrollBy({ top: 300, behavior: 'instant' });
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
}
