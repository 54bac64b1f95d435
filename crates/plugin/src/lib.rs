//! The mechanism that all kinds of plug-ins share: choice, parameters, faults, tables of names, and plug-ins
//! outside the tables.
//!
//! A kind of plug-in is a marker type that implements [`Kind`] in the crate that owns it. The implementation
//! defines the type of its plug-ins, the table of their names, and the input from which they are built. A
//! plug-in is one file and one entry in that table.
//!
//! ```
//! use anabranch_plugin::{Kind, Parameters, PluginChoice, PluginName, Registry, Value, build};
//!
//! /// Numbers that grow.
//! #[derive(Debug)]
//! struct Growths;
//!
//! impl Kind for Growths {
//!     const KEY: &'static str = "growth";
//!     const NOUN: &'static str = "growth";
//!     const TABLE: &'static [(PluginName, Self::Maker)] =
//!         &[(PluginName::new("doubling", "Twice as much."), |parameters| {
//!             parameters.number("by", 2.0, 1.0..=10.0)
//!         })];
//!     type Plugin = f64;
//!     type Input = ();
//!     type Maker = fn(&mut Parameters<'_>) -> f64;
//!
//!     fn make(maker: Self::Maker, parameters: &mut Parameters<'_>, (): ()) -> f64 {
//!         maker(parameters)
//!     }
//!
//!     fn trial() {}
//! }
//!
//! let choice = PluginChoice::parse("doubling(by=11)").unwrap();
//! let error = build::<Growths>(&choice, &Registry::TABLES, ()).unwrap_err();
//! assert_eq!(error.to_string(), "`by` of doubling is a number from 1 to 10, not `11`");
//! let choice = PluginChoice::named("doubling").with("by", 3.0);
//! assert_eq!(build::<Growths>(&choice, &Registry::TABLES, ()), Ok(3.0));
//! ```

mod choice;
mod fault;
mod foreign;
mod kind;
mod measure;
mod parameters;
mod registry;
mod table;
mod written;

pub use choice::{LEVELS, PluginChoice, Value};
pub use fault::{PluginError, PluginFault};
pub use foreign::Foreign;
pub use kind::{Kind, PluginName};
pub use measure::{Measure, Unit};
pub use parameters::{ParameterInfo, Parameters};
pub use registry::Registry;
pub use table::{AnyKind, build, construct, names, parameters};
