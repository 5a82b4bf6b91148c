//! The contents of a recipe: variables, and steps with their inputs, outputs and options.
//!
//! ```text
//! vars:     NAME: text                          ${NAME} in any text; ${env:NAME} of the environment; $$ is a dollar
//! steps:
//!   - VERB: inputs                              convert, create, pyramid, rewrite, edit, validate or export
//!     to: output                                of convert, create and export; of others, instead of in place
//!     name: text                                for reports and messages
//!     each: pattern                             a step for each file: ${item}, ${name}, ${stem}, ${folder}
//!     options: {option: value}                  those of the command, without their dashes
//! ```
//!
//! The expansion of patterns is in [`super::plan`].

#![expect(clippy::wildcard_enum_match_arm, reason = "what is no text, list or map is refused")]

use std::collections::BTreeMap;

use zvf::format::Vocabulary as _;

use super::document::{Flaw, Mark, Node, START, Value};
use crate::arguments::suggest;

/// A recipe before its variables are expanded.
#[derive(Debug)]
pub(super) struct Recipe {
    pub(super) vars: Vars,
    pub(super) steps: Vec<Step>,
}

/// A step as it is written.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) mark: Mark,
    pub(super) verb: Verb,
    pub(super) name: Option<Text>,
    pub(super) each: Option<Text>,
    pub(super) inputs: Vec<Text>,
    pub(super) output: Option<Text>,
    pub(super) options: Vec<Setting>,
}

/// Text with its position.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) mark: Mark,
    pub(super) text: String,
}

/// An option of a command: a flag, or values.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) mark: Mark,
    pub(super) name: String,
    /// Empty for a flag.
    pub(super) values: Vec<Text>,
}

zvf::format::vocabulary! {
    /// The operation of a step.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(super) enum Verb {
        Convert => "convert",
        Create => "create",
        Pyramid => "pyramid",
        Rewrite => "rewrite",
        Edit => "edit",
        Validate => "validate",
        Export => "export",
    }
    /// Returns the key of the step.
    fn token;
}

impl Verb {
    /// Returns whether it takes several inputs.
    pub(super) const fn takes_several(self) -> bool {
        matches!(self, Self::Convert | Self::Create)
    }

    /// Returns whether it requires an output.
    const fn needs_output(self) -> bool {
        matches!(self, Self::Convert | Self::Create | Self::Export)
    }

    /// Returns whether it may have an output.
    const fn takes_output(self) -> bool {
        !matches!(self, Self::Edit | Self::Validate)
    }
}

/// Variables by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Vars(BTreeMap<String, Text>);

impl Vars {
    /// Sets a variable.
    pub(super) fn set(&mut self, name: &str, text: &str, mark: Mark) {
        self.0.insert(name.to_owned(), Text { mark, text: text.to_owned() });
    }

    /// Expands variables.
    pub(super) fn expand(&self, text: &Text) -> Result<String, Flaw> {
        self.expand_within(text, &mut Vec::new())
    }

    fn expand_within(&self, text: &Text, inside: &mut Vec<String>) -> Result<String, Flaw> {
        let mut done = String::new();
        let mut rest = text.text.as_str();
        while let Some(at) = rest.find('$') {
            let (before, after) = rest.split_at(at);
            done.push_str(before);
            if let Some(after) = after.strip_prefix("$$") {
                done.push('$');
                rest = after;
                continue;
            }
            let Some(inner) = after.strip_prefix("${") else {
                done.push('$');
                rest = after.get(1..).unwrap_or_default();
                continue;
            };
            let Some((name, after)) = inner.split_once('}') else {
                return Err(Flaw::new(text.mark, "${ without an end }"));
            };
            done.push_str(&self.value(name, text.mark, inside)?);
            if done.len() > MAX_TEXT_BYTES {
                return Err(Flaw::new(text.mark, "a text of more than 64 KiB"));
            }
            rest = after;
        }
        done.push_str(rest);
        Ok(done)
    }

    fn value(&self, name: &str, mark: Mark, inside: &mut Vec<String>) -> Result<String, Flaw> {
        if let Some(name) = name.strip_prefix("env:") {
            return std::env::var(name)
                .map_err(|_unset| Flaw::new(mark, format!("the environment has no {name}")));
        }
        let Some(text) = self.0.get(name) else {
            let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let names =
                if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
            return Err(Flaw::new(mark, format!("no variable {name:?}; known: {names}")));
        };
        if inside.iter().any(|outer| outer == name) {
            return Err(Flaw::new(text.mark, format!("the variable {name:?} refers to itself")));
        }
        inside.push(name.to_owned());
        let value = self.expand_within(text, inside)?;
        inside.pop();
        Ok(value)
    }
}

