//! Statistics for the tests of the models.

/// Returns the value below which this share of the values lies.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the correlation of the values with those `lag` places later.
pub(crate) fn autocorrelation(values: &[f64], lag: usize) -> f64 {
    let mean = mean(values);
    let off = |value: &f64| value - mean;
    let variance = values.iter().map(|v| off(v) * off(v)).sum::<f64>() / values.len() as f64;
    let products = values.iter().zip(&values[lag..]).map(|(a, b)| off(a) * off(b));
    products.sum::<f64>() / (values.len() - lag) as f64 / variance
}

#[track_caller]
pub(crate) fn assert_close(what: &str, value: f64, expected: f64, tolerance: f64) {
    assert!(
        (value - expected).abs() <= tolerance,
        "{what}: {value:.4}, expected {expected} within {tolerance}"
    );
}
