//! A plug-in as a plan has it written: names may be short forms, at every level.

use crate::choice::{LEVELS, PluginChoice, Value, too_deep};
use crate::fault::PluginError;

impl PluginChoice {
    /// The choice in which every name that is a short form is taken apart.
    ///
    /// # Errors
    /// What is no short form, a parameter that is given within one and beside it, more than
    /// [`LEVELS`] levels.
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

    /// The plug-in and those that it builds on, one below the other.
    pub fn parts(&self) -> impl Iterator<Item = Self> + use<> {
        std::iter::successors(Some(self.clone()), |part| match part.parameters.get("base") {
            Some(Value::Plugin(base)) => Some(base.clone()),
            Some(Value::Text(base)) => Self::parse(base).ok(),
            _ => None,
        })
    }
}
