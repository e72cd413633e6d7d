// The verdict and the findings: what a reader in a hurry came for.

import type { App } from './app';
import { priorityOf } from './app';
import type { Culprit, Finding, PricePaid, Proved, Remedy } from './data';
import { button, h, vary } from './dom';
import { counted, grouped, nanos, percent, tasks } from './format';
import { inALine } from './predictions';
import { ruleLook } from './rules';

const WORDS = { critical: 'Critical', warning: 'Warning', info: 'Worth knowing' } as const;

/** The answer in a sentence, and the figures behind it. */
export function verdictView(app: App): HTMLElement {
  const { verdict, report } = app.trace;
  // Too little to tell is no all-clear.
  const [severity, badge] = verdict.severity
    ? [verdict.severity, WORDS[verdict.severity]]
    : report.trace.too_little
      ? ['info', 'Not known']
      : ['healthy', 'Healthy'];
  const worst = report.findings.find((finding) => finding.severity !== 'info');
  const [headline, rest] = split(verdict.text, worst);
  return h(
    'section',
    { class: `verdict ${severity}`, id: 'verdict', 'aria-labelledby': 'verdict-title' },
    h('p', { class: 'badge' }, badge),
    h('h1', { id: 'verdict-title' }, headline),
    rest ? h('p', { class: 'lead' }, rest) : null,
    worst ? figures(app, worst) : null,
    worst ? firstFix(app, worst, report.findings.indexOf(worst)) : null,
  );
}

/** The first sentence is the headline; of a finding its own. */
function split(text: string, worst: Finding | undefined): [string, string] {
  if (worst?.headline) {
    const start = text.indexOf(worst.headline);
    return [worst.headline, start < 0 ? text : text.slice(start + worst.headline.length + 2)];
  }
  const end = text.search(/[;.] /);
  return end < 0 ? [text, ''] : [text.slice(0, end + 1).replace(/;$/, '.'), text.slice(end + 2)];
}

function figures(app: App, finding: Finding): HTMLElement {
  const culprit = finding.culprits[0];
  const share = finding.culprits.reduce((sum, one) => sum + one.ns, 0) / Math.max(1, finding.waits.total_ns);
  const paid = finding.price[0];
  const evidence = app.trace.report.evidence;
  return h(
    'dl',
    { class: 'figures' },
    evidence && !finding.waits.max_ns ? null : figure(evidence ? 'at least' : 'longest wait', nanos(finding.waits.max_ns), finding.waits.max_ns),
    evidence ? null : figure('waited in all', nanos(finding.waits.total_ns), finding.waits.total_ns, `of ${nanos(app.trace.span_ns)} recorded`),
    culprit ? figure('starved by', culprit.comm, null, evidence ? `rule ${culprit.rule}` : `${percent(share)}, rule ${culprit.rule}`) : null,
    finding.period_ns ? figure('every', nanos(finding.period_ns), finding.period_ns) : null,
    paid ? figure('cost to others', nanos(paid.ns), paid.ns, `${tasks(paid.comm, paid.tids)} ${lost(paid)}`) : null,
  );
}

/** The first remedy: with the verdict it is what most readers need. */
function firstFix(app: App, finding: Finding, index: number): HTMLElement | null {
  const remedy = finding.remedies[0];
  if (!remedy) return null;
  return h('div', { class: 'first-fix' }, h('p', {}, h('b', {}, 'Fix: '), remedy.text), command('Plan', planOf(app, index, remedy)));
}

