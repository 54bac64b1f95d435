//! BOLA-BASIC: Spiteri, Urgaonkar, Sitaraman, "BOLA: Near-Optimal Bitrate Adaptation for Online
//! Videos" (INFOCOM 2016).

use anabranch_plugin::Parameters;

use super::{AbrDecision, AbrRule, AbrView};

/// The BOLA rule, which maximises (V (v + γp) - Q) / S over the renditions.
///
/// v is the logarithm of the rate divided by the lowest rate, Q the buffer in chunks, and S the
/// chunk size. V is chosen so that nothing is fetched when the buffer is full.
#[derive(Debug)]
pub(super) struct Bola {
    gamma_p: f64,
    buffer_s: Option<f64>,
}

impl Bola {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn AbrRule> {
        // The paper's experiments and Sabre use γp = 5.
        let gamma_p = parameters.number("gamma_p", 5.0, 0.01..=1000.0);
        let buffer_s = parameters.number_or("buffer_s", None, 0.1..=3600.0, "player");
        Box::new(Self { gamma_p, buffer_s })
    }
}

impl AbrRule for Bola {
    fn choose(&mut self, view: &AbrView<'_>) -> AbrDecision {
        let utility = |at: usize| (view.mean_bps(at) / view.mean_bps(0)).ln();
        let highest = view.renditions() - 1;
        let chunk_s = view.chunk_s(0);
        // The capacity is at least two chunks. For one chunk or less, V would be zero or negative.
        let capacity = (self.buffer_s.unwrap_or(view.max_buffer_s) / chunk_s).max(2.0);
        let most = utility(highest) + self.gamma_p;
        let v = (capacity - 1.0) / most;
        let held = view.buffer_s / chunk_s;
        let worth = |at: usize| v * (utility(at) + self.gamma_p) - held;
        if worth(highest) < 0.0 {
            return AbrDecision::Wait(-worth(highest) * chunk_s);
        }
        let score = |at: usize| worth(at) / view.mean_bps(at);
        AbrDecision::Fetch(
            (1..=highest).fold(0, |best, at| if score(best) <= score(at) { at } else { best }),
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::abr::AbrDecision::{Fetch, Wait};
    use crate::abr::testing::{ask, ladder, rule};

    /// With 1 and 4 Mb/s, chunks of 4 s and a buffer of 30 s, V = 6.5 / (ln 4 + 5) = 1.01782. Both
    /// scores are equal at Q = V (5 - ln 4 / 3) = 4.6188 chunks, that is, 18.475 s. Above 6.5
    /// chunks (26 s), the rule fetches nothing.
    #[test]
    fn the_buffer_selects_the_rendition() {
        let ladder = ladder(&[1_000_000, 4_000_000]);
        let mut rule = rule(r#"{"name":"bola"}"#);
        for (buffer, rendition) in [(0.0, 0), (18.47, 0), (18.48, 1), (25.9, 1)] {
            assert_eq!(ask(&mut *rule, &ladder, (1, Some(0)), buffer), Fetch(rendition));
        }
        let Wait(seconds) = ask(&mut *rule, &ladder, (1, Some(1)), 27.5) else {
            panic!("a full buffer must delay the next request");
        };
        assert!((seconds - 1.5).abs() < 1e-9, "{seconds} s until 26 s are left");
    }
}
