// A section that is one line until it is opened.

import { h } from './dom';

/** Leaves the section's heading; the rest is shown, and drawn, when it is opened. */
export function folded([view, ready]: [HTMLElement, () => void]): [HTMLElement, () => void] {
  const [title, ...rest] = [...view.children];
  let isReady = false;
  const details = h('details', { class: 'folded' }, h('summary', {}, title), ...rest);
  view.replaceChildren(details);
  // Charts measure the room that they have: there is none before.
  details.addEventListener('toggle', () => {
    if (!details.open || isReady) return;
    isReady = true;
    ready();
  });
  return [view, () => {}];
}

/** Opens a section, if it is one that can be. */
export function unfold(id: string): void {
  const details = document.getElementById(id)?.querySelector<HTMLDetailsElement>('details.folded');
  if (details) details.open = true;
}

/** Opens the section that the address names. */
export function unfoldNamed(): void {
  const [id] = location.hash.slice(1).split('&');
  if (id) unfold(id);
}
