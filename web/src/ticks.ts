// Steps of axes that people can count in.

/** 1, 2 or 5 times a power of ten, and no less than this. */
export function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, Number.MIN_VALUE)));
  const factor = [1, 2, 5, 10].find((one) => one * power >= least * (1 - 1e-9)) ?? 10;
  return factor * power;
}

/** Steps of an axis in seconds or plain numbers, for uPlot. */
export const STEPS: number[] = Array.from({ length: 30 }, (_, i) => i - 12).flatMap((power) => [1, 2, 5].map((factor) => Number(`${factor}e${power}`)));
