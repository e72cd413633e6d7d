// What a page of logs and lists has instead of charts: which texts were read, what to record next, and other hosts of the bundle.

import type { Evidence } from './data';
import { h } from './dom';
import { grouped } from './format';

export function evidenceView(evidence: Evidence): HTMLElement {
  const steps = evidence.next.map((step) => h('li', {}, `${step.why}: `, h('code', {}, step.command)));
  const sources = evidence.sources.map((source) => h('tr', {}, h('td', {}, source.name), h('td', {}, source.kinds.join(', ')), h('td', { class: 'number' }, grouped(source.lines))));
  const others = (evidence.others ?? []).map((other) => h('li', {}, `${other.host || 'a host without a name'}: ${other.verdict.text}`));
  return h(
    'section',
    { id: 'moment' },
    h('h2', {}, 'What to do next'),
    h('div', { class: 'panel' }, h('ul', {}, ...steps)),
    others.length ? h('div', { class: 'panel' }, h('h3', {}, 'Other hosts'), h('ul', {}, ...others)) : null,
    h('details', {}, h('summary', {}, 'Texts that were read'), h('table', {}, h('thead', {}, h('tr', {}, h('th', {}, 'Text'), h('th', {}, 'What it is'), h('th', {}, 'Lines'))), h('tbody', {}, ...sources))),
  );
}
