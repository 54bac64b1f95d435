// Means and 95 % confidence intervals of paired runs.

// Student's t for a two-sided interval of 95 %, by degrees of freedom from 1 (any table of statistics).
const T = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131,
  2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042];

// Returns the mean of numbers and half the width of its interval; null for a number that is missing.
export function interval(values) {
  const known = values.filter((value) => value !== null && value !== undefined && Number.isFinite(value));
  if (!known.length) return { mean: null, half: null, count: 0 };
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  if (known.length === 1) return { mean, half: null, count: 1 };
  const square = known.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (known.length - 1);
  const t = T[Math.min(known.length - 1, T.length) - 1];
  return { mean, half: t * Math.sqrt(square / known.length), count: known.length };
}

// Returns the interval of the differences of pairs.
export function difference(ours, others) {
  const pairs = ours.map((value, n) => (value === null || others[n] === null || others[n] === undefined ? null : value - others[n]));
  return interval(pairs);
}
