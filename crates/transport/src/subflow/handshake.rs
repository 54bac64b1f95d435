//! Opening a subflow: SYN, SYN/ACK and third packet with their MPTCP options (RFC 9293 section 3.5,
//! RFC 8684 sections 3.1 and 3.2), retransmitted as Linux does.

use anabranch_units::{DataSeq, Duration, Instant, SeqNumber};
use anabranch_wire::{Dss, Flags, Mapping, MptcpOption, Segment, Timestamps};
use bytes::Bytes;

use super::negotiated::Agreed;
use super::sending::rtt::RTO_INITIAL;
use super::sending::rtt::timestamp_clock;
use super::sending::timers::missing_retries;

use super::{EmitContext, State, Subflow};
use crate::config::{Config, HostModel, MSS_MIN};
use anabranch_congestion::Opened;

/// SYN retransmissions with doubling waits before giving up (`tcp_syn_retries`).
const SYN_RETRIES: u32 = 6;
/// SYN retransmissions a second apart that come before those (`tcp_syn_linear_timeouts`); a SYN/ACK has none.
const SYN_LINEAR: u32 = 4;
/// SYN/ACK retransmissions before giving up (`tcp_synack_retries`).
pub(crate) const SYN_ACK_RETRIES: u32 = 5;
/// SYNs with `MP_CAPABLE` before the option is dropped (Linux's blackhole detection).
const CAPABLE_SYNS: u32 = 3;

/// The handshake's options and timer.
#[derive(Debug)]
pub(crate) struct Handshake {
    /// MPTCP option of our SYN or SYN/ACK.
    pub(crate) first: Option<MptcpOption>,
    /// MPTCP option of the third packet, repeated until the peer shows it arrived.
    pub(crate) third: Option<MptcpOption>,
    /// It has gone out.
    pub(super) third_sent: bool,
    /// A handshake segment is to be sent.
    pub(crate) due: bool,
    sent_at: Instant,
    attempts: u32,
    /// The number of retransmissions of a SYN before it is given up.
    syn_retries: u8,
    /// When the segment is repeated; `FAR_FUTURE` for never.
    deadline: Instant,
    /// When the third packet is repeated; `FAR_FUTURE` for never.
    third_deadline: Instant,
}

impl Default for Handshake {
    fn default() -> Self {
        Self {
            first: None,
            third: None,
            third_sent: false,
            due: false,
            sent_at: Instant::ZERO,
            attempts: 0,
            syn_retries: (SYN_RETRIES + SYN_LINEAR) as u8,
            deadline: Instant::FAR_FUTURE,
            third_deadline: Instant::FAR_FUTURE,
        }
    }
}

/// The time until a SYN or SYN/ACK is repeated: a second that has doubled so many times.
fn wait(doublings: u32, rto_max: Duration) -> Duration {
    (RTO_INITIAL * (1 << doublings.min(SYN_RETRIES))).min(rto_max)
}

/// The time until a SYN is repeated that was sent after `before` others.
fn syn_wait(before: u32, rto_max: Duration) -> Duration {
    wait(before.saturating_sub(SYN_LINEAR), rto_max)
}

/// The time that so many retransmissions of a SYN last.
fn time_of_syns(retries: u32, rto_max: Duration) -> Duration {
    (0..=retries).fold(Duration::ZERO, |sum, before| sum + syn_wait(before, rto_max))
}

impl Handshake {
    /// Returns a handshake that has not begun. A SYN is repeated for 131 s, the time with the kernel's longest timeout.
    /// A smaller longest timeout adds retries; Linux then needs a larger `tcp_syn_retries`.
    pub(super) fn new(config: &Config) -> Self {
        let usual = SYN_RETRIES + SYN_LINEAR;
        let more = missing_retries(config.rto_max, |longest| time_of_syns(usual, longest));
        Self { syn_retries: (usual + more) as u8, ..Self::default() }
    }

    /// Something of it is to come again unless it is answered.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.wake() != Instant::FAR_FUTURE
    }

    pub(crate) fn wake(&self) -> Instant {
        self.deadline.min(self.third_deadline)
    }

    /// The third packet's option arrived: stop repeating it.
    pub(crate) fn confirm_third(&mut self) {
        self.third = None;
        self.third_deadline = Instant::FAR_FUTURE;
    }
}

/// A SYN/ACK where there is no subflow yet.
pub(crate) struct SynAnswer<'a> {
    /// The SYN that it answers.
    pub(crate) syn: &'a Segment,
    /// Our initial sequence number.
    pub(crate) iss: SeqNumber,
    /// The `MP_CAPABLE` or `MP_JOIN`.
    pub(crate) option: Option<MptcpOption>,
    /// What is added to our timestamps.
    pub(crate) timestamp_offset: u32,
    /// The maximum segment size that is announced.
    pub(crate) mss: u16,
}

