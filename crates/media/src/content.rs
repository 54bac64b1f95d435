//! The content model of synthetic films: a random walk that determines the sizes of pictures and
//! chunks.

use anabranch_units::RandomStream;

/// The complexity of the content. Its logarithm is a random walk.
///
/// The walk returns to its mean with a time constant of 8 s. A new scene begins every 10 s on
/// average.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Content {
    level: f64,
}

impl Content {
    /// Returns the logarithm of the content's complexity after another `period` seconds.
    pub(crate) fn next(&mut self, random: &mut RandomStream, period: f64) -> f64 {
        let memory = (-period / 8.0).exp();
        let stir = 0.42 * (1.0 - memory * memory).sqrt();
        self.level = if random.chance(period / 10.0) {
            0.42 * random.standard_normal()
        } else {
            memory * self.level + stir * random.standard_normal()
        };
        // The encoder's rate control (VBV) limits the size of the most complex scenes.
        f64::clamp(self.level, -1.0, 0.72)
    }
}
