//! How busy a made-up film is as it goes on: the walk behind the sizes of pictures and chunks.

use anabranch_units::RandomStream;

/// Content as a walk in the logarithm that returns to the mean within some ten seconds, with a new
/// scene every ten seconds or so.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Content {
    level: f64,
}

impl Content {
    /// How busy the content is after another `period` seconds, as a logarithm.
    pub(crate) fn next(&mut self, random: &mut RandomStream, period: f64) -> f64 {
        let memory = (-period / 8.0).exp();
        let stir = 0.42 * (1.0 - memory * memory).sqrt();
        self.level = if random.chance(period / 10.0) {
            0.42 * random.standard_normal()
        } else {
            memory * self.level + stir * random.standard_normal()
        };
        // The encoder's rate control (VBV) caps what the busiest scene may cost.
        f64::clamp(self.level, -1.0, 0.72)
    }
}
