//! The size of a receive buffer and the window that it permits (`tcp_rcvbuf_grow`, `tcp_win_from_space`; in
//! older kernels `tcp_rcv_space_adjust`). Each connection has a receive buffer, and the layer above may have
//! another.

use std::num::NonZeroU16;

use anabranch_wire::Segment;

use crate::config::TcpConfig;
use crate::reassembly::share;
use crate::stack::ReceiveSizing;

/// The part of the buffer that Linux uses as window before the first segment arrives, in 256ths
/// (`TCP_DEFAULT_SCALING_RATIO`).
pub const DEFAULT_RATIO: u64 = 128;

/// The memory of a full segment without its payload, in bytes, as Linux 4.14 computes it
/// (`SKB_TRUESIZE(MAX_TCP_HEADER)`): headers (without wireless networks), `sk_buff` and `skb_shared_info`.
const OVERHEAD: u64 = 192 + 256 + 320;
/// The bytes of a packet's buffer other than the payload: the headroom (`NET_SKB_PAD`), the IP and TCP
/// headers with timestamps and a DSS, and `skb_shared_info`.
const AROUND_PAYLOAD: u64 = 64 + 72 + 320;
/// The size of a buffer's descriptor (`sk_buff`), in bytes.
const DESCRIPTOR: u64 = 256;
/// The step by which Linux 4.14 increases its estimate of a segment's memory, until half of it holds the
/// segment, in bytes.
const MEMORY_STEP: u64 = 128;
/// The first window, in segments (`tcp_default_init_rwnd`).
const FIRST_SEGMENTS: u64 = 20;
/// The initial buffer of an autotuned connection, in multiples of the first window (`tcp_fixup_rcvbuf`).
const CUSHION: u64 = 4;
/// The number of segments added to the bytes of one RTT (`tcp_rcv_space_adjust`).
const SPARE_SEGMENTS: u64 = 16;

/// The smallest receive buffer, in bytes of memory (`SOCK_MIN_RCVBUF`: 2 KiB and its `sk_buff`).
const MEMORY_MIN: u64 = 2048 + 256;

/// The initial receive buffer of a connection, in bytes of memory.
pub(crate) fn first_memory(config: &TcpConfig) -> u64 {
    config.receive_buffer_initial.max(MEMORY_MIN)
}

/// Rounds a window down to whole segments if it is larger than one.
pub(crate) fn whole_segments(window: u64, mss: u64) -> u64 {
    if window > mss { window / mss * mss } else { window }
}

/// The first window of Linux 4.14 in bytes, which also limits the window in its SYN
/// (`tcp_select_initial_window`): twenty segments, or half of the buffer if that is less.
pub fn first_window(config: &TcpConfig, mss: u16) -> u64 {
    let mss = u64::from(mss);
    whole_segments(first_memory(config) / 2, mss).min(first_segments(mss) * mss).min(65_535)
}

fn first_segments(mss: u64) -> u64 {
    if mss <= 1460 { FIRST_SEGMENTS } else { (1460 * FIRST_SEGMENTS / mss).max(2) }
}

/// The size of a payload as it arrived: one segment, or several merged by GRO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The bytes of the whole payload.
    pub bytes: u32,
    /// The payload of each segment, in bytes (`gso_size`; `len` of a single segment). The last one may be
    /// shorter.
    pub(crate) segment: u32,
}

impl Load {
    /// Returns the load of a segment, or of several merged segments of `segment_size` bytes each.
    #[inline]
    pub fn of(segment: &Segment, segment_size: Option<NonZeroU16>) -> Self {
        let bytes = segment.payload.len() as u32;
        Self { bytes, segment: segment_size.map_or(bytes, |size| bytes.min(size.get().into())) }
    }

    /// Returns the length that opens the window: all bytes of merged segments, but at least `segment`
    /// (`tcp_grow_window`: `max_t(int, incr, 2 * skb->len)`).
    pub fn counts_as(self, segment: u64) -> u64 {
        if self.bytes > self.segment { segment.max(self.bytes.into()) } else { segment }
    }
}

/// A receive buffer that grows with the rate at which the application reads.
#[derive(Debug)]
pub struct ReceiveBuffer {
    /// The size in bytes of memory (`sk_rcvbuf`).
    memory: u64,
    memory_max: u64,
    /// The payload per 256 bytes of memory (`scaling_ratio`).
    ratio: u64,
    /// The window of the whole buffer, in bytes.
    window: u64,
    /// The memory of a full received segment, in bytes.
    memory_per_segment: u64,
    /// The largest number of bytes that the application read in one RTT (`rcvq_space.space`).
    space: u64,
    sizing: ReceiveSizing,
    /// The payload of a full segment (`advmss`), in bytes.
    segment: u64,
    /// Whether the buffer grows automatically.
    tunes: bool,
}

