//! The queue of data to send, with its tags; the memory of this data (`sk_wmem_queued`); and the peer's
//! window.

mod head;
mod tagging;
mod window;

use std::collections::VecDeque;

use anabranch_units::Instant;
use bytes::{Bytes, BytesMut};

use super::flight::Tag;
use super::intent::Intent;
use crate::config::TcpConfig;
pub(crate) use tagging::Tagging;
pub(crate) use window::PeerWindow;

/// The payload of the largest burst under one tag, bytes: 64 KiB minus space for headers
/// (`MPTCP_MAX_GSO_SIZE`).
pub(crate) const BURST_BYTES: u64 = 65_536 - 321;

/// Queued data that was not sent yet: all or the last part of one tag.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) payload: Bytes,
    /// The position of the first byte in the stream of the layer above.
    pub(crate) data: u64,
    pub(crate) tag: Tag,
}

/// The queue of data to send, and the sequence positions.
#[derive(Debug)]
pub struct Queue {
    una: u64,
    next: u64,
    /// The position after the last queued byte.
    write_end: u64,
    window: PeerWindow,
    chunks: VecDeque<Chunk>,
    queued: u64,
    unacked_bytes: u64,
    mss: u32,
    memory_per_buffer: u64,
    /// The number of socket buffers of queued data, and of those in flight.
    buffers_queued: u64,
    buffers_in_flight: u64,
    /// The number of socket buffers that the data of the current push will add when it is sent.
    buffers_to_come: u32,
    /// The number of segments that still fit in the last socket buffer sent.
    buffer_room: u32,
    /// Whether the last segment was the end of a tagged range. New data then needs another socket buffer
    /// (`mptcp_skb_can_collapse_to`).
    tag_ended: bool,
    /// The number of socket buffers begun while nothing was in flight.
    begun_at_rest: u32,
    tagging: Tagging,
    /// Whether each handover of data has a separate tag.
    tag_per_handover: bool,
    /// Whether the next data belongs to the same handover as the last.
    goes_on: bool,
    /// The kind of data to send next.
    intent: Intent,
    last_sent: Instant,
    fin_queued: bool,
    fin_sent: bool,
    /// Whether the next socket buffer is deferred until an acknowledgement arrives or more data is queued.
    deferred: bool,
    /// The position after the last small segment sent (`snd_sml`).
    small_end: u64,
    nodelay: bool,
}

impl Queue {
    /// Creates the queue of a host that announces `mss`.
    pub(crate) fn new(config: &TcpConfig, mss: u16) -> Self {
        Self {
            una: 0,
            next: 0,
            write_end: 1,
            window: PeerWindow::default(),
            chunks: VecDeque::new(),
            queued: 0,
            unacked_bytes: 0,
            mss: u32::from(mss) - 12,
            memory_per_buffer: config.host.send_memory_per_buffer,
            buffers_queued: 0,
            buffers_in_flight: 0,
            buffers_to_come: 0,
            buffer_room: 0,
            tag_ended: false,
            begun_at_rest: 0,
            tagging: Tagging::Never,
            tag_per_handover: config.shared.tag_per_handover,
            goes_on: false,
            intent: Intent::New,
            last_sent: Instant::ZERO,
            fin_queued: false,
            fin_sent: false,
            deferred: false,
            small_end: 0,
            nodelay: config.nodelay,
        }
    }

    /// Returns the first unacknowledged position (`snd_una`).
    pub fn una(&self) -> u64 {
        self.una
    }

    /// Returns the next position to send (`snd_nxt`).
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns the position after the last queued byte (`write_seq`).
    pub fn write_end(&self) -> u64 {
        self.write_end
    }

    pub fn queued_bytes(&self) -> u64 {
        self.queued
    }

    /// Returns the unacknowledged payload bytes, sent or not.
    pub fn held_bytes(&self) -> u64 {
        self.queued + self.unacked_bytes
    }

    /// Returns the memory that is charged for these bytes (`sk_wmem_queued`).
    pub fn memory(&self) -> u64 {
        self.memory_with(0, 0)
    }

