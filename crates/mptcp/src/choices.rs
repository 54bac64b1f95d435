//! Parameters of schedulers and congestion controllers that a kernel generation sets unless the user has set
//! them.

use std::sync::Arc;

use anabranch_plugin::{PluginChoice, Value};

use crate::config::Config;
use crate::profile::{LINUX_6_18, Stack};
use anabranch_congestion as congestion;
use anabranch_scheduler as scheduler;

impl Stack {
    /// Adds the parameters of this stack to a chosen congestion controller.
    #[must_use]
    pub fn congestion(&self, choice: PluginChoice) -> PluginChoice {
        // The `printed` form of CUBIC has no slow-start exit and rejects the parameter `hystart`.
        let printed = choice.parameters.get("form") == Some(&Value::Text("printed".to_owned()));
        let hystart = (self.tcp.hystart != LINUX_6_18.tcp.hystart && !printed)
            .then(|| self.tcp.hystart.word());
        let form = self.tcp.kernel_forms.then_some("kernel");
        let bbr = self.tcp.kernel_forms.then_some("linux-4.14");
        let set = [("hystart", hystart), ("form", form), ("form", bbr)];
        let known = congestion::parameters(&choice.name).unwrap_or_default();
        let probes = known.iter().any(|info| info.key == "outage_probe");
        let keeps_min_rtt = (probes && !self.tcp.outage_probe).then_some("outage_probe");
        fill(
            choice,
            set.into_iter()
                .filter_map(|(key, word)| Some((key, word?)))
                .filter(|(key, word)| {
                    let quoted = format!("\"{word}\"");
                    known.iter().any(|info| info.key == *key && info.allowed.contains(&quoted))
                })
                .map(|(key, word)| (key, Value::Text(word.to_owned())))
                .chain(keeps_min_rtt.map(|key| (key, Value::Flag(false)))),
        )
    }

    /// Adds the parameters of this stack to a chosen scheduler, and to the schedulers that it builds on.
    #[must_use]
    pub fn scheduler(&self, mut choice: PluginChoice) -> PluginChoice {
        if let Some(Value::Plugin(base)) = choice.parameters.get_mut("base") {
            *base = self.scheduler(std::mem::take(base));
        }
        let set = [
            ("retransmission", self.mptcp.opportunistic_retransmission),
            ("penalisation", self.mptcp.penalisation),
        ];
        let off = set.into_iter().filter(|(_, on)| !on).map(|(key, on)| (key, Value::Flag(on)));
        let turns = ["piece", "window"].map(|word| ("turn", Value::Text(word.to_owned())));
        let turns = turns.into_iter().filter(|_| self.shared.tag_per_handover);
        let known = scheduler::parameters(&choice.name).unwrap_or_default();
        let takes = |key: &str, value: &Value| {
            let fits = |allowed: &str| match value {
                Value::Text(word) => allowed.contains(&format!("\"{word}\"")),
                _ => true,
            };
            known.iter().any(|info| info.key == key && fits(&info.allowed))
        };
        fill(choice, off.chain(turns).filter(|(key, value)| takes(key, value)))
    }
}

/// Adds parameters, except those that the choice already has.
fn fill(
    mut choice: PluginChoice,
    set: impl Iterator<Item = (&'static str, Value)>,
) -> PluginChoice {
    for (key, value) in set {
        choice.parameters.entry(key.to_owned()).or_insert(value);
    }
    choice
}

impl Config {
    /// Returns the configuration that connections share, with the plug-in parameters of the stack added.
    pub(crate) fn settled(mut self) -> Arc<Self> {
        self.scheduler = self.stack.scheduler(self.scheduler);
        self.congestion = self.stack.congestion(self.congestion);
        Arc::new(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::MPTCP_0_94;
    use anabranch_tcp::stack::HyStart;

    fn parameter(choice: &PluginChoice, key: &str) -> Option<Value> {
        choice.parameters.get(key).cloned()
    }

    fn word(word: &str) -> Value {
        Value::Text(word.to_owned())
    }

    #[test]
    fn the_default_profile_leaves_every_choice_as_it_is() {
        for known in congestion::names() {
            let choice = PluginChoice::named(known.name);
            assert_eq!(LINUX_6_18.congestion(choice.clone()), choice);
        }
        for known in scheduler::names() {
            let choice = PluginChoice::named(known.name);
            assert_eq!(LINUX_6_18.scheduler(choice.clone()), choice);
        }
    }

    #[test]
    fn controllers_default_to_the_stack_form_unless_overridden() {
        for name in ["lia", "olia", "balia", "wvegas"] {
            let choice = MPTCP_0_94.congestion(PluginChoice::named(name));
            assert_eq!(parameter(&choice, "form"), Some(word("kernel")), "{name}");
            let given = PluginChoice::named(name).with("form", Value::Text("reference".into()));
            assert_eq!(MPTCP_0_94.congestion(given.clone()), given, "{name}");
        }
        let bbr = MPTCP_0_94.congestion(PluginChoice::named("bbr"));
        assert_eq!(parameter(&bbr, "form"), Some(word("linux-4.14")));
        let cubic = MPTCP_0_94.congestion(PluginChoice::named("cubic"));
        assert_eq!(parameter(&cubic, "hystart"), Some(word("linux-4.14")));
        assert_eq!(parameter(&cubic, "form"), None, "CUBIC's forms are others");
        let reno = PluginChoice::named("reno");
        assert_eq!(MPTCP_0_94.congestion(reno.clone()), reno);
        let mut off = LINUX_6_18;
        off.tcp.hystart = HyStart::Off;
        let cubic = off.congestion(PluginChoice::named("cubic"));
        assert_eq!(parameter(&cubic, "hystart"), Some(word("off")));
        let printed = PluginChoice::named("cubic").with("form", word("printed"));
        assert_eq!(MPTCP_0_94.congestion(printed.clone()), printed);
    }

    #[test]
    fn schedulers_take_their_turns_and_parts_also_below_others() {
        let mut stack = MPTCP_0_94;
        stack.mptcp.penalisation = false;
        let base = Value::Plugin(PluginChoice::named("dft"));
        let outer = stack.scheduler(PluginChoice::named("rtx-aware").with("base", base));
        let Some(Value::Plugin(dft)) = parameter(&outer, "base") else { panic!("{outer}") };
        assert_eq!(parameter(&dft, "penalisation"), Some(Value::Flag(false)));
        assert_eq!(parameter(&dft, "retransmission"), None, "it is on anyway");
        assert_eq!(parameter(&dft, "turn"), Some(word("window")));
        let redundant = stack.scheduler(PluginChoice::named("redundant"));
        assert_eq!(parameter(&redundant, "turn"), Some(word("piece")));
        let turns = PluginChoice::named("round-robin");
        assert_eq!(stack.scheduler(turns.clone()), turns);
    }
}
