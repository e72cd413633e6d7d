// Student's distribution, for whole degrees of freedom.

/** The probability that |t| is at most this (Abramowitz and Stegun, 26.7.3 and 26.7.4). */
function within(t: number, freedom: number): number {
  const angle = Math.atan(t / Math.sqrt(freedom));
  const [sine, cosine] = [Math.sin(angle), Math.cos(angle)];
  const isOdd = freedom % 2 === 1;
  let term = isOdd ? cosine : 1;
  let sum = 0;
  for (let power = isOdd ? 1 : 0; power <= freedom - 2; power += 2) {
    sum += term;
    term *= ((power + 1) / (power + 2)) * cosine * cosine;
  }
  return isOdd ? (2 / Math.PI) * (angle + sine * sum) : sine * sum;
}

/** Beyond this number of degrees the distribution hardly changes. */
const MAX_FREEDOM = 1000;

/** Half the width of an interval in standard errors, if it errs with this probability, on both sides together. */
export function quantile(error: number, freedom: number): number {
  if (freedom < 1) return Infinity;
  const degrees = Math.min(MAX_FREEDOM, Math.floor(freedom));
  let [low, high] = [0, 1];
  while (1 - within(high, degrees) > error && high < 1e12) high *= 2;
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (1 - within(middle, degrees) > error) low = middle;
    else high = middle;
  }
  return high;
}