impl ReceiveBuffer {
    /// Creates the buffer of a host that announces `mss`.
    pub fn new(config: &TcpConfig, mss: u16) -> Self {
        let sizing = config.shared.receive;
        let tunes = config.shared.receive_autotuning;
        let segment = u64::from(mss - 12);
        let mut memory = first_memory(config);
        if sizing == ReceiveSizing::Half {
            // Linux does this when the connection is established (`tcp_fixup_rcvbuf`).
            let wanted = 2 * (segment + OVERHEAD) * first_segments(segment);
            let wanted = if tunes { CUSHION * wanted } else { wanted };
            memory = memory.max(wanted.min(config.receive_buffer_max));
        }
        let space = match sizing {
            ReceiveSizing::Ratio => 10 * segment,
            ReceiveSizing::Half => first_window(config, mss),
        };
        Self {
            memory,
            memory_max: config.receive_buffer_max.max(memory),
            ratio: DEFAULT_RATIO,
            window: memory * DEFAULT_RATIO / 256,
            memory_per_segment: config.host.receive_memory_per_segment,
            space,
            sizing,
            segment,
            tunes,
        }
    }

    /// Returns the size in bytes of memory (`sk_rcvbuf`).
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Returns the largest size in bytes of memory.
    pub fn memory_max(&self) -> u64 {
        self.memory_max
    }

    /// Grows the buffer to `memory` bytes, the memory of waiting data, up to the maximum
    /// (`tcp_clamp_window`).
    pub(crate) fn grow_for_waiting(&mut self, memory: u64) {
        self.grow_to(memory.min(self.memory_max));
    }

    /// Returns the window of the whole buffer, in bytes.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Returns the window before the first segment arrives, in bytes: that of the buffer minus one segment,
    /// but at least two segments (`tcp_init_buffer_space`: `tcp_app_win`).
    pub(crate) fn window_at_first(&self) -> u64 {
        self.window.saturating_sub(self.segment).max(2 * self.segment)
    }

    /// Returns the largest number of bytes that the application read in one RTT (`rcvq_space.space`).
    pub fn space(&self) -> u64 {
        self.space
    }

    /// Returns the memory of an arrival. Each segment has its own packet buffer (`skb_head_is_locked`), even
    /// if GRO merged the segments.
    #[inline]
    pub(crate) fn memory_of(&self, load: Load) -> u64 {
        if load.segment == load.bytes {
            return self.memory_of_segment(load.bytes.into());
        }
        let (full, rest) = (load.bytes / load.segment, load.bytes % load.segment);
        let rest = if rest > 0 { self.memory_of_segment(rest.into()) } else { 0 };
        u64::from(full) * self.memory_of_segment(load.segment.into()) + rest
    }

    /// Like [`Self::memory_of`], but only the share of the first `length` bytes.
    #[inline]
    pub(crate) fn memory_of_part(&self, load: Load, length: usize) -> u64 {
        share(self.memory_of(load), length as u64, load.bytes.into())
    }

    /// Returns the memory of a segment (`truesize`): headroom, packet and `skb_shared_info`, rounded up to a
    /// power of two, and the descriptor.
    #[inline]
    fn memory_of_segment(&self, payload: u64) -> u64 {
        let buffer = (payload + AROUND_PAYLOAD).next_power_of_two() + DESCRIPTOR;
        buffer.min(self.memory_per_segment)
    }

    /// Returns the window for this much memory, in bytes.
    #[inline]
    pub(crate) fn window_of_memory(&self, memory: u64) -> u64 {
        memory * self.ratio / 256
    }

    /// Returns the window that remains if `memory` bytes are in use (`tcp_space`, `__mptcp_space`).
    #[inline]
    pub fn window_beside(&self, memory: u64) -> u64 {
        self.window_of_memory(self.memory.saturating_sub(memory))
    }

