// The rules' colours and patterns. The colours are Okabe and Ito's, which people with any colour vision can tell apart;
// a pattern says the same again.

export type Pattern = 'solid' | 'up' | 'down' | 'dots' | 'bars' | 'cross';

export interface RuleLook {
  word: string;
  meaning: string;
  colour: string;
  pattern: Pattern;
  /** What is written on it. */
  ink: string;
}

const LOOKS: Omit<RuleLook, 'meaning'>[] = [
  { word: 'class', colour: '#0072b2', pattern: 'solid', ink: '#fff' },
  { word: 'priority', colour: '#00497a', pattern: 'up', ink: '#fff' },
  { word: 'not-preempted', colour: '#a3456f', pattern: 'cross', ink: '#fff' },
  { word: 'order', colour: '#4f9bd0', pattern: 'bars', ink: '#000' },
  { word: 'unranked', colour: '#8c8c8c', pattern: 'dots', ink: '#000' },
  { word: 'weight', colour: '#009e73', pattern: 'up', ink: '#000' },
  { word: 'wakeup-preemption', colour: '#cc79a7', pattern: 'down', ink: '#000' },
  { word: 'count', colour: '#f0e442', pattern: 'bars', ink: '#000' },
  { word: 'fair', colour: '#56b4e9', pattern: 'solid', ink: '#000' },
  { word: 'irq', colour: '#d55e00', pattern: 'solid', ink: '#000' },
  { word: 'softirq', colour: '#e69f00', pattern: 'bars', ink: '#000' },
  { word: 'throttled', colour: '#7b5aa6', pattern: 'cross', ink: '#fff' },
  { word: 'idle', colour: '#b9bec6', pattern: 'dots', ink: '#000' },
  { word: 'unknown', colour: '#8c8c8c', pattern: 'cross', ink: '#000' },
];
const DULL = LOOKS[LOOKS.length - 1];

/** All rules, as the page was given them. */
export let ALL_RULES: RuleLook[] = [];

export function startRules(rules: { word: string; meaning: string }[]): void {
  ALL_RULES = rules.map((rule) => ({ ...DULL, ...LOOKS.find((look) => look.word === rule.word), ...rule }));
}

export function ruleLook(word: string): RuleLook {
  return ALL_RULES.find((rule) => rule.word === word) ?? { ...DULL, meaning: '' };
}

const cache = new Map<string, CanvasPattern | string>();

/** The rule's colour and pattern, to fill with on a canvas. */
export function ruleFill(context: CanvasRenderingContext2D, word: string): CanvasPattern | string {
  const known = cache.get(word);
  if (known) return known;
  const look = ruleLook(word);
  const made = look.pattern === 'solid' ? look.colour : patterned(context, look);
  cache.set(word, made);
  return made;
}

function patterned(context: CanvasRenderingContext2D, look: RuleLook): CanvasPattern | string {
  const size = 8;
  const tile = document.createElement('canvas');
  tile.width = tile.height = size;
  const draw = tile.getContext('2d');
  if (!draw) return look.colour;
  draw.fillStyle = look.colour;
  draw.fillRect(0, 0, size, size);
  draw.strokeStyle = draw.fillStyle = look.ink === '#fff' ? 'rgba(255,255,255,.42)' : 'rgba(0,0,0,.3)';
  draw.lineWidth = 1.6;
  draw.beginPath();
  for (const offset of [-size, 0, size]) {
    if (look.pattern === 'up' || look.pattern === 'cross') {
      draw.moveTo(offset, size);
      draw.lineTo(offset + size, 0);
    }
    if (look.pattern === 'down' || look.pattern === 'cross') {
      draw.moveTo(offset, 0);
      draw.lineTo(offset + size, size);
    }
  }
  if (look.pattern === 'bars') {
    draw.moveTo(size / 2, 0);
    draw.lineTo(size / 2, size);
  }
  draw.stroke();
  if (look.pattern === 'dots') {
    draw.fillRect(1, 1, 2, 2);
    draw.fillRect(5, 5, 2, 2);
  }
  return context.createPattern(tile, 'repeat') ?? look.colour;
}
