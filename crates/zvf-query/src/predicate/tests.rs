//! The grammar and the messages as tables, and the rows that satisfy a predicate.

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Predicate {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn parses_texts_to_predicates() {
    for (text, printed) in [
        ("a=1", "a = 1"),
        ("a == -1.5e3", "a = -1500.0"),
        ("2 < a", "a > 2"),
        ("1 <= a < 5", "a >= 1 and a < 5"),
        ("a<>18446744073709551615", "a != 18446744073709551615"),
        ("not a = 1 and b = 2", "not (a = 1) and b = 2"),
        ("not (a = 1 and b = 2)", "not (a = 1 and b = 2)"),
        ("a = 1 or b = 2 and c = 3", "a = 1 or (b = 2 and c = 3)"),
        ("a in (1, 'x', \"y\\\"z\")", "a in (1, \"x\", \"y\\\"z\")"),
        ("a not in (1)", "not (a in (1))"),
        ("a is null or a is not null", "a is null or not (a is null)"),
        ("object.length>=2", "object.length >= 2"),
        ("vertex.`or`[2] = true", "`or`[2] = true"),
        ("link.`a b` < 1", "link.`a b` < 1"),
        ("`a\\`b` = 1", "`a\\`b` = 1"),
        ("`a\\\\b` = 1", "`a%5Cb` = 1"),
        ("true", "true"),
        ("false", "false"),
    ] {
        let condition = parse(text);
        assert_eq!(condition.to_string(), printed, "{text}");
        assert_eq!(parse(printed), condition, "{printed}");
    }
}

#[test]
fn messages_name_the_position() {
    for (text, at, expected) in [
        ("", 0, "the name of a column, which is in backquotes unless it is a plain word"),
        ("a", 1, "a comparison, in, or is null"),
        ("a = ", 4, "a number, a text in quotes, true or false"),
        ("a = 'x", 4, "a closing quote"),
        ("`a = 1", 0, "a closing backquote"),
        ("a = 1 b", 6, "and, or, or the end"),
        ("(a = 1", 6, "a closing parenthesis"),
        ("a in 1", 5, "a list in parentheses"),
        ("a in (1", 7, "a comma or a closing parenthesis"),
        ("a is 3", 5, "null"),
        ("node.a = 1", 0, "vertex, fragment, object, group or link before the dot"),
        ("a[x] = 1", 2, "an index"),
        ("a[1 = 1", 4, "a closing bracket"),
        ("1", 1, "a comparison"),
        ("a ? 1", 2, parse::ODD_CHARACTER),
        ("a = 1e999", 4, "a number"),
        ("a = and", 4, "a number, a text in quotes, true or false"),
    ] {
        let error = text.parse::<Predicate>().unwrap_err();
        assert_eq!((error.at, error.expected), (at, expected), "{text}");
    }
    let nested = "not ".repeat(65) + "a = 1";
    let expected = "at most 64 conditions inside each other";
    assert_eq!(nested.parse::<Predicate>().unwrap_err().expected, expected);
    let wide = "(a = 1) or ".repeat(200) + "a = 1";
    assert!(wide.parse::<Predicate>().is_ok(), "width is not depth");
    assert!("x".repeat(70_000).parse::<Predicate>().is_err());
}

#[test]
fn rows_that_satisfy() {
    for (text, value, expected) in [
        ("a > 2", Value::Int(3), true),
        ("a > 2", Value::Float(2.0), false),
        ("a >= 2", Value::Float(2.0), true),
        ("a != 2", Value::Null, false),
        ("not a = 2", Value::Null, true),
        ("a is null", Value::Null, true),
        ("a is null", Value::Float(f64::NAN), false),
        ("a != 1", Value::Float(f64::NAN), false),
        ("a in ('x', 'y')", Value::from("y"), true),
        ("a in (1, 2)", Value::from("y"), false),
        ("a = true", Value::Bool(true), true),
        ("1 < a <= 3", Value::UInt(3), true),
        ("1 < a <= 3", Value::UInt(1), false),
        ("true", Value::Null, true),
        ("false", Value::Null, false),
    ] {
        assert_eq!(parse(text).holds(&mut |_| value.clone()), expected, "{text}, {value}");
    }
}

#[test]
fn columns_are_listed_once() {
    let condition = parse("a > 1 and (a < 3 or object.b[1] = 2) and a[1] = 0");
    let names: Vec<String> = condition.columns().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["a", "a[1]", "object.b[1]"]);
    let scopes: Vec<Scope> = condition.columns().iter().map(|column| column.scope).collect();
    assert_eq!(scopes, [Scope::Vertex, Scope::Vertex, Scope::Object]);
}

proptest! {
    /// Any text is parsed or rejected, and a parsed predicate prints to an equivalent text.
    #[test]
    fn any_text(text in "[a-c0-9 .=<>!()'\"`,\\[\\]andortui]{0,40}") {
        if let Ok(condition) = text.parse::<Predicate>() {
            prop_assert_eq!(parse(&condition.to_string()), condition);
        }
    }
}