    /// Returns by how much an arrival opens a window of `open` bytes. Usually it is two segments of the
    /// announced size. A segment that is small compared with its `memory` opens two segments of the
    /// `received` size. This requires that enough of the largest buffer is left (`tcp_grow_window`,
    /// `__tcp_grow_window`).
    #[inline]
    pub(crate) fn opening(&self, load: Load, memory: u64, open: u64, received: u32) -> u64 {
        let segments = if self.window_of_memory(memory) <= u64::from(load.bytes) {
            2 * self.segment
        } else {
            self.opening_of_small(load, memory, open, received)
        };
        if segments > 0 { segments.max(2 * load.counts_as(0)) } else { 0 }
    }

    #[cold]
    fn opening_of_small(&self, load: Load, memory: u64, open: u64, received: u32) -> u64 {
        let mut own = self.window_of_memory(memory) / 2;
        let mut largest = self.window_of_memory(self.memory_max) / 2;
        while open <= largest {
            if own <= u64::from(load.bytes) {
                return 2 * u64::from(received);
            }
            own /= 2;
            largest /= 2;
        }
        0
    }

    /// Sets the ratio for full segments with `payload` bytes (`tcp_measure_rcv_mss`).
    pub fn on_segment_size(&mut self, payload: u64) {
        self.set_ratio((payload * 256 / self.memory_per_segment).clamp(1, 255));
    }

    /// Returns the payload per 256 bytes of memory (`scaling_ratio`).
    pub fn ratio(&self) -> u64 {
        self.ratio
    }

    /// Sets the payload per 256 bytes of memory, and updates the window.
    pub fn set_ratio(&mut self, ratio: u64) {
        if self.sizing == ReceiveSizing::Ratio {
            self.ratio = ratio;
            self.window = self.memory * ratio / 256;
        }
    }

    /// Grows the buffer for out-of-order data, so that such data does not use the window of missing data
    /// (`tcp_data_queue_ofo`, `mptcp_data_queue_ofo`). `ahead` is the distance from the next expected byte to
    /// the end of the data.
    #[inline]
    pub fn grow_ahead(&mut self, ahead: u64) {
        if self.sizing == ReceiveSizing::Ratio && 2 * self.space + ahead > self.window {
            self.grow(self.space, ahead);
        }
    }

    /// Makes the buffer at least as large as `other`, that of a connection that delivers data.
    pub fn grow_like(&mut self, other: &Self) {
        if self.sizing == ReceiveSizing::Ratio {
            self.grow_to(other.memory);
        }
    }

    /// Adjusts the buffer after an RTT in which the application read `copied` bytes. Returns whether it grew.
    ///
    /// Linux 6.18 uses twice the bytes read, because the measurement is one RTT late. It adds twice the
    /// growth of that window, so that the sender can double its rate, and then the out-of-order bytes.
    pub fn grow(&mut self, copied: u64, ahead: u64) -> bool {
        if !self.tunes {
            return false;
        }
        if self.sizing == ReceiveSizing::Half {
            return self.grow_half(copied);
        }
        let window = 2 * copied;
        let growth = window * copied.saturating_sub(self.space) / self.space;
        let window = window + 2 * growth + ahead;
        self.space = copied;
        self.grow_to((window * 256 / self.ratio).min(self.memory_max))
    }

    /// Adjusts the buffer as in Linux 4.14 (`tcp_rcv_space_adjust`). The window is twice the bytes read, plus
    /// sixteen segments. It is multiplied by 1.5 if the bytes read grew by a quarter, and by 2 if they grew
    /// by half.
    fn grow_half(&mut self, copied: u64) -> bool {
        let mut window = 2 * copied + SPARE_SEGMENTS * self.segment;
        if copied >= self.space + self.space / 2 {
            window *= 2;
        } else if copied >= self.space + self.space / 4 {
            window += window / 2;
        }
        self.space = copied;
        let least = self.segment + OVERHEAD;
        let short = (2 * self.segment).saturating_sub(least);
        let each = least + short.next_multiple_of(MEMORY_STEP);
        self.grow_to((window / self.segment * each).min(self.memory_max))
    }

    /// Adds the buffer of another connection (`mptcp_init_buffer_space`).
    pub fn add(&mut self, other: &Self) {
        self.grow_to((self.memory + other.memory).min(self.memory_max));
    }