/// SYN/ACKs that went out before there was a subflow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answered {
    /// Nobody knows when: the echoed timestamp tells the RTT, if anything does.
    Once,
    /// The last of so many at this moment.
    At { sent_at: Instant, times: u32 },
}

impl SynAnswer<'_> {
    /// When the SYN/ACK is to come again that goes out now, after `before` of them.
    pub(crate) fn due_again(config: &Config, now: Instant, before: u32) -> Instant {
        config.host.expiry(now, wait(before, config.rto_max))
    }

    /// The segment.
    pub(crate) fn segment(&self, now: Instant, config: &Config) -> Segment {
        let window = super::receive::initial_window(config, self.mss);
        let ecn = super::accepts_ecn(config.ecn, self.syn);
        let echo = if ecn { Flags::ECE } else { Flags::default() };
        let mut agreed = Agreed::offer(config);
        agreed.learn(self.syn);
        let mut segment = Segment {
            source_port: self.syn.destination_port,
            destination_port: self.syn.source_port,
            seq: self.iss,
            ack: self.syn.seq.add(1),
            flags: Flags::SYN.with(Flags::ACK).with(echo),
            window: window.min(65_535) as u16,
            mss: Some(self.mss),
            mptcp: self.option.into_iter().collect(),
            ..Segment::default()
        };
        let value = timestamp_clock(now).wrapping_add(self.timestamp_offset);
        let echo = self.syn.timestamps.map_or(0, |timestamps| timestamps.value);
        agreed.put_on(&mut segment, Timestamps { value, echo });
        segment
    }
}

impl Subflow {
    /// Its handshake began before `now`: a join that has just been decided on is opened by a worker, behind
    /// the application (`mptcp_worker`).
    pub(crate) fn has_begun(&self, now: Instant) -> bool {
        self.state != State::SynSent || (!self.handshake.due && self.handshake.sent_at < now)
    }

    /// Takes up a join whose SYN/ACK, with `option`, went out before there was a subflow.
    pub(crate) fn resume_join(
        &mut self,
        syn: &Segment,
        config: &Config,
        option: Option<MptcpOption>,
    ) {
        self.answer_syn(syn, config, option);
        self.handshake.due = false;
        self.handshake.attempts = 1;
        self.send.after_syn();
    }

    /// The SYN/ACK went out before there was a subflow.
    pub(crate) fn has_answered(&mut self, answered: Answered) {
        self.handshake.due = false;
        match answered {
            Answered::Once => self.handshake.attempts = 2,
            Answered::At { sent_at, times } => {
                (self.handshake.sent_at, self.handshake.attempts) = (sent_at, times);
            }
        }
        self.send.after_syn();
    }

    /// Writes the SYN or SYN/ACK that is due; false when none is.
    pub(crate) fn next_handshake_segment(
        &mut self,
        host: &HostModel,
        now: Instant,
        config: &Config,
        segment: &mut Segment,
    ) -> bool {
        if !std::mem::take(&mut self.handshake.due) {
            return false;
        }
        let answering = self.state == State::SynReceived;
        self.blank(segment, Bytes::new());
        segment.seq = self.sequence.local(0);
        let attempt = self.handshake.attempts;
        segment.flags = Flags::SYN.with(self.ecn.handshake_flags(answering, attempt));
        if answering {
            segment.flags = segment.flags.with(Flags::ACK);
            segment.ack = self.sequence.remote(1);
        }
        segment.mss = Some(config.mss_at(self.tuple.local.ip()));
        let echo = if answering { self.sequence.recent() } else { 0 };
        self.agreed.put_on(segment, Timestamps { value: self.sequence.timestamp(now), echo });
        segment.window = self.receive.window().min(65_535) as u16;
        segment.mptcp.extend(self.handshake.first);
        self.send.after_syn();
        let until_again = if answering { wait } else { syn_wait };
        self.handshake.deadline = host.expiry(now, until_again(attempt, config.rto_max));
        self.handshake.sent_at = now;
        self.handshake.attempts += 1;
        true
    }

    /// Fires handshake timers; false when the attempt is given up.
    pub(crate) fn fire_handshake(&mut self, host: &HostModel, now: Instant) -> bool {
        if now >= self.handshake.deadline {
            self.handshake.deadline = Instant::FAR_FUTURE;
            let retries = match self.state {
                State::SynReceived => SYN_ACK_RETRIES,
                _ => self.handshake.syn_retries.into(),
            };
            if self.handshake.attempts > retries {
                return false;
            }
            if self.handshake.attempts >= CAPABLE_SYNS
                && self.state == State::SynSent
                && matches!(self.handshake.first, Some(MptcpOption::Capable(_)))
            {
                self.handshake.first = None;
            }
            self.handshake.due = true;
        }
        if now >= self.handshake.third_deadline {
            // Linux repeats the third packet of a join every two RTTs until it is answered.
            self.handshake.third_deadline = Instant::FAR_FUTURE;
            if self.handshake.third.is_some() {
                self.ack.demand();
                self.arm_third(host, now);
            }
        }
        true
    }

