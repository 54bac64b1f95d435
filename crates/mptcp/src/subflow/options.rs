//! The use of the 40 bytes of TCP options on segments after the SYNs, other than timestamps
//! (`tcp/src/header.rs`) and DSS (`context.rs`).
//!
//! Options are added in this order:
//!
//! 1. the option of the third packet, which replaces the DSS until the peer confirms it; no queued signal is
//!    sent with it;
//! 2. a queued `ADD_ADDR`, on an acknowledgement without a DSS, and without timestamps if both do not fit;
//! 3. the other queued signals, as many as fit next to the DSS; a `DATA_FIN`, which is repeated anyway, is
//!    removed if the first signal does not fit otherwise; the rest waits for the next acknowledgement;
//! 4. SACK blocks, as many as then fit.

use anabranch_wire::Segment;

use super::{EmitContext, Subflow};

impl Subflow {
    /// Adds options to a segment that has its timestamps, DSS and payload. A `pure` acknowledgement has no
    /// payload and no FIN.
    #[inline]
    pub(crate) fn add_options(&mut self, segment: &mut Segment, pure: bool) {
        self.context.add_options(segment, pure);
        self.tcp.add_reports(segment);
    }

    /// Writes the pure acknowledgement or window probe that is due. Returns whether a segment was written.
    pub(crate) fn next_pure_ack(&mut self, context: &EmitContext, segment: &mut Segment) -> bool {
        let signals = self.signal_due();
        if let Some(first) = self.tcp.next_first_ack(&context.tcp, segment) {
            self.add_data_ack(context, segment);
            self.add_options(segment, true);
            self.tcp.receive_mut().on_first_ack_sent(first);
            return true;
        }
        if !self.tcp.next_bare_ack(&context.tcp, signals, segment) {
            return false;
        }
        self.add_data_ack(context, segment);
        if let Some(at) = context.data_fin.filter(|_| self.is_multipath()) {
            self.context.add_data_fin(segment, at, context, self.stack.short_data_numbers);
        }
        self.add_options(segment, true);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use anabranch_units::{DataSeq, Instant, Seed, SeqNumber, SubflowId};
    use anabranch_wire::{
        AddAddr, CapableKeys, DataAck, Flags, MAX_OPTIONS_LEN, MpCapable, MpJoin, MpTcpRst,
        MptcpOption, RemoveAddr, SackBlocks, Timestamps,
    };
    use bytes::Bytes;

    use super::super::Reset;
    use super::super::deliver::Terms;
    use super::*;
    use crate::config::Config;
    use anabranch_congestion as congestion;
    use anabranch_plugin::Registry;
    use anabranch_tcp::config::{FourTuple, HostModel};
    use anabranch_tcp::receive_buffer::Load;
    use anabranch_tcp::{self as tcp, Space};

    /// Bytes of a SACK block (RFC 2018 section 3). The option has four more bytes.
    const SACK_BLOCK: usize = 8;

    /// The content of a segment, and the queued options.
    struct Situation {
        timestamps: bool,
        data_ack: Option<DataAck>,
        data_fin: bool,
        checksum: bool,
        third: Option<MptcpOption>,
        posted: Vec<MptcpOption>,
        runs: u32,
        duplicate: bool,
        payload: usize,
        fin: bool,
    }

    fn announcements() -> Vec<MptcpOption> {
        let addresses: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let mut all = Vec::new();
        for address in addresses {
            for port in [None, Some(81)] {
                for hmac in [None, Some(1)] {
                    all.push(MptcpOption::AddAddr(AddAddr { address_id: 1, address, port, hmac }));
                }
            }
        }
        all
    }

    fn signals() -> Vec<Vec<MptcpOption>> {
        let prio = MptcpOption::Prio { backup: true };
        let fail = MptcpOption::Fail { dsn: DataSeq(1) };
        let fast_close = MptcpOption::FastClose { key: 1 };
        let remove = |n: usize| MptcpOption::RemoveAddr(RemoveAddr::new(&vec![1; n]).unwrap());
        let reset = MptcpOption::TcpRst(MpTcpRst { transient: false, reason: 1 });
        let mut all = vec![
            vec![],
            vec![prio],
            vec![fail],
            vec![fast_close],
            vec![reset],
            vec![remove(1)],
            vec![remove(8)],
            vec![prio, fail, remove(8), fast_close, reset],
            vec![remove(8), fast_close, fail, prio],
        ];
        for add in announcements() {
            all.push(vec![add]);
            all.push(vec![prio, add, fail]);
            all.push(vec![add, remove(3), add]);
        }
        all
    }

    fn thirds() -> Vec<Option<MptcpOption>> {
        let keys = CapableKeys::Both { initiator: 1, responder: 2 };
        let capable = MpCapable { checksum_required: true, ..MpCapable::with_keys(keys) };
        vec![
            None,
            Some(MptcpOption::Capable(capable)),
            Some(MptcpOption::Join(MpJoin::Ack { hmac: [0; 20] })),
        ]
    }

    fn subflow(situation: &Situation) -> Subflow {
        let config = Config::default();
        let address = |host| (Ipv4Addr::new(10, 0, 0, host), 80).into();
        let tuple = FourTuple { local: address(1), remote: address(2) };
        let stream = Seed { seed: 1, run: 0 }.stream("options");
        let controller = congestion::build(&config.congestion, &Registry::TABLES, stream).unwrap();
        let mut subflow =
            Subflow::new(SubflowId(0), tuple, true, SeqNumber(1), controller, &config);
        let stamps = Some(Timestamps::default()).filter(|_| situation.timestamps);
        let syn = Segment {
            flags: Flags::SYN,
            window: 65_535,
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: stamps,
            ..Segment::default()
        };
        subflow.answer_syn(&syn, &config, None, None);
        assert!(subflow.next_handshake_segment(Instant::ZERO, &config, &mut Segment::default()));
        subflow.take_syn_ack(&config.host, Instant::ZERO, &syn);
        subflow.begin_multipath();
        // The bytes that `Connection::update_segment_size` computes.
        let data_ack = if matches!(situation.data_ack, Some(DataAck::Long(_))) { 8 } else { 4 };
        let dss: u32 = 4 + data_ack + 14 + if situation.checksum { 2 } else { 0 };
        subflow.tcp.update_mss(dss.next_multiple_of(4));
        if let Some(third) = situation.third {
            subflow.context.third_mut().set(third);
        }
        for option in &situation.posted {
            subflow.context.signals_mut().push(*option);
        }
        subflow
    }

    /// Receives out-of-order ranges, the latest first, and a duplicate.
    fn receive(subflow: &mut Subflow, situation: &Situation) {
        let mut up = |_, _, _| {};
        let terms = Terms { near: 0, checksum: false, whole: false };
        for run in 0..situation.runs {
            let seq = SeqNumber(1 + 100 + 200 * run);
            let payload = Bytes::from(vec![0; 100]);
            let segment = Segment { seq, flags: Flags::ACK, payload, ..Segment::default() };
            let load = Load::of(&segment, None);
            subflow.handle_payload(Instant::ZERO, &segment, load, terms, Space::default(), &mut up);
        }
        if situation.duplicate {
            // A payload at the sequence number of the SYN, which was received before.
            let payload = Bytes::from_static(b"x");
            let segment =
                Segment { seq: SeqNumber(0), flags: Flags::ACK, payload, ..Segment::default() };
            let load = Load::of(&segment, None);
            subflow.handle_payload(Instant::ZERO, &segment, load, terms, Space::default(), &mut up);
        }
    }

    fn context(situation: &Situation) -> EmitContext {
        EmitContext {
            tcp: tcp::EmitContext {
                now: Instant::ZERO,
                space: Space { free: 100_000, allowed: 100_000, ..Space::default() },
                promised: None,
            },
            data_ack: situation.data_ack,
            dsn_base: 1,
            data_fin: situation.data_fin.then_some(situation.payload as u64),
            checksum: situation.checksum,
        }
    }

    /// Builds a segment in the same way as the connection (`Connection::poll_subflow`).
    fn made(situation: &Situation) -> Segment {
        let mut subflow = subflow(situation);
        receive(&mut subflow, situation);
        let context = context(situation);
        let host = HostModel::default();
        let mut segment = Segment::default();
        if situation.payload > 0 || situation.fin {
            if situation.payload > 0 {
                subflow.tcp.supply().queue(Bytes::from(vec![0; situation.payload]), 0);
            }
            if situation.fin {
                subflow.tcp.supply().queue_fin();
            }
            assert!(subflow.next_data_segment(&host, &context, &mut segment));
            subflow.add_options(&mut segment, false);
        } else {
            subflow.tcp.demand_ack();
            assert!(subflow.next_pure_ack(&context, &mut segment));
        }
        segment
    }

    /// Calls `look` with all combinations of options. Numbers that do not matter take only their smallest and
    /// largest values.
    fn situations(mut look: impl FnMut(&Situation)) {
        let acks = [None, Some(DataAck::Short(1)), Some(DataAck::Long(DataSeq(1)))];
        let bits = |n: u32, bit: u32| n >> bit & 1 == 1;
        for third in thirds() {
            for posted in signals() {
                for data_ack in acks {
                    for n in 0..32 {
                        for runs in 0..=5 {
                            for payload in [0, 1, 1000, 100_000] {
                                look(&Situation {
                                    timestamps: bits(n, 0),
                                    data_ack,
                                    data_fin: bits(n, 1),
                                    checksum: bits(n, 2),
                                    third,
                                    posted: posted.clone(),
                                    runs,
                                    duplicate: bits(n, 3),
                                    payload,
                                    fin: bits(n, 4),
                                });
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn no_segment_has_more_options_than_fit_and_the_right_ones_give_way() {
        let mut seen = 0_u32;
        situations(|situation| {
            let segment = made(situation);
            seen += 1;
            let room = MAX_OPTIONS_LEN.checked_sub(segment.options_len());
            let Some(room) = room else {
                panic!("{} bytes: {:?}", segment.options_len(), (segment.dss, segment.mptcp))
            };
            let size = segment.options_len() + segment.payload.len();
            assert!(size <= 1460, "{size} bytes behind the headers: {:?}", segment.mptcp);
            let carries = !segment.payload.is_empty();
            let third = situation.third.is_some();
            let announces = matches!(segment.mptcp[..], [MptcpOption::AddAddr(_)]);
            if third && !carries {
                assert_eq!(segment.mptcp, [situation.third.unwrap()]);
                assert!(segment.dss.is_none());
            } else if !announces && situation.data_ack.is_some() && segment.mptcp.is_empty() {
                let dss = segment.dss.expect("a DSS goes before SACK");
                assert_eq!(
                    (dss.data_ack, dss.mapping.is_some()),
                    (situation.data_ack, carries || (situation.data_fin && !situation.fin),)
                );
            }
            if !carries && !situation.fin && !third {
                // The first of the queued options is sent, and alone if it is an `ADD_ADDR`.
                assert_eq!(segment.mptcp.first(), situation.posted.first());
                let adds = segment.mptcp.iter().any(|o| matches!(o, MptcpOption::AddAddr(_)));
                assert!(!adds || segment.mptcp.len() == 1);
                assert!(segment.timestamps.is_some() || !situation.timestamps || announces);
            }
            // SACK blocks fill the remaining space.
            let wanted = (situation.runs + u32::from(situation.duplicate)).min(4) as usize;
            let blocks = segment.sack.as_slice().len();
            let full = segment.options_len() + segment.payload.len() + SACK_BLOCK > 1460;
            let next = if blocks == 0 { 4 + SACK_BLOCK } else { SACK_BLOCK };
            assert!(blocks == wanted || room < next || full, "{blocks} blocks beside {room}");
        });
        assert!(seen > 100_000);
    }

    #[test]
    fn reset_has_room_for_all_its_options() {
        let reason = Some(MptcpOption::TcpRst(MpTcpRst { transient: false, reason: 0 }));
        let none = Situation {
            timestamps: true,
            data_ack: None,
            data_fin: false,
            checksum: false,
            third: None,
            posted: Vec::new(),
            runs: 0,
            duplicate: false,
            payload: 0,
            fin: false,
        };
        let mut subflow = subflow(&none);
        subflow.demand_reset(Reset { fast_close: Some(1), reason });
        let mut segment = Segment { sack: SackBlocks::EMPTY, ..Segment::default() };
        assert!(subflow.take_reset(&mut segment));
        assert_eq!(segment.options_len(), 16);
    }

    #[test]
    fn the_third_packet_of_a_join_has_the_subflows_own_window() {
        // mptcp_write_options calls `mptcp_set_rwin` only for a DSS with `ack64` or `ack32`.
        let window = |third: Option<MptcpOption>| {
            let mut subflow = super::super::fixture::subflow();
            subflow.begin_multipath();
            if let Some(third) = third {
                subflow.context.third_mut().set(third);
            }
            let space = Space { free: 65_536, allowed: 65_536, ..Space::default() };
            let mut context = super::super::fixture::context(Instant::ZERO);
            context.tcp.space = space;
            context.tcp.promised = subflow.shared_window(100_000);
            let mut segment = Segment::default();
            assert!(subflow.next_pure_ack(&context, &mut segment));
            u64::from(segment.window) << 7
        };
        // 64 segments of 1012 bytes. The promised window is rounded down to whole units of the window scale.
        let join = MptcpOption::Join(MpJoin::Ack { hmac: [0; 20] });
        assert_eq!(window(Some(join)), 64 * 1012);
        assert_eq!(window(None), 99_968);
    }
}
