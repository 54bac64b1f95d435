//! Plug-ins as written in a plan. At every level, the name may be a short form.

use crate::choice::{LEVELS, PluginChoice, Value, too_deep};
use crate::fault::PluginError;

impl PluginChoice {
    /// Returns the choice with all short forms expanded.
    ///
    /// # Errors
    /// Returns an error for text that is not a short form, and for more than [`LEVELS`] levels. Also returns
    /// one for a parameter that is given both inside a short form and next to it.
    pub fn resolved(self) -> Result<Self, PluginError> {
        let choice = self.taken_apart()?;
        if choice.parts().nth(LEVELS).is_some() { Err(too_deep()) } else { Ok(choice) }
    }

    fn taken_apart(self) -> Result<Self, PluginError> {
        let mut choice = Self::parse(&self.name)?;
        for (key, value) in self.parameters {
            let value = match value {
                Value::Plugin(inner) => {
                    Value::Plugin(inner.taken_apart().map_err(|error| error.below(&key))?)
                }
                other => other,
            };
            if choice.parameters.contains_key(&key) {
                let message = format!("`{key}` is given twice: in `{}` and beside it", self.name);
                return Err(PluginError::one(&[&key], message, Vec::new()));
            }
            choice.parameters.insert(key, value);
        }
        Ok(choice)
    }

    /// Returns the plug-in and those on which it builds, from the outermost to the innermost.
    pub fn parts(&self) -> impl Iterator<Item = Self> + use<> {
        std::iter::successors(Some(self.clone()), |part| match part.parameters.get("base") {
            Some(Value::Plugin(base)) => Some(base.clone()),
            Some(Value::Text(base)) => Self::parse(base).ok(),
            _ => None,
        })
    }
}
