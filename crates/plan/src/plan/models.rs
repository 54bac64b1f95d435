//! Models and recordings that a link can follow instead of a fixed rate and delay.

use std::sync::Arc;

use anabranch_link::model::{LteModel, ModelFault, NrModel, StarlinkModel};
use anabranch_link::{ConfigError, LoadDependentTrace, Model, Trace, TraceStep, WifiModel};
use anabranch_units::{Duration, Rate};
use serde::Deserialize;

use crate::fault::PlanError;

/// A model of a link.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelPlan {
    /// Two recordings of one link, under light and under heavy load.
    Load(LoadPlan),
    /// A cellular radio.
    Lte(LteModel),
    /// A 5G radio.
    #[serde(rename = "5g")]
    Nr(NrModel),
    /// Recorded delivery opportunities.
    Opportunities(OpportunitiesPlan),
    /// A satellite terminal.
    Starlink(StarlinkModel),
    /// Recorded rates, delays and losses.
    Steps(StepsPlan),
    /// A lane of an 802.11 channel.
    Wifi(WifiModel),
}

/// A recording of link conditions, one column per property; see [`Trace::Steps`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepsPlan {
    /// The start of each step; the first is 0.
    pub begin_ns: Vec<u64>,
    /// The rate of each step.
    pub rates_bps: Vec<u64>,
    /// The one-way delay of each step, in addition to the link's own delay.
    pub delays_ns: Vec<u64>,
    /// The fraction of lost packets in each step.
    pub losses: Vec<f64>,
    /// The period of the recording. If absent, the last step lasts forever.
    #[serde(default)]
    pub repeat_ns: Option<u64>,
}

/// Recorded delivery opportunities; see [`Trace::Opportunities`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpportunitiesPlan {
    /// The time of each opportunity.
    pub opportunities_ns: Vec<u64>,
    /// The number of bytes per opportunity.
    pub opportunity_bytes: u64,
}

/// Two recordings of one link; see [`LoadDependentTrace`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPlan {
    /// The recording under light load.
    pub light: RecordingPlan,
    /// The recording under heavy load.
    pub heavy: RecordingPlan,
    /// The number of bytes at the beginning of a burst that the light recording serves.
    pub light_bytes: u64,
    /// The time without a packet in the queue after which a burst begins.
    pub idle_ns: u64,
}

/// One recording.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordingPlan {
    /// Recorded delivery opportunities.
    Opportunities(OpportunitiesPlan),
    /// Recorded rates, delays and losses.
    Steps(StepsPlan),
}

impl RecordingPlan {
    fn trace(&self) -> Result<Trace, ConfigError> {
        match self {
            Self::Opportunities(plan) => Ok(plan.trace()),
            Self::Steps(plan) => plan.trace(),
        }
    }
}

impl LoadPlan {
    fn trace(&self) -> Result<LoadDependentTrace, ConfigError> {
        Ok(LoadDependentTrace {
            light: self.light.trace()?,
            heavy: self.heavy.trace()?,
            light_bytes: self.light_bytes,
            idle: Duration::from_nanos(self.idle_ns),
        })
    }
}

impl StepsPlan {
    fn trace(&self) -> Result<Trace, ConfigError> {
        let length = self.begin_ns.len();
        if [self.rates_bps.len(), self.delays_ns.len(), self.losses.len()] != [length; 3] {
            return Err(ConfigError::Trace);
        }
        let step = |n: usize| TraceStep {
            at: Duration::from_nanos(self.begin_ns[n]),
            rate: Rate::from_bps(self.rates_bps[n]),
            delay: Duration::from_nanos(self.delays_ns[n]),
            loss: self.losses[n],
        };
        let steps: Arc<[TraceStep]> = (0..length).map(step).collect();
        Ok(Trace::Steps { steps, repeat: self.repeat_ns.map(Duration::from_nanos) })
    }
}

impl OpportunitiesPlan {
    fn trace(&self) -> Trace {
        let at = self.opportunities_ns.iter().copied().map(Duration::from_nanos).collect();
        Trace::Opportunities { at, bytes: self.opportunity_bytes }
    }
}

