//! CCPD, CCP with proportional plus derivative control. The papers give its name but no formula, so this is a
//! reconstruction: CCP's law minus Kd times the change of the backlog over the last round trip, `cwnd = (Kp
//! (B - x) - Kd (x - x_a_round_ago) - in_flight) / 2`.

use anabranch_plugin::Parameters;
use anabranch_units::RandomStream;

use super::CongestionController;
use super::ccp::{Ccp, Derivative};

pub(super) fn build(
    parameters: &mut Parameters<'_>,
    _random: RandomStream,
) -> Box<dyn CongestionController> {
    let gain = parameters.number("kd", 0.5, 0.0..=10.0);
    Box::new(Ccp::new(parameters, Some(Derivative::new(gain))))
}
