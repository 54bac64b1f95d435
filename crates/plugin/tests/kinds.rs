//! Tests with a kind of plug-in that is defined here: parameters, faults, and a foreign lookup.

use std::sync::Arc;

use anabranch_plugin::{
    AnyKind, Foreign, Kind, Measure, Parameters, PluginChoice, PluginError, PluginFault,
    PluginName, Registry, Unit, build, construct, names, parameters,
};

#[derive(Debug)]
struct Waits;

const WAIT: Measure =
    Measure { key: "wait", unit: Unit::Time, default: 5, range: (1, 10), meaning: "how long" };

impl Kind for Waits {
    const KEY: &'static str = "wait";
    const NOUN: &'static str = "way to wait";
    const TABLE: &'static [(PluginName, Self::Maker)] =
        &[(PluginName::new("idle", "Waits."), |parameters, more| {
            let often = parameters.number_or("often", None, 1.0..=3.0, "ever");
            let how = parameters.word("how", &["still", "loud"]);
            format!("{:?} {often:?} {how} {more}", parameters.time(&WAIT).as_nanos())
        })];
    type Plugin = String;
    type Input = u8;
    type Maker = fn(&mut Parameters<'_>, u8) -> String;

    fn make(maker: Self::Maker, parameters: &mut Parameters<'_>, more: u8) -> String {
        maker(parameters, more)
    }

    fn trial() -> u8 {
        0
    }
}

/// A second kind. A lookup of one kind must not find plug-ins of the other.
#[derive(Debug)]
struct Others;

impl Kind for Others {
    const KEY: &'static str = "other";
    const NOUN: &'static str = "other";
    const TABLE: &'static [(PluginName, ())] = &[];
    type Plugin = u8;
    type Input = ();
    type Maker = ();

    fn make((): (), _: &mut Parameters<'_>, (): ()) -> u8 {
        0
    }

    fn trial() {}
}

fn written(json: &str) -> PluginChoice {
    serde_json::from_str(json).expect("a name and parameters")
}

fn built(json: &str) -> Result<String, PluginError> {
    build::<Waits>(&written(json), &Registry::TABLES, 7)
}

#[test]
fn absent_parameters_have_their_defaults() {
    assert_eq!(built(r#"{"name":"idle"}"#), Ok("5 None still 7".to_owned()));
    let all = r#"{"name":"idle","wait":10,"often":2.5,"how":"loud"}"#;
    assert_eq!(built(all), Ok("10 Some(2.5) loud 7".to_owned()));
    assert_eq!(built(r#"{"name":"idle","often":"ever"}"#), built(r#"{"name":"idle"}"#));
}

#[test]
fn all_faults_are_reported_at_once() {
    let error = built(r#"{"name":"idle","wait":0,"often":true,"how":"quiet","hwo":1}"#);
    let fault = |key: &str, message: &str, known: &[&'static str]| PluginFault {
        path: vec![key.to_owned()],
        message: message.to_owned(),
        known: known.to_vec(),
    };
    // Parameters come in the order in which the plug-in reads them. Unknown keys follow.
    let expected = vec![
        fault("often", "`often` of idle is a number from 1 to 3, or \"ever\", not `true`", &[]),
        fault("how", "`how` of idle is \"still\" or \"loud\", not `quiet`", &["still", "loud"]),
        fault("wait", "`wait` of idle is a whole number from 1 to 10, not `0`", &[]),
        fault("hwo", "unknown parameter of idle: `hwo`", &["often", "how", "wait"]),
    ];
    assert_eq!(error.expect_err("four faults").faults, expected);
    for wait in ["11", "1.5", "-1", "1e300", "\"5\""] {
        built(&format!(r#"{{"name":"idle","wait":{wait}}}"#)).expect_err(wait);
    }
}

#[test]
fn a_table_lists_its_names_and_their_parameters() {
    assert_eq!(names::<Waits>().map(|name| name.name).collect::<Vec<_>>(), ["idle"]);
    let told = parameters::<Waits>("idle").expect("a name of the table");
    let rows: Vec<_> = told.iter().map(|info| (info.key, &*info.default, info.measure)).collect();
    assert_eq!(
        rows,
        [("often", "\"ever\"", None), ("how", "\"still\"", None), ("wait", "5", Some(WAIT))]
    );
    let error = parameters::<Waits>("idel").expect_err("no such name");
    assert_eq!(error.to_string(), "unknown way to wait: `idel`");
    assert_eq!(error.faults[0].known, ["idle"]);
    let any = AnyKind::of::<Waits>();
    assert_eq!((any.key, any.parameters("idle")), ("wait", Ok(told)));
    assert_eq!(any.faults(&PluginChoice::named("idel"), &Registry::TABLES), error.faults);
}

/// A lookup that knows one name more than the table. The flag makes it report a failure.
#[derive(Debug)]
struct Elsewhere(bool);

impl Foreign<Waits> for Elsewhere {
    fn build(&self, choice: &PluginChoice, more: u8) -> Option<Result<String, PluginError>> {
        ["idle", "mine"].contains(&&*choice.name).then(|| Ok(format!("elsewhere {more}")))
    }

    fn failed(&self) -> bool {
        self.0
    }
}

#[test]
fn a_foreign_lookup_extends_the_table_of_its_kind_only() {
    let registry = Registry::TABLES.with::<Waits>(Arc::new(Elsewhere(false)));
    let named = |name: &str| construct::<Waits>(&PluginChoice::named(name), &registry, 3);
    assert_eq!(named("mine"), Ok(("elsewhere 3".to_owned(), Vec::new())));
    assert!(named("idle").expect("the table has the name").0.ends_with("still 3"));
    named("yours").expect_err("no lookup has the name");
    build::<Others>(&PluginChoice::named("mine"), &registry, ())
        .expect_err("the name belongs to another kind");
    assert!(!registry.failed() && !Registry::TABLES.failed());
    let broken = registry.with::<Waits>(Arc::new(Elsewhere(true)));
    assert!(broken.failed(), "the later lookup replaces the earlier one");
    assert!(!broken.with::<Waits>(Arc::new(Elsewhere(false))).failed());
    assert_eq!(registry, registry.clone());
    assert_ne!(registry, broken);
}

#[test]
fn a_written_name_may_be_a_short_form_at_every_level() {
    let table = r#"{"name":"a(k=1)","j":true,"base":{"name":"b(c)","text":"t"}}"#;
    let choice = written(table).resolved().expect("nothing is given twice");
    assert_eq!(choice.to_string(), "a(b(c, text=t), j=true, k=1)");
    let parts: Vec<_> = choice.parts().map(|part| part.name).collect();
    assert_eq!(parts, ["a", "b", "c"]);
    let twice = r#"{"name":"a","base":{"name":"b(k=1)","k":2}}"#;
    let error = written(twice).resolved().expect_err("twice");
    assert_eq!(error.to_string(), "`k` is given twice: in `b(k=1)` and beside it");
    assert_eq!(error.faults[0].path, ["base", "k"]);
}