impl ModelPlan {
    /// Parses the JSON of a model in a plan.
    ///
    /// # Errors
    /// Returns an error for text that is not a model of a plan.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        Ok(serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text))?)
    }

    /// Returns the model of a varying link; `None` for a lane of an 802.11 channel.
    ///
    /// # Errors
    /// Returns an error for settings that a link cannot have.
    pub fn model(&self) -> Result<Option<Model>, ConfigError> {
        Ok(Some(match self {
            Self::Load(plan) => Model::LoadDependent(plan.trace()?),
            Self::Lte(model) => Model::Lte(model.clone()),
            Self::Opportunities(plan) => Model::Trace(plan.trace()),
            Self::Nr(model) => Model::Nr(model.clone()),
            Self::Starlink(model) => Model::Starlink(model.clone()),
            Self::Steps(plan) => Model::Trace(plan.trace()?),
            Self::Wifi(_) => return Ok(None),
        }))
    }

    /// Returns a low estimate of TCP's throughput over the model, bit/s; `None` for a recording.
    pub fn likely_bps(&self) -> Option<f64> {
        match self {
            Self::Lte(model) => Some(model.likely_bps()),
            Self::Nr(model) => Some(model.likely_bps()),
            Self::Starlink(model) => Some(model.likely_bps()),
            Self::Wifi(model) => Some(model.likely_bps()),
            Self::Load(_) | Self::Opportunities(_) | Self::Steps(_) => None,
        }
    }

    /// Returns the faults of parameters that are valid separately but not together.
    pub fn faults(&self) -> Vec<ModelFault> {
        match self {
            Self::Wifi(model) => model.faults(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_link::model::{Form, MODELS, ModelKind, Usual};
    use serde_json::{Map, Value, json};

    use super::*;

    /// Returns the JSON of a model in a plan, if the scenario sets no parameter.
    fn usual(kind: &ModelKind) -> Map<String, Value> {
        let words = |key: &str| {
            let found = kind.parameters.iter().find(|it| it.key == key).map(|it| it.form);
            let Some(Form::Word(words)) = found else { panic!("{key} is no word") };
            words[0]
        };
        let value = |form: &Form| match form {
            Form::Way => json!("down"),
            Form::Place | Form::Shared => json!("p"),
            Form::Word(words) => json!(words[0]),
            Form::Quantity { usual: Usual::Open, .. } => Value::Null,
            Form::Quantity { usual: Usual::Is(number), .. } => whole(*number),
            Form::Quantity { usual: Usual::By(key, table), .. } => {
                let word = words(key);
                whole(table.iter().find(|(known, _)| *known == word).expect("every word").1)
            }
        };
        kind.parameters.iter().map(|it| (it.plan.to_owned(), value(&it.form))).collect()
    }

    /// Returns a number as JSON: an integer if it has no fraction.
    fn whole(number: f64) -> Value {
        if number.fract() == 0.0 { json!(number as u64) } else { json!(number) }
    }

    fn read(kind: &ModelKind, settings: &Map<String, Value>) -> Result<ModelPlan, PlanError> {
        ModelPlan::from_json(&json!({ kind.name: settings }).to_string())
    }

    #[test]
    fn a_plan_accepts_every_model_of_the_table_with_every_word() {
        for kind in MODELS {
            let settings = usual(kind);
            let model = read(kind, &settings).unwrap_or_else(|error| panic!("{error}"));
            assert!(model.likely_bps().is_some_and(|bps| bps > 1e6), "{}", kind.name);
            assert_eq!(model.faults(), [], "{}", kind.name);
            for it in kind.parameters {
                let Form::Word(words) = it.form else { continue };
                for word in words {
                    let mut told = settings.clone();
                    told.insert(it.plan.to_owned(), json!(word));
                    assert!(read(kind, &told).is_ok(), "{}: {word}", kind.name);
                    told.insert(it.plan.to_owned(), json!("none of them"));
                    assert!(read(kind, &told).is_err(), "{}: {}", kind.name, it.plan);
                }
            }
            for (_, key, word) in kind.short {
                let words = kind.parameters.iter().find(|it| it.key == *key).map(|it| it.form);
                assert!(matches!(words, Some(Form::Word(words)) if words.contains(word)), "{word}");
            }
        }
    }

    #[test]
    fn the_models_refuse_values_above_the_limits_of_the_table() {
        for kind in MODELS {
            for it in kind.parameters {
                let Form::Quantity { most, below, .. } = it.form else { continue };
                if !most.is_finite() {
                    continue;
                }
                let mut settings = usual(kind);
                settings.insert(it.plan.to_owned(), whole(most + if below { 0.0 } else { 1.0 }));
                let refused = match read(kind, &settings) {
                    Err(_) => true,
                    Ok(ModelPlan::Wifi(model)) => model.check().is_err(),
                    Ok(plan) => {
                        plan.model().is_ok_and(|it| it.is_some_and(|it| it.check().is_err()))
                    }
                };
                assert!(refused, "{} of {}", it.key, kind.name);
            }
        }
    }
}