impl Recipe {
    /// Reads a tree as a recipe.
    pub(super) fn from_node(root: Node) -> Result<Self, Flaw> {
        let mut vars = Vars::default();
        let mut steps = Vec::new();
        for (key, mark, value) in entries(root, "a recipe")? {
            match key.as_str() {
                "vars" => {
                    for (name, mark, value) in entries(value, "vars")? {
                        let text = scalar(value, &name)?;
                        vars.set(&name, &text.text, mark);
                    }
                }
                "steps" => steps = list(value, "steps")?,
                // Keys for editors.
                "$schema" | "description" => {}
                other => {
                    return Err(unknown_key_fault(mark, other, &["vars", "steps", "description"]));
                }
            }
        }
        let steps = steps.into_iter().map(Step::from_node).collect::<Result<Vec<_>, _>>()?;
        if steps.is_empty() {
            return Err(Flaw::new(START, "no steps; expected a list of them"));
        }
        Ok(Self { vars, steps })
    }
}

impl Step {
    fn from_node(node: Node) -> Result<Self, Flaw> {
        let mark = node.mark;
        let (mut name, mut each, mut output, mut options) = (None, None, None, Vec::new());
        let mut action: Option<(Verb, Vec<Text>)> = None;
        for (key, mark, value) in entries(node, "a step")? {
            if let Some(verb) = Verb::from_word(&key) {
                if let Some((first, _)) = action {
                    let text = format!("{} and {key} in one step", first.token());
                    return Err(Flaw::new(mark, text));
                }
                action = Some((verb, texts(value, &key)?));
                continue;
            }
            match key.as_str() {
                "name" => name = Some(scalar(value, &key)?),
                "each" => each = Some(scalar(value, &key)?),
                "to" => output = Some(scalar(value, &key)?),
                "options" => options = settings(value)?,
                other => {
                    let mut keys = list_verbs();
                    keys.extend(["to", "name", "each", "options"]);
                    return Err(unknown_key_fault(mark, other, &keys));
                }
            }
        }
        let Some((verb, inputs)) = action else {
            let verbs = list_verbs().join(", ");
            let text = format!("a step that does nothing; expected one of {verbs}");
            return Err(Flaw::new(mark, text));
        };
        let step = Self { mark, verb, name, each, inputs, output, options };
        step.check()?;
        Ok(step)
    }

    fn check(&self) -> Result<(), Flaw> {
        let verb = self.verb.token();
        if self.inputs.is_empty() {
            return Err(Flaw::new(self.mark, format!("{verb} of nothing; expected what to read")));
        }
        if let [_, second, ..] = self.inputs.as_slice()
            && !self.verb.takes_several()
        {
            return Err(Flaw::new(second.mark, format!("{verb} takes one input")));
        }
        match &self.output {
            None if self.verb.needs_output() => {
                Err(Flaw::new(self.mark, format!("{verb} needs an output; expected the key to")))
            }
            Some(output) if !self.verb.takes_output() => {
                Err(Flaw::new(output.mark, format!("{verb} has no output")))
            }
            _ => Ok(()),
        }
    }
}

fn list_verbs() -> Vec<&'static str> {
    Verb::ALL.iter().map(|verb| verb.token()).collect()
}

fn entries(node: Node, what: &str) -> Result<Vec<(String, Mark, Node)>, Flaw> {
    match node.value {
        Value::Map(entries) => Ok(entries),
        other => Err(Flaw::unexpected(node.mark, &format!("the keys of {what}"), &other)),
    }
}

fn list(node: Node, what: &str) -> Result<Vec<Node>, Flaw> {
    match node.value {
        Value::List(items) => Ok(items),
        other => Err(Flaw::unexpected(node.mark, &format!("{what} as a list"), &other)),
    }
}

fn scalar(node: Node, what: &str) -> Result<Text, Flaw> {
    match node.value {
        Value::Text(text) => Ok(Text { mark: node.mark, text }),
        Value::Bool(flag) => Ok(Text { mark: node.mark, text: flag.to_string() }),
        other => Err(Flaw::unexpected(node.mark, &format!("{what} as text"), &other)),
    }
}

/// Reads one text, or a list of them.
fn texts(node: Node, what: &str) -> Result<Vec<Text>, Flaw> {
    match node.value {
        Value::List(items) => items.into_iter().map(|item| scalar(item, what)).collect(),
        _ => Ok(vec![scalar(node, what)?]),
    }
}