    fn grow_to(&mut self, memory: u64) -> bool {
        let grew = memory > self.memory;
        if grew {
            self.memory = memory;
            self.window = memory * self.ratio / 256;
        }
        grew
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HostModel;
    use crate::stack::{SharedStack, TcpStack};

    fn alone(bytes: u32) -> Load {
        Load { bytes, segment: bytes }
    }

    /// A buffer of 128 KiB, at most 1 MiB, for full segments of 1000 bytes.
    fn buffer() -> ReceiveBuffer {
        let config = TcpConfig {
            receive_buffer_initial: 131_072,
            receive_buffer_max: 1 << 20,
            host: HostModel { receive_memory_per_segment: 2000, ..HostModel::default() },
            ..TcpConfig::default()
        };
        ReceiveBuffer::new(&config, 1012)
    }

    fn window_of(buffer: &ReceiveBuffer, load: Load) -> u64 {
        buffer.window_of_memory(buffer.memory_of(load))
    }

    #[test]
    fn half_of_the_memory_makes_window_until_segments_tell() {
        let mut buffer = buffer();
        assert_eq!((buffer.window(), buffer.space()), (65_536, 10_000));
        // Segments of 1000 bytes take 2000 bytes: 128/256. Segments of 1500 bytes take 2000: 192/256.
        buffer.on_segment_size(1000);
        assert_eq!((buffer.window(), window_of(&buffer, alone(1000))), (65_536, 1000));
        buffer.on_segment_size(1500);
        assert_eq!((buffer.window(), window_of(&buffer, alone(1500))), (98_304, 1500));
        // The window is 192/256 of the memory. 100 + 456 bytes need a buffer of 1024, plus a descriptor
        // of 256.
        assert_eq!(window_of(&buffer, alone(100)), 960);
        buffer.on_segment_size(1);
        assert_eq!(buffer.window(), 512, "one in 256 at least");
        buffer.on_segment_size(4000);
        assert_eq!(buffer.window(), 130_560, "255 in 256 at most");
    }

    #[test]
    fn a_segment_is_reserved_until_segments_come() {
        // `tcp_init_buffer_space`: `max(2 * advmss, maxwin - advmss)`. That is half of 128 KiB minus
        // 1000, and half of 5000 minus 1000.
        assert_eq!(buffer().window_at_first(), 64_536);
        let small = TcpConfig { receive_buffer_initial: 5000, ..TcpConfig::default() };
        assert_eq!(ReceiveBuffer::new(&small, 1012).window_at_first(), 2000);
    }

    #[test]
    fn each_segment_takes_a_buffer_of_its_own() {
        // `truesize`: 1000 bytes of payload take 2000 here. 500 + 456 bytes take 1024 + 256.
        let buffer = buffer();
        assert_eq!(buffer.memory_of(alone(1000)), 2000);
        assert_eq!(buffer.memory_of(alone(500)), 1280);
        assert_eq!(buffer.memory_of(Load { bytes: 2500, segment: 1000 }), 5280);
        assert_eq!(buffer.window_of_memory(5280), 2640);
    }

    #[test]
    fn receive_window_grows_as_in_tcp_rcvbuf_grow() {
        // `tcp_rcvbuf_grow`: rcvwin = 2 newval; grow = rcvwin (newval - oldval) / oldval; rcvwin += 2
        // grow; out-of-order bytes are added.
        let mut buffer = buffer();
        // 40,000 after 10,000: 80,000 + 2 * 80,000 * 3 = 560,000. This window needs 1,120,000 bytes,
        // limited to 1 MiB.
        assert!(buffer.grow(40_000, 0));
        assert_eq!((buffer.window(), buffer.space()), (524_288, 40_000));
        assert!(!buffer.grow(80_000, 0), "no larger");
        assert_eq!(buffer.space(), 80_000);

        let mut buffer = self::buffer();
        // 20,000: 40,000 + 2 * 40,000 = 120,000.
        assert!(buffer.grow(20_000, 0));
        assert_eq!(buffer.window(), 120_000);
        // Fewer bytes than before: twice 15,000 plus the out-of-order bytes does not exceed the buffer.
        assert!(!buffer.grow(15_000, 90_000));
        assert_eq!((buffer.window(), buffer.space()), (120_000, 15_000));
        assert!(buffer.grow(15_000, 90_001));
        assert_eq!(buffer.window(), 120_001);
    }

    #[test]
    fn receive_window_grows_for_out_of_order_data() {
        // `tcp_data_queue_ofo`: twice the bytes of an RTT plus the out-of-order distance must fit.
        let mut buffer = buffer();
        buffer.grow_ahead(45_536);
        assert_eq!(buffer.window(), 65_536);
        buffer.grow_ahead(45_537);
        assert_eq!((buffer.window(), buffer.space()), (65_537, 10_000));
    }

    #[test]
    fn a_connections_buffer_follows_and_does_not_go_back() {
        // `__mptcp_move_skbs_from_subflow`: `if (ssk_rbuf > sk_rbuf)`. The comparison uses memory, because
        // each buffer has its own ratio.
        let mut own = buffer();
        own.set_ratio(64);
        let mut subflow = buffer();
        own.grow_like(&subflow);
        assert_eq!(own.window(), 32_768);
        assert!(subflow.grow(20_000, 0), "120,000 bytes of window, 240,000 of memory");
        own.grow_like(&subflow);
        assert_eq!(own.window(), 60_000);
        own.grow_like(&buffer());
        assert_eq!(own.window(), 60_000);
    }

    #[test]
    fn the_largest_is_no_less_than_the_first() {
        let config = TcpConfig { receive_buffer_max: 1000, ..TcpConfig::default() };
        let mut buffer = ReceiveBuffer::new(&config, 1460);
        buffer.grow(1_000_000, 0);
        assert_eq!(buffer.window(), 65_536);
    }

    /// The kernel of the papers (Linux 4.14): full segments of 1460 bytes, 1448 with timestamps.
    fn half(tunes: bool) -> TcpConfig {
        let (stack, old) = (TcpStack::MPTCP_0_94, SharedStack::MPTCP_0_94);
        let shared = SharedStack { receive_autotuning: tunes, ..old };
        TcpConfig { receive_buffer_initial: 87_380, stack, shared, ..TcpConfig::default() }
    }

    #[test]
    fn linux_4_14_window_is_half_of_the_padded_receive_buffer() {
        // `tcp_fixup_rcvbuf`: 2 SKB_TRUESIZE(1448 + 192) 20 = 2 * 2216 * 20 = 88,640. An autotuned buffer
        // has four times as much: 354,560. `tcp_win_from_space`: half of it is window. The first window
        // is 20 segments of 1460 bytes, which is also the first value of `space`
        // (`tcp_init_buffer_space`).
        let buffer = ReceiveBuffer::new(&half(true), 1460);
        assert_eq!((buffer.window(), buffer.space()), (177_280, 29_200));
        assert_eq!(ReceiveBuffer::new(&half(false), 1460).window(), 44_320);
        assert_eq!(first_window(&half(true), 1460), 29_200);
        // Half of a small buffer, in whole segments: 20,000 / 1460 = 13.
        let small = TcpConfig { receive_buffer_initial: 40_000, ..half(true) };
        assert_eq!(first_window(&small, 1460), 18_980);
    }

    #[test]
    fn linux_4_14_window_grows_to_twice_the_read_plus_16_segments() {
        // `tcp_rcv_space_adjust`: rcvwin = 2 copied + 16 advmss = 2 * 100,000 + 23,168. The sum doubles
        // if `copied` grew by half. It becomes 446,336 bytes, which is 308 segments. The memory of a
        // segment starts at 2216 and grows in steps of 128 until half of it holds 1448 bytes: 2984. 308
        // * 2984 / 2 = 459,536.
        let mut buffer = ReceiveBuffer::new(&half(true), 1460);
        assert!(buffer.grow(100_000, 0));
        assert_eq!((buffer.window(), buffer.space()), (459_536, 100_000));
        // The bytes grew by a quarter: (250,000 + 23,168) * 3/2 = 409,752, or 282 segments. The buffer is
        // already larger.
        assert!(!buffer.grow(125_000, 0));
        assert_eq!((buffer.window(), buffer.space()), (459_536, 125_000));
        // Smaller growth: 300,000 after 250,000 makes 623,168, 430 segments.
        buffer.space = 250_000;
        assert!(buffer.grow(300_000, 90_000));
        assert_eq!(buffer.window(), 430 * 2984 / 2, "what waits out of order does not count");
        buffer.grow_ahead(10_000_000);
        assert_eq!(buffer.window(), 430 * 2984 / 2);
        // Another connection adds its buffer (`mptcp_init_buffer_space`), up to the maximum of 3 MiB of
        // window.
        buffer.add(&ReceiveBuffer::new(&half(true), 1460));
        assert_eq!(buffer.window(), 430 * 2984 / 2 + 177_280);
        assert!(buffer.grow(10_000_000, 0));
        assert_eq!(buffer.window(), 3 << 20);
        assert!(!ReceiveBuffer::new(&half(false), 1460).grow(1_000_000, 0));
    }
}
