// Chromium, driven by puppeteer-core: the one of the system, nothing is downloaded.
import { existsSync } from 'node:fs';
import puppeteer from 'puppeteer-core';

const PLACES = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** The browser's path; nothing if there is none. */
export function chromium() {
  return PLACES.find((path) => path && existsSync(path));
}

export async function launch() {
  return puppeteer.launch({
    executablePath: chromium(),
    headless: true,
    // Root may not use the sandbox; containers have little /dev/shm.
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--hide-scrollbars', '--force-color-profile=srgb'],
    timeout: 60_000,
    protocolTimeout: 60_000,
  });
}

/** Opens a page and waits until it is built. What it complained of is in `page.complaints`. */
export async function open(browser, file, { width = 1280, height = 900, dark = false, javascript = true } = {}) {
  const page = await browser.newPage();
  page.complaints = [];
  page.requests = [];
  page.on('pageerror', (error) => page.complaints.push(String(error)));
  page.on('console', (message) => {
    if (['error', 'warn'].includes(message.type())) page.complaints.push(message.text());
  });
  page.on('request', (request) => page.requests.push(request.url()));
  await page.setViewport({ width, height, deviceScaleFactor: 1, hasTouch: width < 600, isMobile: width < 600 });
  await page.emulateMediaFeatures([
    { name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' },
    { name: 'prefers-reduced-motion', value: 'reduce' },
  ]);
  await page.setJavaScriptEnabled(javascript);
  await page.goto(`file://${file}`, { waitUntil: 'load' });
  if (javascript) {
    await page.waitForFunction('document.documentElement.dataset.ready === "true"', { timeout: 20_000 });
    await settle(page);
  }
  return page;
}

/** Waits until what was asked for is drawn. */
export async function settle(page) {
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 20)))));
}