/// Reads options: `name: value` or a list of values, `true` as a flag; `false` and null leave it out.
fn settings(node: Node) -> Result<Vec<Setting>, Flaw> {
    let mut settings = Vec::new();
    for (name, mark, value) in entries(node, "options")? {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(is_plain) {
            let text = format!("the option {name:?}; expected a name without dashes before it");
            return Err(Flaw::new(mark, text));
        }
        let values = match value.value {
            Value::Null | Value::Bool(false) => continue,
            Value::Bool(true) => Vec::new(),
            _ => texts(value, &name)?,
        };
        settings.push(Setting { mark, name, values });
    }
    Ok(settings)
}

fn unknown_key_fault(mark: Mark, key: &str, valid_keys: &[&str]) -> Flaw {
    let advice = suggest(key, valid_keys.iter().copied());
    let advice = advice.unwrap_or_else(|| format!("expected {}", valid_keys.join(", ")));
    Flaw::new(mark, format!("unknown key {key:?}; {advice}"))
}

const MAX_TEXT_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::super::document::{Syntax, parse};
    use super::*;

    fn recipe(text: &str) -> Result<Recipe, (usize, usize, String)> {
        let fault = |fault: Flaw| (fault.mark.line, fault.mark.column, fault.text);
        Recipe::from_node(parse(text, Syntax::Yaml).map_err(fault)?).map_err(fault)
    }

    #[test]
    fn parses_a_recipe() {
        let recipe = recipe(
            "vars: {data: in, out: '${data}/made'}\nsteps:\n  - create: [a.csv, '${data}/*.csv']\n    to: \
             ${out}/x.zv\n    options: {chunk-shape: [1, 2], overwrite: true, compat: false}\n",
        );
        let recipe = recipe.unwrap();
        let [step] = &recipe.steps[..] else { panic!("{recipe:?}") };
        assert_eq!((step.verb, step.inputs.len(), step.mark.line), (Verb::Create, 2, 3));
        assert_eq!(recipe.vars.expand(step.output.as_ref().unwrap()).unwrap(), "in/made/x.zv");
        let options: Vec<_> = step.options.iter().map(|o| (&*o.name, o.values.len())).collect();
        assert_eq!(options, [("chunk-shape", 2), ("overwrite", 0)]);
    }

    #[test]
    fn faults_have_a_position_and_a_reason() {
        for (text, line, column, expected) in [
            ("steps: 3", 1, 8, "expected steps as a list, found text"),
            ("stesp:\n  - validate: a", 1, 1, "unknown key \"stesp\"; did you mean steps?"),
            ("steps:\n  - to: b", 2, 5, "a step that does nothing"),
            ("steps:\n  - convert: a", 2, 5, "convert needs an output"),
            ("steps:\n  - validate: a\n    to: b", 3, 9, "validate has no output"),
            ("steps:\n  - pyramid: [a, b]", 2, 18, "pyramid takes one input"),
            ("steps:\n  - edit: a\n    create: b\n    to: c", 3, 5, "edit and create in one step"),
            ("steps:\n  - edit: a\n    options: {--x: 1}", 3, 15, "without dashes"),
            ("vars: {a: [1]}\nsteps: []", 1, 11, "expected a as text, found a list"),
            ("{}", 1, 1, "no steps"),
        ] {
            let fault = recipe(text).unwrap_err();
            assert_eq!((fault.0, fault.1), (line, column), "{text}: {fault:?}");
            assert!(fault.2.contains(expected), "{text}: {fault:?}");
        }
    }

    #[test]
    fn the_schema_has_all_steps() {
        let schema: serde_json::Value = serde_json::from_str(super::super::SCHEMA).unwrap();
        let step = &schema["properties"]["steps"]["items"];
        for verb in Verb::ALL {
            let (word, to) = (verb.token(), verb.needs_output().then_some("to"));
            assert!(step["properties"][word].is_object(), "{word}");
            let required: Vec<_> = [word].into_iter().chain(to).collect();
            let all = step["oneOf"].as_array().unwrap();
            assert!(all.iter().any(|one| one["required"] == serde_json::json!(required)), "{word}");
        }
    }

    #[test]
    fn unknown_variables_are_named() {
        let mut vars = Vars::default();
        let mark = Mark { line: 4, column: 2 };
        vars.set("a", "${b}", mark);
        vars.set("b", "${a}", mark);
        let expand = |text: &str| vars.expand(&Text { mark, text: text.to_owned() });
        assert_eq!(expand("$$5 $x").unwrap(), "$5 $x");
        assert_eq!(expand("${c}").unwrap_err().text, "no variable \"c\"; known: a, b");
        assert!(expand("${a}").unwrap_err().text.contains("refers to itself"));
        assert!(expand("${a").unwrap_err().text.contains("without an end"));
    }
}
