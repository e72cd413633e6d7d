// Makes pages with the program under test, and asks it what they must say.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = resolve(fileURLToPath(new URL('../..', import.meta.url)));
const PROGRAM = process.env.UNSTARVE;
const DIRECTORY = mkdtempSync(join(tmpdir(), 'unstarve-page-'));
process.on('exit', () => rmSync(DIRECTORY, { recursive: true, force: true }));

export const trace = (name) => join(ROOT, 'testdata/traces', name);

function run(args, input) {
  if (!PROGRAM) throw new Error('UNSTARVE must name the program under test');
  return execFileSync(PROGRAM, args, { input, maxBuffer: 1 << 28, stdio: ['pipe', 'pipe', 'pipe'], timeout: 120_000 });
}

let made = 0;

/** The page of recordings; a text is a recording on standard input. */
export function pageOf(...recordings) {
  const text = recordings.find((one) => one.text !== undefined)?.text;
  const name = text === undefined ? basename(recordings[0]) : 'text';
  const file = join(DIRECTORY, `${made++}-${name}.html`);
  run(['report', ...(text === undefined ? recordings : ['-']), '-o', file], text);
  return file;
}

/** The page of a comparison. */
export function comparedPage(a, b) {
  const file = join(DIRECTORY, `${made++}-compared.html`);
  json(['compare', a, b, '-o', file], false);
  return file;
}

/** What `compare --json` says. */
export const compare = (a, b) => json(['compare', '--json', a, b]);

/** What `explain --json` says. */
export const explain = (recording) => json(['explain', '--json', recording]);

function json(args, parse = true) {
  let text;
  try {
    text = run(args);
  } catch (error) {
    // Exit code 1 tells of findings, or of a difference.
    if (error.status !== 1) throw error;
    text = error.stdout;
  }
  return parse ? JSON.parse(text.toString()) : null;
}
