// Tables that no page is too narrow for: where columns have no room, style.css makes a card of each row, and each cell names its column.

import { h } from '../dom';

export interface Head {
  name: string;
  isNumber?: boolean;
  /** Text that needs a line of its own in a card. */
  isWords?: boolean;
  /** What stands in the heading, if not its name. */
  content?: HTMLElement;
  isRank?: boolean;
}

/** Rows begin with a heading of their own. */
export function table(id: string | null, heads: Head[], rows: HTMLTableRowElement[], kind = ''): HTMLElement {
  for (const row of rows)
    [...row.cells].forEach((cell, i) => {
      if (cell.tagName === 'TD') cell.dataset['head'] = middle(heads[i].name, LONGEST_HEAD);
      if (heads[i].isWords) cell.classList.add('words');
    });
  const head = ({ name, isNumber, content, isRank }: Head): HTMLElement => h('th', { scope: 'col', class: isNumber ? 'number' : null, 'aria-sort': isRank ? 'descending' : null }, content ?? name);
  return h('div', { class: `scroll rows ${kind}`.trim(), role: 'region', 'aria-label': heads.map(({ name }) => name).join(', ') }, h('table', { id }, h('thead', {}, h('tr', {}, ...heads.map(head))), h('tbody', {}, ...rows)));
}

/** Characters of a heading; the whole is its title. */
export const LONGEST_HEAD = 40;
/** Of a name in a row. */
export const LONGEST_NAME = 60;

/** A long text without its middle: names of cgroups differ at both ends. */
export function middle(text: string, most: number): string {
  const characters = [...text];
  if (characters.length <= most) return text;
  const end = Math.floor((most - 1) / 2);
  return `${characters.slice(0, most - 1 - end).join('')}…${characters.slice(-end).join('')}`;
}

/** A name that may be broken after what parts it, before it is broken anywhere else. */
export function name(text: string, most: number): HTMLElement {
  const shown = middle(text, most);
  const parts = shown.split(/(?<=[^/.:_-][/.:_-])/u);
  return h('span', { title: shown === text ? null : text }, ...parts.flatMap((part, i) => (i ? [document.createElement('wbr'), part] : [part])));
}
