// What is looked at, as the part of the address behind `#`: so that it can be sent to somebody, and survives a reload.
//
// `#moment&w=812000000-812098000-1&v=0-98000`: the section first, then what each view keeps.

export type Key = 'r' | 'w' | 'v' | 'z' | 'rule' | 'cpu' | 'cgroup' | 'q' | 'kernel' | 'label' | 'sort';

const values = new Map<string, string>();
const listeners = new Set<() => void>();
let section = '';

function read(): void {
  values.clear();
  section = '';
  for (const part of location.hash.slice(1).split('&')) {
    const at = part.indexOf('=');
    if (at < 0) section = part;
    else values.set(part.slice(0, at), decode(part.slice(at + 1)));
  }
}

/** Somebody may have typed it. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

function write(): string {
  const pairs = [...values].map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
  return [section, ...pairs].filter(Boolean).join('&');
}

/** What the address says; nothing if it does not. */
export function stateOf(key: Key): string | null {
  return values.get(key) ?? null;
}

/** Two numbers, `FROM-TO`. */
export function rangeOf(key: Key): [number, number] | null {
  const numbers = (stateOf(key) ?? '').split('-').map(Number);
  return numbers.length === 2 && numbers.every(Number.isFinite) && numbers[1] > numbers[0] ? [numbers[0], numbers[1]] : null;
}

/** Puts what is looked at into the address, without a step in the history. */
export function keep(key: Key, value: string | null): void {
  if ((values.get(key) ?? null) === value) return;
  if (value === null) values.delete(key);
  else values.set(key, value);
  put();
}

function put(): void {
  const hash = write();
  history.replaceState(null, '', hash ? `#${hash}` : location.pathname + location.search);
}

/** Calls back when somebody follows a link to another state of this page. */
export function onState(callback: () => void): void {
  listeners.add(callback);
}

/** Forgets who listened: another recording is shown. */
export function clearState(): void {
  listeners.clear();
  for (const key of [...values.keys()]) if (key !== 'r') values.delete(key);
}

export function startState(): void {
  read();
  addEventListener('hashchange', () => {
    const before = new Map(values);
    read();
    // A link to a section says nothing about the rest: that stays.
    if (values.size === 0 && before.size > 0) {
      before.forEach((value, key) => values.set(key, value));
      put();
      return;
    }
    listeners.forEach((callback) => callback());
  });
}
