//! The digest of a run in the lock. It covers the digest of the run and every segment at a client, with its
//! options.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use anabranch_sim::{Plan, Silent, Trace, run};

/// Columns that are excluded from the digest of a run.
const LEFT_OUT: [&str; 3] = ["penalties", "delivered_ce", "ecn_reductions"];

/// A writer that hashes all bytes to one word.
#[derive(Clone, Default)]
struct Folded(Arc<Mutex<u64>>);

fn fold(hash: u64, bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| {
        (hash.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x517c_c1b7_2722_0a95)
    };
    bytes.iter().fold(hash, mix)
}

impl Write for Folded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut hash = self.0.lock().map_err(|_| std::io::ErrorKind::Other)?;
        *hash = fold(*hash, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the digest of a plan's run, with sixteen hexadecimal digits. If the run fails or panics, its error
/// is hashed.
pub(crate) fn digest(plan: &str) -> String {
    let segments = Folded::default();
    let capture = Box::new(segments.clone());
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let plan = Plan::from_json(plan).map_err(|error| error.to_string())?;
        run(&plan, Some(capture), &mut Silent).map_err(|error| error.to_string())
    }));
    let told = match outcome {
        Ok(Ok(trace)) => facts(&trace),
        Ok(Err(error)) => error,
        Err(_) => "panic".to_owned(),
    };
    let hash = segments.0.lock().map_or(0, |hash| *hash);
    format!("{:016x}", fold(hash, told.as_bytes()))
}

fn facts(trace: &Trace) -> String {
    let subflows = trace.table("subflows").expect("every trace has the table");
    let left_out = LEFT_OUT.map(|column| subflows.numbers(column));
    format!("{} {left_out:?}", trace.summary.digest)
}
