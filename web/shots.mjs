// Pictures of pages: node shots.mjs OUT PAGE.html…
import { basename, join, resolve } from 'node:path';
import { launch, open } from './test/browser.mjs';

const [out, ...pages] = process.argv.slice(2);
const looks = (process.env.LOOKS ?? '1280-light 1280-dark 400-light 400-dark').split(' ');
const browser = await launch();
try {
  for (const file of pages) {
    for (const look of looks) {
      const [width, theme] = look.split('-');
      const page = await open(browser, resolve(file), { width: Number(width), dark: theme === 'dark' });
      if (page.complaints.length) console.error(file, page.complaints);
      const name = `${basename(file, '.html')}-${look}.png`;
      if (process.env.SELECTOR) await (await page.$(process.env.SELECTOR)).screenshot({ path: join(out, name) });
      else await page.screenshot({ path: join(out, name), fullPage: true });
      await page.close();
    }
  }
} finally {
  await browser.close();
}
