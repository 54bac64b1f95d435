//! Random loss: independent (Bernoulli), or in bursts (Gilbert-Elliott).

use crate::ConfigError;

/// A model of random loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossModel {
    /// Each packet is lost with this probability, independently.
    Bernoulli(f64),
    /// A chain with two states that changes state at most once per packet (Gilbert 1960, Elliott 1963). The letters are
    /// those of `gemodel` in `tc-netem`, which takes 1-h and 1-k instead of h and k.
    ///
    /// The fraction of packets in the bad state is p / (p + r). A visit to the bad state lasts 1 / r packets on
    /// average. In the simple Gilbert model, h = 0 and k = 1: the bad state loses every packet and the good state
    /// none. The chain starts in the good state.
    GilbertElliott {
        /// The probability of a change from the good state to the bad one.
        p: f64,
        /// The probability of a change from the bad state to the good one.
        r: f64,
        /// The probability that a packet survives in the bad state.
        h: f64,
        /// The probability that a packet survives in the good state.
        k: f64,
    },
}

impl LossModel {
    /// Returns the fraction of packets lost in the long run. A chain must be able to change state (p + r > 0).
    pub fn mean_loss(self) -> f64 {
        match self {
            Self::Bernoulli(probability) => probability,
            Self::GilbertElliott { p, r, h, k } => {
                let bad = p / (p + r);
                bad * (1.0 - h) + (1.0 - bad) * (1.0 - k)
            }
        }
    }

    pub(crate) fn check(self) -> Result<(), ConfigError> {
        let within = |parameter, value: f64| {
            if (0.0..=1.0).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::Probability { parameter, value })
            }
        };
        match self {
            Self::Bernoulli(probability) => within("loss.bernoulli", probability),
            Self::GilbertElliott { p, r, h, k } => {
                within("loss.p", p)?;
                within("loss.r", r)?;
                within("loss.h", h)?;
                within("loss.k", k)
            }
        }
    }
}

/// A loss model and its state.
#[derive(Clone, Debug)]
pub(crate) struct LossProcess {
    model: LossModel,
    bad: bool,
}

impl LossProcess {
    pub(crate) fn new(model: LossModel) -> Self {
        if let Err(error) = model.check() {
            panic!("{error}");
        }
        Self { model, bad: false }
    }

    /// Returns whether the next packet is lost. `luck` is 64 random bits.
    ///
    /// Every model takes exactly one draw per packet. The draw of the n-th packet therefore does not depend on earlier
    /// fates. Gilbert-Elliott uses 32 bits for the loss and 32 bits for the change of state.
    pub(crate) fn strikes(&mut self, luck: u64) -> bool {
        match self.model {
            LossModel::Bernoulli(probability) => {
                ((luck >> 11) as f64) < probability * (1u64 << 53) as f64
            }
            LossModel::GilbertElliott { p, r, h, k } => {
                // The order is that of netem's `loss_gilb_ell` (net/sched/sch_netem.c). The present state decides
                // whether this packet is lost, and the new state applies to the next packet.
                let loss_bits = luck >> 32;
                let move_bits = luck & 0xffff_ffff;
                let (leave, survive) = if self.bad { (r, h) } else { (p, k) };
                self.bad ^= below(move_bits, leave);
                !below(loss_bits, survive)
            }
        }
    }
}

/// Returns true with the given probability. `bits` is a random number of 32 bits.
fn below(bits: u64, probability: f64) -> bool {
    (bits as f64) < probability * (1u64 << 32) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certainty_is_certain() {
        for luck in [0, u64::MAX] {
            assert!(LossProcess::new(LossModel::Bernoulli(1.0)).strikes(luck));
            assert!(!LossProcess::new(LossModel::Bernoulli(0.0)).strikes(luck));
            let alternating = LossModel::GilbertElliott { p: 1.0, r: 1.0, h: 0.0, k: 1.0 };
            let mut process = LossProcess::new(alternating);
            let losses: Vec<bool> = (0..4).map(|_| process.strikes(luck)).collect();
            assert_eq!(losses, [false, true, false, true]);
        }
    }

    #[test]
    fn probabilities_outside_the_unit_interval_are_refused() {
        let model = LossModel::GilbertElliott { p: 0.1, r: 1.5, h: 0.0, k: 1.0 };
        assert_eq!(
            model.check(),
            Err(ConfigError::Probability { parameter: "loss.r", value: 1.5 })
        );
        assert!(LossModel::Bernoulli(f64::NAN).check().is_err());
    }

    #[test]
    fn mean_loss_is_the_stationary_one() {
        let model = LossModel::GilbertElliott { p: 0.01, r: 0.19, h: 0.2, k: 0.9 };
        assert!((model.mean_loss() - (0.05 * 0.8 + 0.95 * 0.1)).abs() < 1e-12);
    }
}
