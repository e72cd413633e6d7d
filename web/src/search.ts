// A task looked for in all views at once.

import type { App } from './app';
import { h } from './dom';
import { counted } from './format';
import { onState, stateOf } from './state';

export function searchBox(app: App): HTMLElement {
  const said = h('output', { class: 'found', id: 'search-found', 'aria-live': 'polite' });
  const input = h('input', { type: 'search', id: 'search', placeholder: 'Find a task', 'aria-label': 'Find a task by name, thread id, process id or cgroup, in all views', autocomplete: 'off', spellcheck: 'false' });
  input.value = stateOf('q') ?? '';
  const tell = (): void => {
    said.textContent = app.query ? found(app) : '';
  };
  input.addEventListener('input', () => {
    app.search(input.value);
    tell();
  });
  onState(() => {
    if ((stateOf('q') ?? '') === input.value.trim()) return;
    input.value = stateOf('q') ?? '';
    app.search(input.value);
    tell();
  });
  tell();
  return h('div', { class: 'search', role: 'search' }, input, said);
}

function found(app: App): string {
  const tasks = app.trace.actors.name.filter((_, actor) => app.isTask(actor) && app.matches(actor)).length;
  if (tasks === 0) return 'no such task';
  const moments = app.spots.filter((spot) => app.matches(spot.actor, spot.tid)).length;
  return `${counted(tasks, 'kind')} of task, ${counted(moments, 'moment')}`;
}
