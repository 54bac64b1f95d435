//! A benchmark of schedulers: decisions about two subflows whose views already exist.
//!
//! `decisions --names` prints every scheduler once, and some compositions. `decisions NAME COUNT` calls one
//! scheduler COUNT times for new data, and prints the number of sends. The nearer subflow of the views has
//! room, is full, or repairs a loss. The farther one has room. `decisions nothing COUNT` runs only the loop.
//! The caller measures both runs. Their difference is the cost of a decision.

use std::hint::black_box;

use anabranch_plugin::{PluginChoice, Registry};
use anabranch_scheduler as scheduler;
use anabranch_scheduler::{Ask, Decision, Hint, SendRequest, SubflowView};
use anabranch_units::{CongestionState, Duration, Instant, Rate, SubflowId};

fn view(id: u8, srtt_ms: u64, in_flight: u32, state: CongestionState) -> SubflowView {
    SubflowView {
        id: SubflowId(id),
        srtt: Duration::from_millis(srtt_ms),
        rttvar: Duration::from_millis(50),
        min_rtt: Duration::from_millis(srtt_ms),
        cwnd: 40,
        ssthresh: 30,
        in_flight,
        queued_memory: u64::from(in_flight) * 1424,
        send_buffer: 1 << 20,
        mss: 1424,
        pacing_rate: Rate::from_bps(5_000_000),
        delivery_rate: Rate::from_bps(5_000_000),
        state,
        established: true,
        ..SubflowView::default()
    }
}

fn build(name: &str) -> Box<dyn scheduler::PathScheduler> {
    let choice = PluginChoice::parse(name).expect("the short form of a plug-in");
    scheduler::build(&choice, &Registry::TABLES).expect("a known scheduler")
}

/// Compositions that the papers need. They are measured in addition to the schedulers of the table.
const COMPOSITIONS: [&str; 3] = ["blest(dft)", "ecf(dft)", "rtx-aware(blest)"];

/// Decides nothing. It measures the cost of the loop and of a call.
#[derive(Debug)]
struct Nothing;

impl scheduler::PathScheduler for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn schedule(&mut self, request: &SendRequest, _subflows: &[SubflowView]) -> Decision {
        Decision::next_on(SubflowId(0), request.unscheduled())
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, count) = match arguments.as_slice() {
        [flag] if flag == "--names" => {
            // Skip aliases.
            for known in scheduler::names().filter(|known| build(known.name).name() == known.name) {
                println!("{}", known.name);
            }
            println!("{}", COMPOSITIONS.join("\n"));
            return;
        }
        [name, count] => (name, count.parse::<u64>().expect("a number of decisions")),
        _ => panic!("usage: decisions --names | decisions NAME COUNT"),
    };
    let mut scheduler = if name == "nothing" { Box::new(Nothing) } else { build(name) };
    let slow = view(1, 100, 10, CongestionState::Open);
    let pairs = [
        [view(0, 50, 20, CongestionState::Open), slow],
        [view(0, 50, 40, CongestionState::Open), slow],
        [view(0, 50, 39, CongestionState::Recovery), slow],
        [view(0, 50, 40, CongestionState::Open), slow],
    ];
    let mut request = SendRequest {
        now: Instant::ZERO,
        ask: Ask::NewData,
        data_una: 0,
        data_next: 0,
        data_end: 0,
        window_end: 0,
        fragment: 32_728,
        piece_end: 0,
        hint: Hint::default(),
    };
    let mut sent = 0_u64;
    for number in 0..count {
        let data_next = number * 1424;
        request.now += Duration::from_millis(1);
        request.data_una = data_next.saturating_sub(60_000);
        request.data_next = data_next;
        request.data_end = data_next + 100_000;
        request.window_end = data_next + 200_000;
        let views = &pairs[(number % 4) as usize];
        let decision = scheduler.schedule(black_box(&request), black_box(views));
        if let Decision::Send { on, from, burst } = decision {
            sent += 1;
            // Without this call, no plan would ever be used up.
            if let (Some(id), Some(from)) = (on.first(), from) {
                scheduler.on_sent(id, from, burst);
            }
        }
    }
    println!("sent {sent}");
}
