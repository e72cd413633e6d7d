// What is below the pointer, told at the pointer. The same words are in a line of the view, for those who do not point.

import { h } from './dom';

let tip: HTMLElement | null = null;

export function showTip(x: number, y: number, text: string): void {
  tip ??= document.body.appendChild(h('div', { class: 'tip', 'aria-hidden': 'true' }));
  if (tip.textContent !== text) tip.textContent = text;
  tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tip;
  const left = x + 16 + width > innerWidth ? Math.max(4, x - 12 - width) : x + 16;
  const top = y + 18 + height > innerHeight ? Math.max(4, y - 10 - height) : y + 18;
  tip.style.left = `${left}px`;
  tip.style.top = `${top}px`;
}

export function hideTip(): void {
  if (tip) tip.hidden = true;
}
