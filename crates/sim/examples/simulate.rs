//! Runs a plan from a JSON file and prints its totals: `cargo run --release --example simulate PLAN [RUNS]`.

use anabranch_sim::{Plan, Silent, run};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("usage: simulate PLAN [RUNS]");
    let runs: u64 = arguments.next().map_or(1, |n| n.parse().expect("RUNS is a number"));
    let text = std::fs::read_to_string(&path).expect("the plan can be read");
    let mut plan = Plan::from_json(&text).expect("the plan is valid");
    for index in 0..runs {
        plan.run = index;
        let trace = run(&plan, None, &mut Silent).expect("the run ends");
        let of = |table: &str, column: &str| {
            trace.table(table).map(|t| t.numbers(column)).unwrap_or_default()
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let duration = of("connections", "duration_s");
        let bytes = of("connections", "bytes_read");
        let goodput: Vec<f64> =
            bytes.iter().zip(&duration).map(|(b, d)| b * 8.0 / d / 1e6).collect();
        print!(
            "{index} goodput {:.3} gap {:.3} reinj {:.0}",
            mean(&goodput),
            mean(&of("connections", "max_read_gap_s")),
            mean(&of("connections", "reinjected_bytes"))
        );
        let subflow = of("samples", "subflow");
        for (id, acked) in of("subflows", "bytes").iter().enumerate().take(3) {
            let pick = |name: &str| {
                let all = of("samples", name);
                let mut v: Vec<f64> = all
                    .iter()
                    .zip(&subflow)
                    .filter(|(v, s)| **s == id as f64 && !v.is_nan())
                    .map(|(v, _)| *v)
                    .collect();
                v.sort_by(f64::total_cmp);
                v
            };
            let cwnd = pick("cwnd_segments");
            print!(
                " | {:.2} MB rtx {} cwnd {:.1}/{:.1} srtt {:.1}",
                acked / 1e6,
                of("subflows", "retransmissions")[id],
                mean(&cwnd),
                cwnd.get(cwnd.len() / 2).copied().unwrap_or(0.0),
                mean(&pick("srtt_ms"))
            );
        }
        println!(" steps {} {}", trace.summary.steps, &trace.summary.digest[..12]);
    }
}
