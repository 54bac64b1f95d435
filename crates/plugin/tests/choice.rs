//! Tests of the short form of a choice: names, paths of classes, quotes and parameters.

use anabranch_plugin::{PluginChoice, Value};

fn named(name: &str) -> PluginChoice {
    PluginChoice::named(name)
}

#[test]
fn short_form_parses_to_the_full_plugin_choice() {
    let lambda = named("blest").with("lambda", Value::Number(1.1));
    let whole = named("rtx-aware").with("base", Value::Plugin(lambda));
    let text = "rtx-aware(blest(lambda=1.1))";
    assert_eq!(PluginChoice::parse(text), Ok(whole.clone()));
    assert_eq!(whole.to_string(), text);
    let two = PluginChoice::parse(" a( b , k = auto, flag=true) ").expect("spaces do not count");
    assert_eq!(two.to_string(), "a(b, flag=true, k=auto)");
    for broken in ["", "a(", "a)", "a(b))", "a((b)", "a(b, c)", "a(k=1, k=2)", "a()", "(a)"] {
        let error = PluginChoice::parse(broken).expect_err(broken);
        assert_eq!(error.faults.len(), 1, "{broken}");
    }
}

#[test]
fn quotes_and_places_are_names_as_they_are() {
    for place in ["x(1)/mine.py:X", "c,d/mine.py:X", "e=f/mine.py:X", "plain.py:X"] {
        assert_eq!(PluginChoice::parse(place), Ok(named(place)));
        let over = named("rtx-aware").with("base", Value::Plugin(named(place)));
        let limited = named(place).with("k", Value::Text("a,(b".to_owned()));
        for (text, expected) in [
            (format!("rtx-aware(\"{place}\")"), &over),
            (format!("rtx-aware(base=\"{place}\")"), &over),
            (format!("\"{place}\"(k=\"a,(b\")"), &limited),
        ] {
            assert_eq!(PluginChoice::parse(&text).as_ref(), Ok(expected), "{text}");
        }
        for choice in [&over, &limited] {
            assert_eq!(PluginChoice::parse(&choice.to_string()).as_ref(), Ok(choice));
        }
    }
    for broken in ["\"a", "a\"b\"", "\"\"", "a(\"b)", "\"a\"b(c)", "rtx-aware(c,d/mine.py:X)"] {
        PluginChoice::parse(broken).expect_err(broken);
    }
}
