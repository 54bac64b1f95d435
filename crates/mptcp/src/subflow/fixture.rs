//! A subflow for unit tests: plain TCP, established, with segments of a thousand bytes.

use anabranch_congestion as congestion;
use anabranch_plugin::{PluginChoice, Registry};
use anabranch_units::{Duration, Instant, Seed, SeqNumber, SubflowId};
use anabranch_wire::{Flags, Segment, Timestamps};

use super::{EmitContext, Subflow};
use crate::config::Config;
use anabranch_tcp::config::{FourTuple, HostModel};
use anabranch_tcp::{self as tcp, Space};

pub(super) fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Returns a host whose timers are not rounded to ticks.
pub(super) fn exact() -> HostModel {
    HostModel { timer_tick: Duration::ZERO, ..HostModel::default() }
}

/// Returns the connection's values for a segment on plain TCP.
pub(super) fn context(now: Instant) -> EmitContext {
    EmitContext {
        tcp: tcp::EmitContext { now, space: Space::default(), promised: None },
        data_ack: None,
        dsn_base: 1,
        data_fin: None,
        checksum: false,
    }
}

/// Returns a subflow with an RTT of 100 ms whose handshake is complete.
pub(super) fn subflow() -> Subflow {
    let end = |host: u8| ([10, 0, 0, host], 80).into();
    let tuple = FourTuple { local: end(1), remote: end(2) };
    let config = Config { mss: 1012, host: exact(), ..Config::default() };
    let stream = Seed { seed: 1, run: 0 }.stream("subflow");
    let reno = PluginChoice::named("reno");
    let controller = congestion::build(&reno, &Registry::TABLES, stream).expect("a known name");
    let mut subflow = Subflow::new(SubflowId(0), tuple, true, SeqNumber(0), controller, &config);
    subflow.demand_syn(None);
    assert!(subflow.next_handshake_segment(at(0), &config, &mut Segment::default()));
    let syn_ack = Segment {
        ack: SeqNumber(1),
        flags: Flags::SYN.with(Flags::ACK),
        window: 65_535,
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps::default()),
        ..Segment::default()
    };
    subflow.tcp.on_peer_syn(&syn_ack, &config.tcp());
    subflow.take_syn_ack(&exact(), at(100), &syn_ack);
    subflow.context.complete();
    subflow
}
