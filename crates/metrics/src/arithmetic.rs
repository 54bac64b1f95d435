//! The arithmetic of metrics. The results equal those of Python's functions with the same names, bit by bit.

/// Rounds a number to decimal digits like Python's `round`: exactly, and to even in a tie.
pub(crate) fn rounded(value: f64, digits: usize) -> f64 {
    if !value.is_finite() {
        return value;
    }
    format!("{value:.digits$}").parse().unwrap_or(value)
}

/// Rounds a number to 6 digits, which removes the noise of binary fractions.
pub(crate) fn plain(value: f64) -> f64 {
    rounded(value, 6)
}

/// Returns the sum, starting from 0. The standard library's sum of an empty sequence is -0.
pub(crate) fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |sum, value| sum + value)
}

/// Returns the exact sum, rounded once, by Shewchuk's partial sums like Python's `math.fsum`.
pub(crate) fn fsum(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut partials: Vec<f64> = Vec::new();
    for mut value in values {
        let mut kept = 0;
        for place in 0..partials.len() {
            let mut other = partials[place];
            if value.abs() < other.abs() {
                std::mem::swap(&mut value, &mut other);
            }
            let high = value + other;
            let low = other - (high - value);
            if low != 0.0 {
                partials[kept] = low;
                kept += 1;
            }
            value = high;
        }
        partials.truncate(kept);
        partials.push(value);
    }
    let Some(mut high) = partials.pop() else { return 0.0 };
    while let Some(next) = partials.pop() {
        let before = high;
        high = before + next;
        let low = next - (high - before);
        if low != 0.0 {
            // In a tie, the next partial sum decides the rounding.
            let same =
                partials.last().is_some_and(|last| (low < 0.0) == (*last < 0.0) && *last != 0.0);
            let twice = low * 2.0;
            let up = high + twice;
            if same && (up - high).to_bits() == twice.to_bits() {
                high = up;
            }
            break;
        }
    }
    high
}

/// Returns the mean, like Python's `statistics.fmean`; `None` for an empty slice.
pub(crate) fn fmean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| fsum(values.iter().copied()) / values.len() as f64)
}

/// Returns the standard deviation of a whole population; `None` for an empty slice. It differs from Python's
/// exact `statistics.pstdev` only by rounding errors.
pub(crate) fn pstdev(values: &[f64]) -> Option<f64> {
    let middle = fmean(values)?;
    let squares = fsum(values.iter().map(|value| (value - middle) * (value - middle)));
    Some((squares / values.len() as f64).sqrt())
}

/// Returns the median, and whether it is one of the values. Returns `None` for an empty slice.
pub(crate) fn median(values: &[f64]) -> Option<(f64, bool)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some((sorted[half], true)),
        _ => Some((f64::midpoint(sorted[half - 1], sorted[half]), false)),
    }
}

/// Returns bytes per seconds as Mbit/s; 0 if no time has passed.
pub(crate) fn mbps(count: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { count * 8e-6 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the bits, because 0 and -0 are different numbers in JSON.
    fn same(found: f64, expected: f64) {
        assert_eq!(found.to_bits(), expected.to_bits(), "{found} is not {expected}");
    }

    #[test]
    fn a_sum_is_exact_and_rounded_once() {
        // Ten tenths are 1 in exact arithmetic; added one by one they are 0.9999999999999999.
        same(fsum([0.1; 10]), 1.0);
        same(fsum([1e100, 1.0, -1e100]), 1.0);
        // The exact sum exceeds 1e16 + 1, half of the last place of 1e16. It is therefore rounded up (from
        // the documentation of Python's `fsum`).
        same(fsum([1e-16, 1.0, 1e16]), 1e16 + 2.0);
        same(fsum([]), 0.0);
        same(sum([]), 0.0);
    }

    #[test]
    fn a_number_is_rounded_on_its_exact_value() {
        // The double nearest to 2.675 is smaller than 2.675. 0.125 is exact, and a tie goes to the even
        // digit.
        same(rounded(2.675, 2), 2.67);
        same(rounded(0.125, 2), 0.12);
        same(rounded(0.375, 2), 0.38);
        same(rounded(f64::INFINITY, 2), f64::INFINITY);
    }

    #[test]
    fn means_deviations_and_medians_of_numbers_by_hand() {
        // The deviations from 5 are -3, -1, -1, -1, 0, 0, 2, 4: their squares have the mean 4.
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!((fmean(&values), pstdev(&values)), (Some(5.0), Some(2.0)));
        assert_eq!(median(&values), Some((4.5, false)));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some((2.0, true)));
        assert_eq!((fmean(&[]), pstdev(&[]), median(&[])), (None, None, None));
        // 1e6 bytes in 2 s are 4 Mbit/s.
        same(mbps(1e6, 2.0), 4.0);
        same(mbps(1e6, 0.0), 0.0);
    }
}
