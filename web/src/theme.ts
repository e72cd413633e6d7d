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

/** The next of auto, dark, light; returns what it is now. */
export function nextTheme(): Choice {
  choice = NEXT[choice];
  apply();
  return choice;
}
