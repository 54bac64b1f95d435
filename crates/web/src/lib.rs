//! The simulated world for wasm32: a plan goes in, and tables come out.
//!
//! The crate only converts values, and contains no other logic. `play/engine.js` calls it and decodes its
//! results. `abi.rs` contains the exports and imports. All other files also build natively, and their tests
//! use a page written in Rust.

#[cfg(target_arch = "wasm32")]
mod abi;
mod engine;
mod page;
mod plugins;
mod scheduler;
mod views;

pub use engine::{Answer, Buffer, run};
pub use page::{Instance, Notice, Page};
pub use plugins::plugins;
pub use views::layout;
