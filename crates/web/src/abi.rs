//! The exports and imports of the module `anabranch.wasm`.
//!
//! Text and numbers are passed in linear memory. The page writes an input to the address that [`input`]
//! returns, and calls a function. It then reads the output text and the columns. Text is UTF-8.
//! `play/engine.js` is the counterpart in JavaScript.

use std::cell::RefCell;
use std::sync::Arc;

use serde::Deserialize;

use crate::engine::{Answer, Buffer};
use crate::page::{Instance, Notice, Page};
use crate::{layout, plugins};

// The functions that the page provides. All of them catch exceptions of the page's code.
#[link(wasm_import_module = "page")]
#[expect(
    unsafe_code,
    reason = "declares imports; the page reads the memory at these addresses only while it is called"
)]
unsafe extern "C" {
    safe fn progress(share: f64) -> u32;
    safe fn build(
        name: *const u8,
        name_length: usize,
        given: *const u8,
        given_length: usize,
        seed: f64,
    ) -> u32;
    safe fn schedule(number: u32, numbers: *mut f64, count: usize) -> u32;
    safe fn notify(number: u32, notice: u32, values: *const f64, count: usize) -> u32;
    safe fn refuse(
        number: u32,
        method: *const u8,
        method_length: usize,
        reason: *const u8,
        reason_length: usize,
    );
    safe fn panicked(message: *const u8, length: usize);
}

#[derive(Default)]
struct State {
    inputs: [Vec<u8>; 3],
    output: String,
    buffers: Vec<Buffer>,
}

/// The inputs: the plan, the options, and a text that the page passes during a call.
const PLAN: usize = 0;
const OPTIONS: usize = 1;
const PASSED: usize = 2;

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

fn with<T>(work: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(work)
}

/// Returns an input as text. Invalid UTF-8 is replaced, but encoders in JavaScript never write it.
fn taken(place: usize) -> String {
    let bytes = with(|state| std::mem::take(&mut state.inputs[place]));
    String::from_utf8(bytes)
        .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned())
}

fn put(text: String) {
    with(|state| state.output = text);
}

/// The page, which is outside this module.
#[derive(Debug)]
struct Outside;

/// The properties of a scheduler that the page has built, as it passes them.
#[derive(Deserialize)]
struct Built {
    number: u32,
    builds_on: Option<String>,
    wants_idle: Option<bool>,
    reinjects: Option<bool>,
}

impl Page for Outside {
    fn progress(&self, share: f64) -> bool {
        progress(share) != 0
    }

    fn build(&self, name: &str, parameters: &str, seed: f64) -> Option<Instance> {
        let done =
            build(name.as_ptr(), name.len(), parameters.as_ptr(), parameters.len(), seed) != 0;
        let found: Built = done.then(|| serde_json::from_str(&taken(PASSED)).ok()).flatten()?;
        let Built { number, builds_on, wants_idle, reinjects } = found;
        Some(Instance { number, builds_on, wants_idle, reinjects })
    }

    fn schedule(&self, number: u32, numbers: &mut [f64]) -> bool {
        schedule(number, numbers.as_mut_ptr(), numbers.len()) != 0
    }

    fn notify(&self, number: u32, notice: Notice, values: &[f64]) -> bool {
        let kind = match notice {
            Notice::Sent => 0,
            Notice::DataAck => 1,
            Notice::Penalised => 2,
            Notice::Event => 3,
        };
        notify(number, kind, values.as_ptr(), values.len()) != 0
    }

    fn refuse(&self, number: u32, method: &str, reason: &str) {
        refuse(number, method.as_ptr(), method.len(), reason.as_ptr(), reason.len());
    }
}

/// Declares the exports. An unmangled name is unsafe, because two functions could have the same name.
macro_rules! exports {
    ($($(#[doc = $about:literal])* fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)? $body:block)*) => {
        $(
            $(#[doc = $about])*
            #[expect(unsafe_code, reason = "the page finds an export by its name")]
            #[unsafe(no_mangle)]
            extern "C" fn $name($($argument: $kind),*) $(-> $result)? $body
        )*
    };
}

exports! {
    /// Prepares the module. The page must call this once, before all other functions.
    fn start() {
        std::panic::set_hook(Box::new(|info| {
            let message = info.to_string();
            panicked(message.as_ptr(), message.len());
        }));
    }

    /// Allocates an input of this length and returns its address. Input 0 is the plan, 1 the options, and 2
    /// the properties of a scheduler.
    fn input(place: usize, length: usize) -> *mut u8 {
        with(|state| {
            let input = &mut state.inputs[place];
            input.clear();
            input.resize(length, 0);
            input.as_mut_ptr()
        })
    }

    /// Runs the plan.
    fn run() {
        let (plan, options) = (taken(PLAN), taken(OPTIONS));
        let Answer { header, buffers } = crate::run(&plan, &options, Arc::new(Outside));
        with(|state| state.buffers = buffers);
        put(header);
    }

    /// Writes the tables of plug-ins, the layout of a scheduler's numbers, and the name of the build to the
    /// output.
    fn describe() {
        put(serde_json::json!({
            "build": build_name(), "plugins": plugins(), "layout": layout(),
        }).to_string());
    }

    /// Returns the address of the output.
    fn output() -> *const u8 {
        with(|state| state.output.as_ptr())
    }

    /// Returns the length of the output in bytes.
    fn output_length() -> usize {
        with(|state| state.output.len())
    }

    /// Returns the address of a column's values.
    fn buffer(place: usize) -> *const u8 {
        with(|state| match &state.buffers[place] {
            Buffer::Flags(values) => values.as_ptr(),
            Buffer::Numbers(values) => values.as_ptr().cast(),
            Buffer::Words(values) => values.as_ptr().cast(),
        })
    }

    /// Returns the kind of a column's values: 0 for flags, 1 for numbers, 2 for indices of words.
    fn buffer_kind(place: usize) -> u32 {
        with(|state| match &state.buffers[place] {
            Buffer::Flags(_) => 0,
            Buffer::Numbers(_) => 1,
            Buffer::Words(_) => 2,
        })
    }

    /// Frees the output and the columns.
    fn clear() {
        with(|state| *state = State::default());
    }
}

/// Returns the version and the hash of the sources, which `make wasm` sets.
fn build_name() -> String {
    let version = env!("CARGO_PKG_VERSION");
    option_env!("ANABRANCH_SOURCES")
        .map_or_else(|| version.to_owned(), |hash| format!("{version}+{hash}"))
}
