//! The steps of a recipe as command lines: variables are expanded, patterns become files, and `each` becomes one step
//! per file.
//!
//! A pattern matches existing files and outputs of earlier steps. Every command line is checked by the parser of its
//! command before anything runs.

use std::collections::BTreeSet;
use std::path::Path;

use clap::Parser as _;
use glob::{MatchOptions, Pattern};

use super::document::{Flaw, Mark};
use super::recipe::{Recipe, Setting, Step, Text, Vars, Verb};
use crate::cli::Cli;

/// A step that can run.
#[derive(Clone)]
pub(super) struct Planned {
    pub(super) name: String,
    pub(super) mark: Mark,
    /// The command line after `zvf`.
    pub(super) args: Vec<String>,
    /// Its inputs: files, folders and URLs, and files that options name.
    pub(super) inputs: Vec<String>,
    /// Its outputs; an input too where that is changed in place.
    pub(super) outputs: Vec<String>,
}

impl Planned {
    /// Returns the command line, quoted for a shell.
    pub(super) fn command(&self) -> String {
        let words = self.args.iter().map(|word| quote(word));
        std::iter::once("zvf".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Returns whether it depends on an earlier step: one writes what the other reads or writes.
    pub(super) fn waits_for(&self, earlier: &Self) -> bool {
        let meets = |ones: &[String], others: &[String]| {
            ones.iter().any(|one| others.iter().any(|other| overlaps(one, other)))
        };
        meets(&earlier.outputs, &self.inputs)
            || meets(&earlier.outputs, &self.outputs)
            || meets(&earlier.inputs, &self.outputs)
    }
}

/// Returns whether two addresses are equal, or one lies below the other.
pub(super) fn overlaps(first: &str, second: &str) -> bool {
    let below = |path: &str, folder: &str| {
        path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    below(first, second) || below(second, first)
}

/// Plans the command lines of all steps.
pub(super) fn plan(recipe: &Recipe) -> Result<Vec<Planned>, Flaw> {
    let mut all: Vec<Planned> = Vec::new();
    for (number, step) in recipe.steps.iter().enumerate() {
        let name = format!("{}-{}", number + 1, step.verb.token());
        let Some(each) = &step.each else {
            let planned = plan_step(step, &recipe.vars, &name, &all)?;
            push(&mut all, planned)?;
            continue;
        };
        let pattern = recipe.vars.expand(each)?;
        for item in expand(&pattern, each.mark, &all)? {
            let vars = item_vars(&recipe.vars, &item, each.mark);
            let planned = plan_step(step, &vars, &format!("{name} {item}"), &all)?;
            push(&mut all, planned)?;
        }
    }
    Ok(all)
}

fn push(all: &mut Vec<Planned>, planned: Planned) -> Result<(), Flaw> {
    if all.len() >= MAX_STEPS {
        return Err(Flaw::new(planned.mark, format!("more than {MAX_STEPS} steps")));
    }
    let is_in_place = planned.outputs.iter().all(|output| planned.inputs.contains(output));
    let is_made = |output: &&String| all.iter().any(|earlier| earlier.outputs.contains(output));
    if let Some(output) = planned.outputs.iter().find(is_made).filter(|_| !is_in_place) {
        let text = format!("{output} is also the output of an earlier step");
        return Err(Flaw::new(planned.mark, text));
    }
    all.push(planned);
    Ok(())
}

/// Returns the variables of an item.
fn item_vars(vars: &Vars, item: &str, mark: Mark) -> Vars {
    let path = Path::new(item);
    let part = |part: Option<&std::ffi::OsStr>| {
        part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let name = part(path.file_name());
    // The stem lacks the whole extension, such as .tar.gz; a name that begins with a dot keeps it.
    let stem = name.char_indices().skip(1).find(|(_, c)| *c == '.').map(|(at, _)| at);
    let stem = name.get(..stem.unwrap_or(name.len())).unwrap_or_default().to_owned();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.map_or_else(|| ".".to_owned(), |folder| folder.display().to_string());
    let mut vars = vars.clone();
    // The values are not expanded again.
    let plain = |text: &str| text.replace('$', "$$");
    for (name, value) in [("item", item), ("name", &name), ("stem", &stem), ("folder", &folder)] {
        vars.set(name, &plain(value), mark);
    }
    vars
}

fn plan_step(step: &Step, vars: &Vars, name: &str, earlier: &[Planned]) -> Result<Planned, Flaw> {
    let mut inputs = Vec::new();
    for input in &step.inputs {
        let text = vars.expand(input)?;
        inputs.extend(expand(&text, input.mark, earlier)?);
    }
    if let [_, _, ..] = inputs.as_slice()
        && !step.verb.takes_several()
    {
        let text = format!("{} files for one input: {}", inputs.len(), inputs.join(", "));
        return Err(Flaw::new(step.mark, text));
    }
    let output = step.output.as_ref().map(|output| address(vars, output)).transpose()?;
    let mut read = inputs.clone();
    let mut options = Vec::new();
    for setting in &step.options {
        let values = setting.values.iter().map(|value| vars.expand(value));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let named = values.iter().filter(|value| {
            Path::new(value).is_file() || earlier.iter().any(|step| step.outputs.contains(value))
        });
        read.extend(named.cloned());
        options.push((setting, values));
    }
    if step.verb == Verb::Edit && !options.iter().any(|(setting, _)| setting.name == "script") {
        return Err(Flaw::new(step.mark, "edit needs the option script, a file"));
    }
    let name = step.name.as_ref().map_or_else(|| Ok(name.to_owned()), |text| vars.expand(text))?;
    let outputs = match (&output, step.verb) {
        (Some(output), _) => vec![output.clone()],
        (None, Verb::Validate) => Vec::new(),
        (None, _) => inputs.clone(),
    };
    let args = arguments(step, &options, &inputs, output.as_deref())?;
    Ok(Planned { name, mark: step.mark, args, inputs: read, outputs })
}

fn address(vars: &Vars, text: &Text) -> Result<String, Flaw> {
    let address = vars.expand(text)?;
    match address.as_str() {
        "" | "-" => Err(Flaw::new(text.mark, "expected a file, a folder or a URL")),
        address => Ok(address.trim_end_matches('/').to_owned()),
    }
}

/// Builds the command line and checks it: values of a list are joined by commas, or the option is repeated.
fn arguments(
    step: &Step,
    options: &[(&Setting, Vec<String>)],
    inputs: &[String],
    output: Option<&str>,
) -> Result<Vec<String>, Flaw> {
    let build = |joined: bool, upto: usize| {
        let verb = if step.verb == Verb::Export { "convert" } else { step.verb.token() };
        let mut args = vec![verb.to_owned()];
        if step.verb == Verb::Rewrite && output.is_none() {
            args.push("--in-place".to_owned());
        }
        for (setting, values) in options.iter().take(upto) {
            let name = &setting.name;
            match values.as_slice() {
                [] => args.push(format!("--{name}")),
                values if joined => args.push(format!("--{name}={}", values.join(","))),
                values => args.extend(values.iter().map(|value| format!("--{name}={value}"))),
            }
        }
        args.push("--".to_owned());
        args.extend(inputs.iter().cloned().chain(output.map(str::to_owned)));
        args
    };
    let check = |args: &[String]| {
        let words = std::iter::once("zvf").chain(args.iter().map(String::as_str));
        Cli::try_parse_from(words).map(drop)
    };
    let joined = build(true, options.len());
    let Err(error) = check(&joined) else { return Ok(joined) };
    let repeated = build(false, options.len());
    if check(&repeated).is_ok() {
        return Ok(repeated);
    }
    // The first option that the command refuses is where the fault is.
    let first = (0..=options.len()).find(|upto| check(&build(true, *upto)).is_err());
    let at = first.and_then(|upto| options.get(upto.checked_sub(1)?));
    let mark = at.map_or(step.mark, |(setting, _)| setting.mark);
    Err(Flaw::new(mark, crate::arguments::summarize(&error.render().to_string())))
}

/// Returns the files that a pattern matches; a text that is not a pattern is returned unchanged.
fn expand(text: &str, mark: Mark, earlier: &[Planned]) -> Result<Vec<String>, Flaw> {
    if text.is_empty() || text == "-" {
        return Err(Flaw::new(mark, "expected a file, a folder or a URL"));
    }
    let text = if text == "/" { text } else { text.trim_end_matches('/') };
    let is_pattern = text.contains(['*', '?', '[']) && !Path::new(text).exists();
    if !is_pattern || text.contains("://") {
        return Ok(vec![text.to_owned()]);
    }
    let bad = |error: glob::PatternError| Flaw::new(mark, format!("the pattern {text:?}: {error}"));
    let pattern = Pattern::new(text).map_err(bad)?;
    let mut found = BTreeSet::new();
    for path in glob::glob_with(text, MATCHING).map_err(bad)? {
        let path = path.map_err(|error| Flaw::new(mark, error.to_string()))?;
        found.extend(path.to_str().map(str::to_owned));
    }
    let outputs = earlier.iter().flat_map(|step| &step.outputs);
    found.extend(outputs.filter(|output| pattern.matches_with(output, MATCHING)).cloned());
    if found.is_empty() {
        return Err(Flaw::new(mark, format!("no file matches {text}")));
    }
    Ok(found.into_iter().collect())
}

/// Quotes a word for a shell.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

const MATCHING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};
const MAX_STEPS: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::super::document::{Syntax, parse};
    use super::*;

    fn steps(text: &str) -> Result<Vec<String>, String> {
        let fault =
            |fault: Flaw| format!("{}:{} {}", fault.mark.line, fault.mark.column, fault.text);
        let recipe = Recipe::from_node(parse(text, Syntax::Yaml).map_err(fault)?).map_err(fault)?;
        let planned = plan(&recipe).map_err(fault)?;
        Ok(planned.iter().map(Planned::command).collect())
    }

    #[test]
    fn steps_are_converted_to_command_lines() {
        let text = "vars: {out: made}\nsteps:\n  - create: a b.csv\n    to: ${out}/x.zarrvectors/\n    options: \
                    {chunk-shape: [1, 2], overwrite: true, type: [a=uint8, b=int8]}\n  - rewrite: ${out}/x.zarrvectors\n    options: {shard: 4}\n  \
                    - each: made/*.zarrvectors\n    export: ${item}\n    to: ${stem}.csv\n    options: {limit: 3}\n";
        assert_eq!(
            steps(text).unwrap(),
            [
                "zvf create --chunk-shape=1 --chunk-shape=2 --overwrite --type=a=uint8 --type=b=int8 -- 'a b.csv' \
                 made/x.zarrvectors",
                "zvf rewrite --in-place --shard=4 -- made/x.zarrvectors",
                "zvf convert --limit=3 -- made/x.zarrvectors x.csv",
            ]
        );
    }

    #[test]
    fn invalid_options_are_refused_before_any_step_runs() {
        for (text, expected) in [
            ("steps:\n  - validate: a\n    options: {depth: 2, deep: 1}", "3:25 "),
            ("steps:\n  - validate: a\n    options: {depth: 9}", "3:15 "),
            ("steps:\n  - validate: nowhere/*.zv", "2:15 no file matches nowhere/*.zv"),
            ("steps:\n  - edit: a", "2:5 edit needs the option script"),
            (
                "steps:\n  - convert: a\n    to: b.csv\n  - convert: c\n    to: b.csv",
                "4:5 b.csv is also the output",
            ),
        ] {
            let fault = steps(text).unwrap_err();
            assert!(fault.starts_with(expected), "{fault}");
        }
    }

    #[test]
    fn steps_wait_for_their_inputs() {
        let step = |inputs: &[&str], outputs: &[&str]| Planned {
            name: String::new(),
            mark: Mark { line: 1, column: 1 },
            args: Vec::new(),
            inputs: inputs.iter().map(|path| (*path).to_owned()).collect(),
            outputs: outputs.iter().map(|path| (*path).to_owned()).collect(),
        };
        let first = step(&["a"], &["b"]);
        assert!(step(&["b/c"], &["d"]).waits_for(&first));
        assert!(step(&["x"], &["a"]).waits_for(&first));
        assert!(!step(&["a"], &["bc"]).waits_for(&first));
    }
}
