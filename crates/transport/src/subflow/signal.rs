//! MPTCP options that are sent once, on an acknowledgement: `ADD_ADDR`, `REMOVE_ADDR`, `MP_PRIO`
//! (`__mptcp_subflow_send_ack`, `mptcp_established_options`).

use anabranch_wire::{MAX_OPTIONS_LEN, MptcpOption, Segment};

use super::{State, Subflow};

/// Options on their way out.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    options: Vec<MptcpOption>,
    /// An acknowledgement is to go out for them.
    due: bool,
}

impl Subflow {
    /// Sends an option once: on an acknowledgement of its own now, or on a later one when there is
    /// no room beside what that has to carry.
    pub(crate) fn post(&mut self, option: MptcpOption) {
        self.outbox.options.push(option);
        self.outbox.due = true;
    }

    /// An acknowledgement is to go out for the posted options. They wait while the third packet's
    /// option, which may not be lost, takes the room.
    pub(crate) fn signal_due(&self) -> bool {
        self.outbox.due && self.hello.third.is_none() && self.state == State::Established
    }

    /// Puts the posted options on a segment without payload, as many as fit.
    pub(super) fn attach_signals(&mut self, segment: &mut Segment) {
        if self.outbox.options.is_empty() || self.hello.third.is_some() {
            return;
        }
        let posted = self.outbox.options.len();
        if matches!(self.outbox.options[0], MptcpOption::AddAddr(_)) {
            // It goes alone, for TCP a plain repetition (`mptcp_established_options_add_addr`).
            segment.dss = None;
            segment.mptcp.push(self.outbox.options.remove(0));
        } else {
            while let Some(&option) = self.outbox.options.first() {
                segment.mptcp.push(option);
                let alone = matches!(option, MptcpOption::AddAddr(_));
                if alone || segment.options_len() > MAX_OPTIONS_LEN {
                    segment.mptcp.pop();
                    break;
                }
                self.outbox.options.remove(0);
            }
        }
        let left = self.outbox.options.len();
        self.outbox.due = left > 0 && left < posted;
    }

    /// Either side wants it used only when no regular subflow works (RFC 8684 section 3.3.8).
    pub(crate) fn is_backup(&self) -> bool {
        self.backup || self.request_backup
    }

    /// Cuts the subflow off: what it held is let go, and nothing but a RST goes out any more.
    pub(crate) fn cut_off(&mut self) {
        self.state = State::Closed;
        self.send.drain_unsent();
        self.send.retransmit = false;
        self.send.force_retransmit = false;
        self.send.probe = false;
        self.receive.discard();
        self.outbox = Outbox::default();
    }
}
