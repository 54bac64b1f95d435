//! The values that a plug-in in Python receives. They are frozen, and their names end with their units.

use anabranch_units::{Duration, Instant, Rate};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Defines a class of frozen attributes. Python code can create an instance from some attributes, and the
/// others have defaults.
macro_rules! view {
    (
        $(#[doc = $about:literal])*
        $name:ident {
            $($(#[doc = $doc:literal])* $field:ident: $kind:ty = $default:expr,)*
        }
    ) => {
        $(#[doc = $about])*
        #[pyclass(frozen, get_all, from_py_object, module = "anabranch.plugins")]
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct $name {
            $($(#[doc = $doc])* pub(crate) $field: $kind,)*
        }

        #[pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = (**given))]
            fn new(given: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
                let mut view = Self { $($field: $default,)* };
                for (key, value) in given.into_iter().flatten() {
                    match key.cast::<PyString>()?.to_str()? {
                        $(stringify!($field) => view.$field = value.extract()?,)*
                        other => {
                            let what = concat!(stringify!($name), " has no attribute");
                            return Err(PyTypeError::new_err(format!("{what} `{other}`")));
                        }
                    }
                }
                view.settle();
                Ok(view)
            }

            fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
                let mut parts = Vec::new();
                $(
                    let value = slf.getattr(stringify!($field))?.repr()?;
                    parts.push(format!("{}={value}", stringify!($field)));
                )*
                Ok(format!("{}({})", stringify!($name), parts.join(", ")))
            }
        }
    };
}

/// Defines a closed set of words, which are strings in Python.
macro_rules! words {
    ($(#[doc = $about:literal])* $name:ident { $($word:literal,)* }) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $name(pub(crate) &'static str);

        impl<'py> IntoPyObject<'py> for $name {
            type Target = PyString;
            type Output = Bound<'py, PyString>;
            type Error = std::convert::Infallible;

            fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
                Ok(match self.0 {
                    $($word => intern!(py, $word).clone(),)*
                    other => PyString::new(py, other),
                })
            }
        }

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                match object.cast::<PyString>()?.to_str()? {
                    $($word => Ok(Self($word)),)*
                    other => {
                        let all = [$(concat!("\"", $word, "\"")),*].join(", ");
                        Err(PyValueError::new_err(format!("\"{other}\" is not one of {all}")))
                    }
                }
            }
        }
    };
}

mod controlling;
mod playing;
mod scheduling;

pub(crate) use controlling::{
    AckSample, Cause, CongestionEvent, LostSegment, SiblingView, TransmitStart,
};
pub(crate) use playing::{ChunkSample, Loading, PlayerView, Rendition};
pub(crate) use scheduling::{SendRequest, SubflowEvent, SubflowView};

words! {
    /// A congestion state, with the names that `ss` prints.
    State { "Open", "Disorder", "CWR", "Recovery", "Loss", }
}
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

pub(crate) fn at_ms(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e6
}

fn mbps(rate: Rate) -> f64 {
    if rate == Rate::UNLIMITED { f64::INFINITY } else { rate.bps() as f64 / 1e6 }
}

/// Computes the attributes that depend on other attributes, for views that Python code creates.
trait Settle {
    fn settle(&mut self) {}
}
