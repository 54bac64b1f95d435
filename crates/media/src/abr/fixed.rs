//! A rule that always chooses the same rendition.

use anabranch_plugin::Parameters;

use super::{AbrDecision, AbrRule, AbrView};

/// The rule with a fixed rendition: an index from the lowest (0), or the highest if `None`.
#[derive(Debug)]
pub(super) struct Fixed {
    rendition: Option<usize>,
}

impl Fixed {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn AbrRule> {
        let number = parameters.number_or("rendition", None, 0.0..=1000.0, "highest");
        Box::new(Self { rendition: number.map(|number| number as usize) })
    }
}

impl AbrRule for Fixed {
    fn choose(&mut self, view: &AbrView<'_>) -> AbrDecision {
        let highest = view.renditions() - 1;
        AbrDecision::Fetch(self.rendition.unwrap_or(highest).min(highest))
    }
}

#[cfg(test)]
mod tests {
    use crate::abr::AbrDecision::Fetch;
    use crate::abr::testing::{ask, ladder, rule};

    #[test]
    fn the_configured_rendition_is_chosen_at_any_buffer() {
        let ladder = ladder(&[1, 2, 3]);
        for (text, rendition) in [
            (r#"{"name":"fixed"}"#, 2),
            (r#"{"name":"fixed","rendition":"highest"}"#, 2),
            (r#"{"name":"fixed","rendition":0}"#, 0),
            (r#"{"name":"fixed","rendition":9}"#, 2),
        ] {
            for buffer in [0.0, 30.0] {
                assert_eq!(ask(&mut *rule(text), &ladder, (0, None), buffer), Fetch(rendition));
            }
        }
    }
}
