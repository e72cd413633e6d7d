// Mouse, pen and fingers on a canvas: drag moves, two fingers or Ctrl with the wheel zoom, a tap selects.

export interface Gestures {
  zoom: (factor: number, x: number) => void;
  pan: (pixels: number) => void;
  tap: (x: number, y: number) => void;
  hover: (x: number, y: number, event: PointerEvent) => void;
  leave: () => void;
}

interface Point {
  x: number;
  y: number;
}

export function gestures(element: HTMLElement, act: Gestures): void {
  const fingers = new Map<number, Point>();
  let moved = 0;
  const at = (event: PointerEvent | WheelEvent): Point => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  element.addEventListener('pointerdown', (event) => {
    fingers.set(event.pointerId, at(event));
    element.setPointerCapture(event.pointerId);
    moved = 0;
  });
  element.addEventListener('pointermove', (event) => {
    const now = at(event);
    const before = fingers.get(event.pointerId);
    if (!before) {
      act.hover(now.x, now.y, event);
      return;
    }
    moved += Math.hypot(now.x - before.x, now.y - before.y);
    if (fingers.size === 1) {
      act.pan(now.x - before.x);
    } else {
      const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
      if (other) pinch(act, before, now, other);
    }
    fingers.set(event.pointerId, now);
  });
  const lift = (event: PointerEvent): void => {
    const last = fingers.get(event.pointerId);
    if (last && fingers.size === 1 && moved < 5 && event.type === 'pointerup') act.tap(last.x, last.y);
    fingers.delete(event.pointerId);
  };
  element.addEventListener('pointerleave', () => act.leave());
  element.addEventListener('pointerup', lift);
  element.addEventListener('pointercancel', lift);
  element.addEventListener('dblclick', (event) => act.zoom(1 / 2, at(event as PointerEvent).x));
  element.addEventListener(
    'wheel',
    (event) => {
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      // The wheel alone scrolls the page, as everywhere else.
      if (!sideways && !event.ctrlKey && !event.metaKey && !event.shiftKey) return;
      event.preventDefault();
      if (sideways) act.pan(-event.deltaX);
      else if (event.shiftKey) act.pan(-event.deltaY);
      else act.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.01), at(event).x);
    },
    { passive: false },
  );
}

function pinch(act: Gestures, before: Point, now: Point, other: Point): void {
  const was = Math.max(12, Math.abs(before.x - other.x));
  const is = Math.max(12, Math.abs(now.x - other.x));
  act.zoom(was / is, (now.x + other.x) / 2);
  act.pan((now.x - before.x) / 2);
}
