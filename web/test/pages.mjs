// Makes pages with the program under test, and asks it what they must say.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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

/** The page of many hosts, of data as `unstarve sql --page` finds it. */
export function fleetPage(fleet) {
  const program = process.env.FLEET_PAGE;
  const file = join(DIRECTORY, `${made++}-fleet.html`);
  writeFileSync(file, execFileSync(program, { input: JSON.stringify(fleet), maxBuffer: 1 << 28, timeout: 120_000 }));
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

/**
 * Two seconds of 64 CPUs on each of which two tasks take turns in short runs, and on CPU 5 a real-time task, in short runs too, that lets
 * a worker wait for 1.5 s: more than a page can keep one by one.
 */
export function denseText() {
  const lines = [];
  const cpus = 64;
  const runs = 5200;
  const step = 2e9 / runs;
  const pad = (cpu) => String(cpu).padStart(3, '0');
  const stamp = (ns) => (100 + ns / 1e9).toFixed(9);
  const waits = [0.3e9, 1.8e9];
  const last = new Map();
  let woken = false;
  let ran = false;
  for (let i = 0; i < runs; i++) {
    for (let cpu = 0; cpu < cpus; cpu++) {
      const at = i * step + cpu * 1000;
      const isHeld = cpu === 5 && at >= waits[0] && at < waits[1];
      const turn = i % 2;
      const [a, b] = isHeld ? ['hog:900 [89]', 'hog:901 [89]'] : [`task${cpu % 40}:${2000 + cpu} [120]`, `other${cpu % 40}:${3000 + cpu} [120]`];
      let [prev, next] = turn ? [b, a] : [a, b];
      prev = last.get(cpu) ?? prev;
      if (cpu === 5 && !woken && at >= waits[0]) {
        woken = true;
        lines.push(`${prev.split(':')[0]} ${prev.match(/:(\d+)/)[1]} [005] ${stamp(at - 400)}: sched:sched_waking: comm=kworker/5:1 pid=77 prio=120 target_cpu=005`);
      }
      if (cpu === 5 && woken && !ran && at >= waits[1]) {
        ran = true;
        next = 'kworker/5:1:77 [120]';
      }
      if (prev === next) continue;
      const [, comm, pid] = prev.match(/^(.*):(\d+) /);
      const state = /^(task|other)/.test(comm) && !isHeld ? 'R' : 'S';
      lines.push(`${comm} ${pid} [${pad(cpu)}] ${stamp(at)}: sched:sched_switch: ${prev} ${state} ==> ${next}`);
      last.set(cpu, next);
    }
  }
  return `${lines.join('\n')}\n`;
}