/** The command that shows the plan of a remedy; nothing where only a person can do it. */
export function planOf(app: App, index: number, remedy: Remedy): string {
  if (!remedy.apply.trim()) return '';
  const { report, name } = app.trace;
  // Without --finding the first finding with the remedy is meant.
  const isFirst = !report.findings.slice(0, index).some((other) => other.remedies.some(({ id }) => id === remedy.id));
  // `fix undo` undoes, and `-x` is an option.
  const named = /^(-|(plan|apply|status|undo)$)/.test(name) ? `./${name}` : name;
  const file = /^[\w.,/@%+-]+$/.test(named) ? named : `'${named.replaceAll("'", `'\\''`)}'`;
  return `unstarve fix ${file}${isFirst ? '' : ` --finding ${index + 1}`} --remedy ${remedy.id}`;
}

function figure(name: string, value: string, ns: number | null, note = ''): HTMLElement {
  return h(
    'div',
    {},
    h('dt', {}, name),
    h('dd', { 'data-ns': ns }, value),
    note ? h('dd', { class: 'note' }, note) : null,
  );
}

/** A card for each finding. */
export function findingsView(app: App): HTMLElement {
  const { findings } = app.trace.report;
  const cards = findings.map((finding, index) => card(app, finding, index));
  const filter = (): void => cards.forEach((one, index) => one.classList.toggle('dim', !concerns(app, findings[index], index)));
  app.onSearch(filter);
  filter();
  return h(
    'section',
    { id: 'findings', 'aria-labelledby': 'findings-title' },
    h('h2', { id: 'findings-title' }, findings.length ? 'Findings' : 'No findings'),
    findings.length
      ? null
      : h('p', { class: 'intro' }, 'Tasks that wait are not starved by that alone: nobody got less than an equal share at others’ cost.'),
    ...cards,
  );
}

/** Whether a finding is about what is searched for. */
function concerns(app: App, finding: Finding, index: number): boolean {
  if (!app.query) return true;
  const actors = [...app.trace.courses[app.trace.findings[index]].actors, ...finding.culprits.map((culprit) => app.actorOf(culprit))];
  const names = [finding.sentence, ...finding.price.map((payer) => payer.comm)];
  return actors.some((actor) => actor !== undefined && app.matches(actor)) || names.some((name) => name.toLowerCase().includes(app.query));
}

function card(app: App, finding: Finding, index: number): HTMLElement {
  const id = `finding-${index}`;
  const course = app.trace.findings[index];
  const body = h(
    'div',
    { class: 'card-body' },
    // A log has one length at most, and no waits.
    app.trace.report.evidence
      ? h('div', {}, finding.culprits.length ? h('h4', {}, `Who had the CPU while ${victim(finding)} waited`) : null, finding.culprits.length ? bars(finding) : null)
      : h('div', {}, h('h4', {}, `Who had the CPU while ${victim(finding)} waited`), bars(finding), waits(finding), moments(app, finding, course)),
    h('div', {}, price(finding), list('Evidence', finding.evidence), list('What could change this', finding.losses)),
  );
  return h(
    'article',
    { class: `card ${finding.severity}`, id, 'aria-labelledby': `${id}-title`, 'data-finding': finding.id },
    h(
      'header',
      {},
      h('span', { class: 'badge' }, WORDS[finding.severity]),
      h('code', { class: 'finding-id' }, finding.id),
      h('span', { class: 'facts' }, facts(finding)),
    ),
    h('h3', { id: `${id}-title` }, finding.sentence),
    body,
    remedies(app, finding, index),
  );
}

export function victim(finding: Finding): string {
  const { comm, tids, tasks: count, work } = finding.victim;
  const who = tasks(comm, tids, count);
  return work ? `${who} (${work.function})` : who;
}

function facts(finding: Finding): string {
  const { cpus, period_ns, confidence } = finding;
  const where = cpus.length === 0 ? '' : cpus.length === 1 ? `CPU ${cpus[0]}` : cpus.length > 8 ? `${cpus.length} CPUs` : `CPUs ${cpus.join(', ')}`;
  const parts = [`confidence ${Math.round(confidence * 100)} %`, where, period_ns ? `every ${nanos(period_ns)}` : ''];
  return parts.filter(Boolean).join(' · ');
}

/** `wl[117] RT 10`. */
export function occupant(culprit: Culprit): string {
  const rank = culprit.policy === 'idle' ? '' : priorityOf(culprit.policy, culprit.prio);
  return tasks(culprit.comm, culprit.tids) + (rank ? ` ${rank}` : '');
}

const BARS = 6;

function bars(finding: Finding): HTMLElement {
  const total = finding.waits.total_ns;
  const shown = finding.blame.slice(0, BARS);
  const rest = finding.blame.slice(BARS);
  const rows = shown.map((one) => bar(occupant(one), one.rule, one.ns, total, whereabouts(one)));
  if (rest.length) {
    const ns = rest.reduce((sum, one) => sum + one.ns, 0);
    rows.push(bar(`${rest.length} more`, '', ns, total));
  }
  return h('ul', { class: 'bars' }, ...rows);
}

/** `/system.slice/wl.service · tgid 117`, as far as the host snapshot knows; of several threads, which. */
function whereabouts({ tids, tgids = [], cgroups = [] }: Culprit): string {
  const list = (word: string, ids: number[]): string => (ids.length ? `${word} ${ids.slice(0, 6).join(' ')}${ids.length > 6 ? ` and ${ids.length - 6} more` : ''}` : '');
  return [...cgroups, list('tgid', tgids), tids.length > 1 ? list('tid', tids) : ''].filter(Boolean).join(' · ');
}

/** A bar of a part of a whole, with its figure. */
export function bar(who: string, rule: string, ns: number, total: number, place = ''): HTMLElement {
  const look = rule ? ruleLook(rule) : null;
  const share = total > 0 ? ns / total : 0;
  const fill = vary(h('span', { class: `fill ${look ? look.pattern : 'solid'}` }), {
    share,
    colour: look ? look.colour : 'var(--other)',
  });
  return h(
    'li',
    { 'data-ns': ns, 'data-rule': rule },
    h('span', { class: 'who' }, who, place ? h('span', { class: 'where' }, place) : null),
    h('span', { class: 'rule', title: look?.meaning }, rule),
    h('span', { class: 'track' }, fill),
    h('span', { class: 'amount' }, nanos(ns)),
    h('span', { class: 'share' }, percent(share)),
  );
}

function waits(finding: Finding): HTMLElement {
  const { count, total_ns, p99_ns, max_ns, owed_ns } = finding.waits;
  const owed = owed_ns > 0 ? ` It ran ${nanos(owed_ns)} less than its fair share.` : '';
  const text = `${counted(count, 'wait')}: total ${nanos(total_ns)}, p99 ${nanos(p99_ns)}, max ${nanos(max_ns)}.${owed}`;
  return h('p', { class: 'small', 'data-waits': count, 'data-total': total_ns, 'data-max': max_ns, 'data-p99': p99_ns }, text);
}

function moments(app: App, finding: Finding, course: number): HTMLElement {
  const worst = finding.worst.slice(0, 3).map((at, rank) => {
    const spot = app.spotAt(at.start_ns, at.end_ns, at.cpu);
    if (!spot) return null;
    const length = nanos(at.end_ns - at.start_ns);
    const label = rank === 0 ? `Look at the worst moment: ${length} at ${app.time(at.start_ns)}` : `${length} at ${app.time(at.start_ns)}`;
    return button(label, () => app.open(spot), { class: rank === 0 ? 'primary' : '', 'data-spot': `${at.start_ns}-${at.end_ns}` });
  });
  // The longest of all may be of another kind than those that the finding is about.
  const rule = finding.culprits[0]?.rule;
  const typical = app.spotsOf(app.trace.courses[course].actors).find((spot) => spot.rule === rule);
  const isTold = typical && finding.worst.slice(0, 3).some((at) => at.start_ns === typical.start && at.end_ns === typical.end);
  if (typical && !isTold) {
    const label = `Longest by ${rule}: ${nanos(typical.end - typical.start)} at ${app.time(typical.start)}`;
    worst.push(button(label, () => app.open(typical), { class: 'typical', 'data-spot': `${typical.start}-${typical.end}` }));
  }
  const over = button('Its waits over time', () => app.chart(course));
  return h('p', { class: 'actions' }, ...worst, over);
}

/** Asleep until the victim woke it, or in the same queue: the words of the terminal page. */
function lost(payer: PricePaid): string {
  const waited = payer.waited_ns;
  const slept = Math.max(0, payer.ns - waited);
  if (!waited) return `waited ${nanos(slept)} for it`;
  if (!slept) return `waited ${nanos(waited)} for the same CPU`;
  return `lost ${nanos(payer.ns)}: ${nanos(waited)} queued for the same CPU, ${nanos(slept)} asleep until it was done`;
}

function price(finding: Finding): HTMLElement | null {
  if (!finding.price.length) return null;
  const shown = finding.price.slice(0, 5).map((one) => h('li', { 'data-ns': one.ns }, h('b', {}, tasks(one.comm, one.tids)), ` ${lost(one)}`));
  const more = finding.price.length - shown.length;
  return h('div', {}, h('h4', {}, 'Cost'), h('ul', {}, ...shown, more > 0 ? h('li', { class: 'muted' }, `and ${grouped(more)} more`) : null));
}

function list(title: string, lines: string[]): HTMLElement | null {
  if (!lines.length) return null;
  return h('div', {}, h('h4', {}, title), h('ul', {}, ...lines.map((line) => h('li', {}, line))));
}

/** Remedies that are seen at once. */
const REMEDIES = 3;

function remedies(app: App, finding: Finding, index: number): HTMLElement | null {
  if (!finding.remedies.length) return null;
  const items = finding.remedies.map((remedy) =>
    h(
      'li',
      {},
      h('p', {}, remedy.text),
      command('Plan', planOf(app, index, remedy)),
      h(
        'dl',
        { class: 'notes' },
        ...(remedy.risk ? [h('dt', {}, 'Risk'), h('dd', {}, remedy.risk)] : []),
        ...(remedy.valid_on ? [h('dt', { class: 'valid' }, 'Valid on'), h('dd', { class: 'valid' }, remedy.valid_on)] : []),
        ...(inALine(remedy.predicted) ? [h('dt', {}, 'Predicted'), h('dd', {}, inALine(remedy.predicted))] : []),
        // What was not shown to help says nothing for it; the order of the remedies has it.
        ...(remedy.proved ?? []).filter(helpedHere).flatMap((proof) => [h('dt', {}, 'Tested'), h('dd', {}, tested(proof))]),
      ),
    ),
  );
  const helped = finding.remedies.some(({ proved = [] }) => proved.some(helpedHere));
  const harms = finding.remedies.some(({ predicted }) => predicted && ['harms', 'helps-and-starves', 'starves-others'].includes(predicted.verdict));
  const order = `${helped ? 'tested ones first' : 'least invasive first'}${harms ? ', those predicted to harm somebody last' : ''}`;
  const title = h('h4', {}, `Fixes, ${order}`);
  const boot = app.trace.report.trace.snapshot ? '' : ' --this-boot, if it has not been rebooted since,';
  const how = h('p', { class: 'small muted' }, `Each command shows the plan. On the recorded machine${boot} --apply carries it out, and “sudo unstarve fix --undo” restores the old values.`);
  const more = items.slice(REMEDIES);
  const rest = more.length
    ? h('details', {}, h('summary', {}, `${more.length} more that cost more or reach further`), h('ol', { start: REMEDIES + 1 }, ...more))
    : null;
  const runs = finding.remedies.some((remedy) => planOf(app, index, remedy));
  return h('div', { class: 'remedies' }, title, runs ? how : null, h('ol', {}, ...items.slice(0, REMEDIES)), rest);
}

function helpedHere({ this_series, answer }: Proved): boolean {
  return this_series && answer === 'helped';
}

/** `on 6.1: ping.max −86 % (−90 % to −80 %), in spike`. */
function tested({ kernel, metric, effect, low, high, scenario, note = '' }: Proved): string {
  const part = (value: number): string => {
    if (value >= 9) return `×${Math.round(value + 1)}`;
    const size = Math.abs(value) * 100;
    return `${value < 0 ? '−' : '+'}${size < 9.95 ? size.toFixed(1) : Math.round(size)} %`;
  };
  const bounds = low === null || high === null ? '' : ` (${part(low)} to ${part(high)})`;
  // What could not be restored there concerns the reader's own host.
  const aside = note.startsWith('not taken back') ? `; ${note}` : '';
  return `on ${kernel}: ${metric}${effect === null ? '' : ` ${part(effect)}`}${bounds}, in ${scenario}${aside}`;
}

function command(label: string, text: string): HTMLElement | null {
  if (!text.trim()) return null;
  const copy = button('Copy', () => void copyText(text, copy), { class: 'copy', 'aria-label': `Copy the command: ${label}` });
  return h('div', { class: 'command main' }, h('span', { class: 'label' }, label), h('code', { tabindex: 0 }, text), copy);
}

async function copyText(text: string, from: HTMLButtonElement): Promise<void> {
  let copied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copied = copyBySelection(text);
  }
  from.textContent = copied ? 'Copied' : 'Select it and copy';
  setTimeout(() => (from.textContent = 'Copy'), 1600);
}

/** A page opened from a file may not have the clipboard's newer interface. */
function copyBySelection(text: string): boolean {
  const area = h('textarea', { class: 'offscreen', 'aria-hidden': 'true' });
  area.value = text;
  document.body.appendChild(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  return copied;
}