    fn arm_third(&mut self, host: &HostModel, now: Instant) {
        let wait = self.rtt.srtt().map_or(Duration::from_secs(1), |srtt| srtt * 2);
        self.handshake.third_deadline = host.expiry(now, wait);
    }

    /// Takes the peer's TCP options from its SYN.
    pub(crate) fn learn_peer(&mut self, segment: &Segment, config: &Config) {
        self.sequence.learn_peer(segment);
        self.receive.after_syn();
        self.agreed.learn(segment);
        let own = config.mss_at(self.tuple.local.ip());
        self.peer_mss = segment.mss.unwrap_or(536).min(own).max(MSS_MIN);
        self.ecn.learn_peer(config.ecn, self.active, segment);
        self.update_mss(0);
    }

    /// Answers a SYN: the SYN/ACK becomes due.
    pub(crate) fn answer_syn(
        &mut self,
        segment: &Segment,
        config: &Config,
        option: Option<MptcpOption>,
    ) {
        self.learn_peer(segment, config);
        self.handshake.first = option;
        self.handshake.due = true;
        // The window of a SYN is never scaled (RFC 7323 section 2.2).
        self.send.extend_window(1, u64::from(segment.window));
    }

    /// The SYN/ACK for our SYN, whose options are learnt: Established, with a first RTT sample.
    pub(crate) fn take_syn_ack(&mut self, host: &HostModel, now: Instant, segment: &Segment) {
        self.open(host, now, segment, u64::from(segment.window));
        self.ack.demand();
        if matches!(self.handshake.third, Some(MptcpOption::Join(_))) {
            self.arm_third(host, now);
        }
    }

    /// The third packet (or anything acknowledging our SYN/ACK): Established; false when it is neither.
    pub(crate) fn take_third(&mut self, host: &HostModel, now: Instant, segment: &Segment) -> bool {
        if !segment.flags.contains(Flags::ACK) || segment.ack != self.sequence.local(1) {
            return false;
        }
        self.open(host, now, segment, self.peer_window(segment));
        true
    }

    /// What took one try has an RTT; after more the echoed timestamp tells it, and without
    /// timestamps nothing does (`tcp_ack_update_rtt`). Of a join Linux has the time of the SYN/ACK
    /// no more: there too the echo tells, in milliseconds.
    fn handshake_rtt(&self, now: Instant, segment: &Segment) -> Option<Duration> {
        let answered_join =
            !self.active && matches!(self.handshake.first, Some(MptcpOption::Join(_)));
        if self.handshake.attempts == 1 && !answered_join {
            return Some(now.since(self.handshake.sent_at));
        }
        let echo = segment.timestamps.filter(|t| self.agreed.timestamps && t.echo > 0)?;
        let echo = self.sequence.echoed(echo);
        let elapsed = timestamp_clock(now).wrapping_sub(echo);
        Some(Duration::from_millis(u64::from(elapsed).max(1)))
    }

    /// Completes the handshake with the window of this segment. Segments take at most half of it.
    fn open(&mut self, host: &HostModel, now: Instant, segment: &Segment, window: u64) {
        self.state = State::Established;
        self.send.set_una(1);
        self.send.set_window(window);
        self.update_mss(0);
        self.handshake.deadline = Instant::FAR_FUTURE;
        self.handshake.due = false;
        self.last_ack_at = now;
        if let Some(rtt) = self.handshake_rtt(now, segment) {
            self.rtt.observe_min(now, rtt);
            self.rtt.sample(host, rtt, 1, 1);
        } else {
            self.rtt.distrust();
        }
        let (coarse_now, rtt) = (host.coarse(now), self.rtt.srtt());
        self.controller.on_open(&Opened { coarse_now, rtt, mss: self.mss }, &mut self.window);
        // `tcp_init_buffer_space`, of which the connection hears with the subflow.
        self.send.grow_buffer(self.window.cwnd, self.controller.send_buffer_factor());
        self.send.tell_buffer();
        self.refresh_pacing();
        self.usage.on_window_set(now);
    }

    /// A `DATA_FIN` without data rides an acknowledgement (RFC 8684 section 3.3.3).
    pub(crate) fn attach_data_fin(&self, segment: &mut Segment, at: u64, context: &EmitContext) {
        let waits = match self.handshake.third {
            None => false,
            Some(MptcpOption::Capable(_)) => !self.handshake.third_sent,
            Some(_) => true,
        };
        if !self.multipath || waits {
            return;
        }
        let mapping = Mapping {
            dsn: self.mapping_dsn(DataSeq(context.dsn_base.wrapping_add(at))),
            ssn: 0,
            length: 1,
            checksum: context.checksum.then(|| {
                anabranch_wire::dss_checksum(DataSeq(context.dsn_base.wrapping_add(at)), 0, 1, [])
            }),
        };
        segment.dss =
            Some(Dss { data_ack: context.data_ack, mapping: Some(mapping), data_fin: true });
    }
}