    /// Returns the memory if `bytes` more were queued in `segments` separate socket buffers.
    pub(super) fn memory_with(&self, segments: u64, bytes: u64) -> u64 {
        let to_come = segments + u64::from(self.buffers_to_come);
        let buffers = self.buffers_queued + self.buffers_in_flight + to_come;
        self.held_bytes() + bytes + buffers * self.memory_per_buffer
    }

    /// Returns the time at which data was last sent.
    #[inline]
    pub(super) fn last_sent(&self) -> Instant {
        self.last_sent
    }

    /// Advances `snd_nxt` over `length` bytes and a FIN that are sent now. Returns the position of the first
    /// byte.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, length: u64, fin: bool) -> u64 {
        let start = self.next;
        self.next = start + length + u64::from(fin);
        self.fin_sent |= fin;
        self.last_sent = now;
        if length < u64::from(self.mss) {
            self.small_end = self.next;
        }
        start
    }

    /// Handles a retransmission. The next new segment begins a socket buffer.
    pub(super) fn on_retransmit(&mut self, now: Instant) {
        self.last_sent = now;
        self.buffer_room = 0;
    }

    /// Returns whether a FIN was sent.
    #[inline]
    pub(crate) fn fin_sent(&self) -> bool {
        self.fin_sent
    }

    /// Counts a new segment of `bytes` that is sent. Returns whether it begins a socket buffer. Up to `most`
    /// full segments that are sent `together` share one (`tso_fragment`).
    pub(crate) fn count_new(&mut self, bytes: u64, together: bool, most: u32) -> bool {
        self.unacked_bytes += bytes;
        self.buffers_to_come = 0;
        let opens = !together || self.buffer_room == 0;
        if opens {
            self.buffers_in_flight += 1;
            self.buffer_room = most;
        }
        let ends = bytes < u64::from(self.mss) || self.tag_ended;
        self.buffer_room = if ends { 0 } else { self.buffer_room - 1 };
        opens
    }

    /// Returns whether the current socket buffer has space for another segment.
    pub(crate) fn buffer_has_room(&self) -> bool {
        self.buffer_room > 0
    }

    /// Returns how often the idle window is restarted before the first segment is sent: once, or with tags
    /// once per socket buffer that was filled before (`tcp_skb_entail` in `mptcp_sendmsg_frag`).
    pub(crate) fn take_restarts(&mut self) -> u32 {
        let begun = std::mem::take(&mut self.begun_at_rest);
        if self.tagging.separates() && !self.tag_per_handover { begun } else { 1 }
    }

    /// Ends the current socket buffer, so that the next segment begins a new one.
    pub(crate) fn end_buffer(&mut self) {
        self.buffer_room = 0;
    }

    /// Returns the payload of a full segment.
    pub fn mss(&self) -> u32 {
        self.mss
    }

    pub(crate) fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
    }

    /// Returns a mutable reference to the tag state.
    #[inline]
    pub(super) fn tagging_mut(&mut self) -> &mut Tagging {
        &mut self.tagging
    }

    /// Returns whether data is currently sent with tags.
    #[inline]
    pub fn is_tagged(&self) -> bool {
        matches!(self.tagging, Tagging::Now)
    }

    /// Handles a SYN that was sent or answered. The next position is 1.
    pub(crate) fn on_syn(&mut self) {
        self.next = 1;
    }

    pub(crate) fn set_una(&mut self, una: u64) {
        self.una = una;
    }

    /// Frees `bytes` that were acknowledged. `buffers` is the change in the number of socket buffers in
    /// flight.
    #[inline]
    pub(super) fn on_acked(&mut self, bytes: u64, buffers: i64) {
        self.unacked_bytes -= bytes.min(self.unacked_bytes);
        self.on_buffers_changed(buffers);
    }

    /// Updates the number of socket buffers in flight after some were split or merged.
    pub(crate) fn on_buffers_changed(&mut self, more: i64) {
        self.buffers_in_flight = self.buffers_in_flight.saturating_add_signed(more);
    }

    /// Begins a new handover. Its data does not extend the last tag.
    pub(crate) fn begin_handover(&mut self) {
        self.goes_on = false;
    }

    /// Appends data to the queue.
    #[inline]
    pub(crate) fn push(&mut self, mut payload: Bytes, mut data: u64) {
        loop {
            let room = self.room_in_last(data);
            let goal = if room > 0 { room } else { self.size_goal() };
            if payload.len() as u64 <= goal {
                return self.push_part(payload, data, room > 0);
            }
            let part = payload.split_to(goal as usize);
            self.push_part(part, data, room > 0);
            data += goal;
        }
    }

    /// Returns the length of the longest tag: the number of full segments that fit in one large buffer, or in
    /// half of the largest window that the peer has advertised (`tcp_xmit_size_goal`,
    /// `tcp_bound_to_half_wnd`).
    fn size_goal(&self) -> u64 {
        let mss = u64::from(self.mss);
        let most = if self.tag_per_handover {
            BURST_BYTES
        } else {
            self.window.bound_to_half(BURST_BYTES, 1)
        };
        (most / mss).max(1) * mss
    }

    /// Returns the number of bytes by which data at `data` may extend the last tag. The data must be
    /// adjacent, and no byte of the tag may have been sent.
    fn room_in_last(&self, data: u64) -> u64 {
        let Some(last) = self.chunks.back() else { return 0 };
        if self.tag_per_handover && !self.goes_on {
            return 0;
        }
        let adjacent = last.data.wrapping_add(last.payload.len() as u64) == data;
        if !adjacent || last.tag.position < self.next {
            return 0;
        }
        self.size_goal().saturating_sub(u64::from(last.tag.length))
    }

    // A run of 20 MB calls it 14,036 times.
    #[inline(always)]
    fn push_part(&mut self, payload: Bytes, data: u64, extend: bool) {
        let length = payload.len() as u64;
        let mut tag = Tag { data, position: self.write_end, length: length as u16 };
        self.buffers_queued += u64::from(!extend);
        self.begun_at_rest += u32::from(!extend && self.unacked_bytes == 0);
        if extend && let Some(last) = self.chunks.back() {
            tag = Tag { length: last.tag.length + length as u16, ..last.tag };
            for chunk in self.chunks.iter_mut().rev() {
                if chunk.tag.position != tag.position {
                    break;
                }
                chunk.tag = tag;
            }
        }
        self.goes_on = true;
        self.deferred = false;
        self.write_end += length;
        self.queued += length;
        self.chunks.push_back(Chunk { payload, data, tag });
    }

    /// Returns whether the rest of the data must wait because it is less than a segment. Such data waits
    /// while another small segment is unacknowledged and more data may follow (`tcp_nagle_check`,
    /// `tcp_minshall_check`).
    #[inline]
    pub(crate) fn must_wait_for_more(&self) -> bool {
        0 < self.queued && self.queued < u64::from(self.mss) && self.is_held_back()
    }

    /// Returns whether data of less than a segment must wait.
    // Kept separate, so that the check for whole segments stays short.
    #[cold]
    fn is_held_back(&self) -> bool {
        self.small_end > self.una
            && !self.nodelay
            && !self.fin_queued
            && self
                .chunks
                .front()
                .zip(self.chunks.back())
                .is_some_and(|(first, last)| !self.tagging.separates() || first.tag == last.tag)
    }

    /// Removes the next segment of at most `limit` bytes from the queue.
    #[inline]
    pub(crate) fn cut(&mut self, limit: usize) -> Option<(Bytes, Tag)> {
        let front = self.chunks.front_mut()?;
        let tag = front.tag;
        self.tag_ended = false;
        if front.payload.len() > limit {
            let payload = front.payload.split_to(limit);
            front.data += limit as u64;
            self.queued -= limit as u64;
            return Some((payload, tag));
        }
        let chunk = self.chunks.pop_front()?;
        self.end_buffer_of(&tag);
        let mut payload = chunk.payload;
        // Fill the segment from the next chunk, if it has the same tag or there are no tags.
        while payload.len() < limit {
            let joined = self.chunks.front().is_some_and(|next| {
                !self.tagging.separates()
                    || (next.tag.data == tag.data && next.tag.position == tag.position)
            });
            if !joined {
                break;
            }
            let next = self.chunks.front_mut().expect("just seen");
            let take = (limit - payload.len()).min(next.payload.len());
            let mut whole = BytesMut::with_capacity(payload.len() + take);
            whole.extend_from_slice(&payload);
            whole.extend_from_slice(&next.payload.split_to(take));
            next.data += take as u64;
            payload = whole.freeze();
            if next.payload.is_empty() {
                let left = next.tag;
                self.chunks.pop_front();
                self.end_buffer_of(&left);
            }
        }
        self.queued -= payload.len() as u64;
        Some((payload, tag))
    }

    /// Handles a chunk of `tag` that was sent completely. The chunk may be the last one of its socket buffer.
    fn end_buffer_of(&mut self, tag: &Tag) {
        if self.chunks.front().is_none_or(|next| next.tag.position != tag.position) {
            self.buffers_queued -= 1;
            self.tag_ended = self.tagging.separates() && !self.tag_per_handover;
        }
    }

    /// Removes all data that was not sent.
    pub(crate) fn discard_unsent(&mut self) {
        self.write_end -= self.queued;
        self.queued = 0;
        self.buffers_queued = 0;
        self.chunks.clear();
    }

    /// Removes all data, sent or not, because the connection has ended.
    pub(crate) fn discard_all(&mut self) {
        self.discard_unsent();
        (self.unacked_bytes, self.buffers_in_flight, self.buffers_to_come) = (0, 0, 0);
        self.intent = Intent::New;
    }

    /// Queues a FIN after all data.
    pub(crate) fn push_fin(&mut self) {
        self.fin_queued = true;
    }

    /// Returns whether a FIN is queued or sent.
    #[inline]
    pub(super) fn is_closing(&self) -> bool {
        self.fin_queued
    }

    /// Returns whether only the FIN is unacknowledged.
    pub(super) fn awaits_only_fin(&self) -> bool {
        self.fin_sent && self.una + 1 == self.next
    }

    /// Returns the kind of data to send next.
    #[inline]
    pub(crate) fn intent(&self) -> Intent {
        self.intent
    }

    /// Returns a mutable reference to the kind of data to send next.
    #[inline]
    pub(super) fn intent_mut(&mut self) -> &mut Intent {
        &mut self.intent
    }

    /// Returns the peer's window.
    #[inline]
    pub fn window(&self) -> &PeerWindow {
        &self.window
    }

    /// Returns a mutable reference to the peer's window.
    #[inline]
    pub(crate) fn window_mut(&mut self) -> &mut PeerWindow {
        &mut self.window
    }

    /// Returns whether all sent data and the FIN are acknowledged.
    pub(crate) fn is_finished(&self) -> bool {
        self.fin_sent && self.una == self.next
    }

    /// Sets whether the next socket buffer is deferred.
    pub(crate) fn set_deferred(&mut self, deferred: bool) {
        self.deferred = deferred;
    }

    /// Returns whether the next socket buffer is deferred.
    #[inline]
    pub fn is_deferred(&self) -> bool {
        self.deferred
    }

    /// Returns whether a FIN may be sent, because all data was sent.
    pub(crate) fn fin_due(&self) -> bool {
        self.fin_queued && !self.fin_sent && self.queued == 0
    }

    /// Returns the bytes of the next socket buffer: without tags all queued data, up to the size of one
    /// buffer; with tags the rest of the first tag.
    pub(crate) fn next_buffer(&self) -> u64 {
        if !self.tagging.separates() {
            return self.queued.min(self.size_goal());
        }
        self.chunks.front().map_or(0, |chunk| {
            let sent = self.next - chunk.tag.position.min(self.next);
            u64::from(chunk.tag.length).saturating_sub(sent)
        })
    }

    /// Returns whether something waits for space in the congestion window.
    pub(crate) fn has_work(&self) -> bool {
        (self.queued > 0 && !self.must_wait_for_more()) || self.intent.repairs() || self.fin_due()
    }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
