//! The text of a recipe as a tree in which every value has its line and column.
//!
//! YAML is read event by event, and so is JSON, a subset of YAML; TOML has its own parser. Anchors, tags and second
//! documents are refused: variables replace anchors.
//!
//! The meaning of keys is in [`super::recipe`].

#![expect(clippy::wildcard_enum_match_arm, reason = "events and values of other kinds are refused")]

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};
use toml_span::value::ValueInner;

/// A place in a recipe, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// A value and its position.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) mark: Mark,
    pub(super) value: Value,
}

/// A value of a recipe.
#[derive(Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// Text, or a number as it is written.
    Text(String),
    List(Vec<Node>),
    /// Keys in the order of the text, each with its place.
    Map(Vec<(String, Mark, Node)>),
}

impl Value {
    /// Names the type of the value.
    pub(super) const fn noun(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a table of keys",
        }
    }
}

/// A fault of a recipe.
#[derive(Debug)]
pub(super) struct Flaw {
    pub(super) mark: Mark,
    pub(super) text: String,
}

impl Flaw {
    pub(super) fn new(mark: Mark, text: impl Into<String>) -> Self {
        Self { mark, text: text.into() }
    }

    /// Returns the fault of a value that is not what is expected there.
    pub(super) fn unexpected(mark: Mark, expected: &str, found: &Value) -> Self {
        Self::new(mark, format!("expected {expected}, found {}", found.noun()))
    }
}

/// The syntax of a recipe.
#[derive(Clone, Copy, Debug)]
pub(super) enum Syntax {
    /// YAML, which includes JSON.
    Yaml,
    Toml,
}

impl Syntax {
    /// Returns the syntax for the extension of a file; YAML where it is unknown.
    pub(super) fn from_name(name: &str) -> Self {
        if name.to_ascii_lowercase().ends_with(".toml") { Self::Toml } else { Self::Yaml }
    }
}

/// Parses a text.
pub(super) fn parse(text: &str, syntax: Syntax) -> Result<Node, Flaw> {
    match syntax {
        Syntax::Toml => parse_toml(text),
        Syntax::Yaml => parse_yaml(text),
    }
}

pub(super) const START: Mark = Mark { line: 1, column: 1 };

fn to_mark(marker: Marker) -> Mark {
    Mark { line: marker.line().max(1), column: marker.col() + 1 }
}

/// A list or a table that is not complete.
enum Open {
    List(Mark, Vec<Node>),
    Map(Mark, Vec<(String, Mark, Node)>, Option<(String, Mark)>),
}

fn parse_yaml(text: &str) -> Result<Node, Flaw> {
    let mut open: Vec<Open> = Vec::new();
    let mut root = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            Flaw::new(to_mark(*error.marker()), format!("no YAML: {}", error.info()))
        })?;
        let mark = to_mark(span.start);
        let node = match event {
            Event::Alias(_) => {
                return Err(Flaw::new(mark, "an alias is not read; use vars and ${NAME}"));
            }
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) if anchor > 0 => {
                return Err(Flaw::new(mark, "an anchor is not read; use vars and ${NAME}"));
            }
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() >= MAX_DEPTH => {
                return Err(Flaw::new(mark, format!("more than {MAX_DEPTH} levels of nesting")));
            }
            Event::SequenceStart(..) => {
                open.push(Open::List(mark, Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(mark, Vec::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(mark, items)) => Node { mark, value: Value::List(items) },
                Some(Open::Map(mark, items, _)) => Node { mark, value: Value::Map(items) },
                None => continue,
            },
            Event::Scalar(text, style, ..) => Node { mark, value: to_scalar(&text, style) },
            Event::DocumentStart(_) if root.is_some() => {
                return Err(Flaw::new(mark, "a second document; a recipe is one"));
            }
            _ => continue,
        };
        match open.last_mut() {
            None => root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(_, items, key)) => push_entry(items, key, node)?,
        }
    }
    root.ok_or_else(|| Flaw::new(START, "an empty recipe; expected steps"))
}

/// Adds a node to a table: a key, or the value of the key before it.
fn push_entry(
    items: &mut Vec<(String, Mark, Node)>,
    key: &mut Option<(String, Mark)>,
    node: Node,
) -> Result<(), Flaw> {
    if let Some((name, mark)) = key.take() {
        items.push((name, mark, node));
        return Ok(());
    }
    let Value::Text(name) = node.value else {
        return Err(Flaw::unexpected(node.mark, "a key", &node.value));
    };
    if items.iter().any(|(existing, ..)| *existing == name) {
        return Err(Flaw::new(node.mark, format!("the key {name:?} twice")));
    }
    *key = Some((name, node.mark));
    Ok(())
}

fn to_scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::Text(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        text => Value::Text(text.to_owned()),
    }
}

