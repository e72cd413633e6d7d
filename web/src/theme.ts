// Light, dark, or as the system is; and the colours that canvases draw with.

type Choice = 'auto' | 'light' | 'dark';
const NEXT: Record<Choice, Choice> = { auto: 'dark', dark: 'light', light: 'auto' };
const dark = matchMedia('(prefers-color-scheme: dark)');
const listeners: (() => void)[] = [];
let choice: Choice = 'auto';
let printing = false;

export interface Palette {
  text: string;
  muted: string;
  surface: string;
  grid: string;
  line: string;
  accent: string;
  run: string;
  other: string;
  culprit: string;
  busy: string;
  queue: string;
  isDark: boolean;
}

/** The colours in force. */
export function palette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const value = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    text: value('text'),
    muted: value('muted'),
    surface: value('surface'),
    grid: value('grid'),
    line: value('line'),
    accent: value('accent'),
    run: value('run'),
    other: value('other'),
    culprit: value('culprit'),
    busy: value('busy'),
    queue: value('queue'),
    isDark: document.documentElement.dataset['theme'] === 'dark',
  };
}

/** Calls back when colours change. */
export function onTheme(callback: () => void): void {
  listeners.push(callback);
}

function apply(): void {
  const isDark = !printing && (choice === 'dark' || (choice === 'auto' && dark.matches));
  document.documentElement.dataset['theme'] = isDark ? 'dark' : 'light';
  listeners.forEach((callback) => callback());
}

/** Begins to follow the system, and paper. */
export function startTheme(): void {
  dark.addEventListener('change', apply);
  addEventListener('beforeprint', () => {
    printing = true;
    apply();
  });
  addEventListener('afterprint', () => {
    printing = false;
    apply();
  });
  apply();
}

/** The width of what is printed: A4 less margins, in CSS pixels. */
const PAPER = 680;

/** Calls back with a width before printing, when nothing may wait for a frame any more, and without one afterwards. */
export function onPaper(callback: (width?: number) => void): void {
  addEventListener('beforeprint', () => callback(PAPER));
  addEventListener('afterprint', () => callback());
}

/** A colour of its own for everybody, the same wherever the name appears; pale enough to write on. */
export function ownColour(name: string, isDark: boolean): string {
  let hash = 2166136261;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  const hue = ((hash >>> 8) % 24) * 15;
  const step = (hash >>> 3) % 3;
  return isDark ? `hsl(${hue} ${28 + step * 8}% ${27 + step * 4}%)` : `hsl(${hue} ${48 + step * 10}% ${84 - step * 5}%)`;
}

/** The next of auto, dark, light; returns what it is now. */
export function nextTheme(): Choice {
  choice = NEXT[choice];
  apply();
  return choice;
}