fn parse_toml(text: &str) -> Result<Node, Flaw> {
    check_depth(text)?;
    let places = Places::new(text);
    let parsed = toml_span::parse(text)
        .map_err(|error| Flaw::new(places.mark(error.span.start), format!("no TOML: {error}")))?;
    Ok(from_toml(parsed, &places))
}

/// Counts brackets, since the parser recurses; those in strings count too.
fn check_depth(text: &str) -> Result<(), Flaw> {
    let mut depth = 0_usize;
    for (line, content) in text.lines().enumerate() {
        for (column, c) in content.chars().enumerate() {
            match c {
                '[' | '{' => depth += 1,
                ']' | '}' => depth = depth.saturating_sub(1), // a surplus bracket is left to the parser
                _ => {}
            }
            if depth > MAX_DEPTH {
                let mark = Mark { line: line + 1, column: column + 1 };
                return Err(Flaw::new(mark, format!("more than {MAX_DEPTH} levels of nesting")));
            }
        }
    }
    Ok(())
}

/// The offsets of the lines of a text.
struct Places<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Places<'a> {
    fn new(text: &'a str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(ends).collect() }
    }

    fn mark(&self, byte: usize) -> Mark {
        let line = self.starts.partition_point(|start| *start <= byte).max(1);
        let start = self.starts[line - 1];
        let before = self.text.get(start..byte).unwrap_or_default();
        Mark { line, column: before.chars().count() + 1 }
    }
}

fn from_toml(mut value: toml_span::Value<'_>, places: &Places<'_>) -> Node {
    let mark = places.mark(value.span.start);
    let value = match value.take() {
        ValueInner::String(text) => Value::Text(text.into_owned()),
        ValueInner::Integer(number) => Value::Text(number.to_string()),
        ValueInner::Float(number) => Value::Text(number.to_string()),
        ValueInner::Boolean(flag) => Value::Bool(flag),
        ValueInner::Array(items) => {
            Value::List(items.into_iter().map(|item| from_toml(item, places)).collect())
        }
        ValueInner::Table(table) => {
            let entries = table.into_iter().map(|(key, value)| {
                (key.name.into_owned(), places.mark(key.span.start), from_toml(value, places))
            });
            let mut entries: Vec<(String, Mark, Node)> = entries.collect();
            entries.sort_by_key(|(_, mark, _)| *mark);
            Value::Map(entries)
        }
    };
    Node { mark, value }
}

const MAX_DEPTH: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str, syntax: Syntax) -> (usize, usize, String) {
        let fault = parse(text, syntax).unwrap_err();
        (fault.mark.line, fault.mark.column, fault.text)
    }

    #[test]
    fn three_syntaxes_give_the_same_tree() {
        let shape = |node: &Node| -> String {
            fn write(node: &Node, out: &mut String) {
                match &node.value {
                    Value::Null => out.push('~'),
                    Value::Bool(flag) => out.push_str(&flag.to_string()),
                    Value::Text(text) => out.push_str(text),
                    Value::List(items) => items.iter().for_each(|item| {
                        out.push('-');
                        write(item, out);
                    }),
                    Value::Map(items) => items.iter().for_each(|(key, _, value)| {
                        out.push_str(key);
                        out.push('=');
                        write(value, out);
                        out.push(';');
                    }),
                }
            }
            let mut text = String::new();
            write(node, &mut text);
            text
        };
        let yaml =
            "steps:\n  - convert: a.trk\n    to: b.tck\n    options: {strict: true, limit: 5}\n";
        let json = "{\"steps\": [\n\t{\"convert\": \"a.trk\", \"to\": \"b.tck\",\n \"options\": {\"strict\": true, \"limit\": 5}}]}";
        let toml = "[[steps]]\nconvert = \"a.trk\"\nto = \"b.tck\"\noptions = {strict = true, limit = 5}\n";
        let expected = "steps=-convert=a.trk;to=b.tck;options=strict=true;limit=5;;;";
        let trees = [(yaml, Syntax::Yaml), (json, Syntax::Yaml), (toml, Syntax::Toml)];
        for (text, syntax) in trees {
            let node = parse(text, syntax).unwrap();
            assert_eq!(shape(&node), expected, "{syntax:?}");
        }
    }

    #[test]
    fn faults_have_a_position() {
        assert_eq!(fault("a: 1\nb: [1\n", Syntax::Yaml).0, 3);
        let (line, column, text) = fault("a: 1\na: 2\n", Syntax::Yaml);
        assert_eq!((line, column, &*text), (2, 1, "the key \"a\" twice"));
        assert_eq!(fault("a: &x 1\nb: *x\n", Syntax::Yaml).0, 2);
        assert_eq!(fault("a = 1\nb = = 2\n", Syntax::Toml).0, 2);
        let deep = format!("a: {}{}", "[".repeat(70), "]".repeat(70));
        assert!(fault(&deep, Syntax::Yaml).2.contains("levels of nesting"));
        assert!(fault(&deep.replace("a:", "a ="), Syntax::Toml).2.contains("levels of nesting"));
    }
}
