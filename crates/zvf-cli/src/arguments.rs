//! Command lines that cannot be parsed: one line, like every other error.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _, ValueParser};
use clap::error::ErrorKind;
use zvf::question::{parse_ids, parse_level, parse_size};
use zvf::{LevelRule, ObjectId};

use crate::outcome::{self, Usage};

/// Prints help and versions as they are; reports everything else as one line with exit code 2.
pub(crate) fn report(error: &clap::Error, json: bool) -> ExitCode {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if is_help {
        let printed = error.print().and_then(|()| io::stdout().flush());
        let code = ExitCode::from(u8::from(error.use_stderr()) * 2);
        return printed.map_or_else(|error| outcome::report(Err(error.into()), json), |()| code);
    }
    let usage = Usage::new(summarize(&error.render().to_string()));
    outcome::report(Err(usage.into()), json)
}

/// Returns whether `--json` is among `args`, which could not be parsed.
pub(crate) fn ask_for_json(args: impl IntoIterator<Item = OsString>) -> bool {
    args.into_iter().take_while(|arg| arg != "--").any(|arg| arg == "--json")
}

/// Puts a space before the negative positions of `zvf edit add`, such as `-1,2`: clap accepts negative numbers, but
/// takes lists of them for options.
pub(crate) fn shield_positions(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let mut words = args.iter().skip(1).filter(|arg| !arg.as_encoded_bytes().starts_with(b"-"));
    if words.next().is_none_or(|word| word != "edit")
        || words.next().is_none_or(|word| word != "add")
    {
        return args;
    }
    for arg in &mut args {
        let text = arg.to_str().unwrap_or_default();
        let is_number = |part: &str| part.parse::<f64>().is_ok();
        if text.starts_with('-') && text.contains(',') && text.split(',').all(is_number) {
            *arg = format!(" {text}").into();
        }
    }
    args
}

/// Replaces a short name of a command by its words.
pub(crate) fn expand(mut args: Vec<OsString>) -> Vec<OsString> {
    let is_word = |arg: &OsString| !arg.as_encoded_bytes().starts_with(b"-");
    if let Some(at) = args.iter().skip(1).position(is_word).map(|at| at + 1)
        && let Some((_, long)) =
            SHORT.iter().find(|(short, _)| args.get(at).is_some_and(|arg| arg == short))
    {
        args.splice(at..=at, long.split(' ').map(OsString::from));
    }
    args
}

/// Short names, which scenarios of edits and the scripts of users have.
const SHORT: [(&str, &str); 14] = [
    ("log", "history log"),
    ("show", "history show"),
    ("diff", "history diff"),
    ("undo", "history undo"),
    ("checkout", "history checkout"),
    ("gc", "history gc"),
    ("ls", "inspect arrays"),
    ("object", "inspect objects"),
    ("group", "inspect groups"),
    ("cell", "inspect cells"),
    ("lineage", "inspect lineage"),
    ("blob", "inspect blobs"),
    ("merge", "join"),
    ("split", "divide"),
];

/// Returns the error in one line: without the usage, but with the name of the command whose help has it.
pub(crate) fn summarize(rendered: &str) -> String {
    let (text, usage) = rendered.split_once("Usage: ").unwrap_or((rendered, "zvf"));
    let names = usage.split([' ', '\n']).take_while(|word| {
        word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-')
    });
    let command = names.collect::<Vec<_>>().join(" ");
    let mut words = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let line = line.strip_prefix("error: ").unwrap_or(line);
        let tip = line.strip_prefix("tip: ");
        let gap = if tip.is_some() { "; " } else { " " };
        words += if words.is_empty() { "" } else { gap };
        words += tip.unwrap_or(line);
    }
    format!("{words}; see \"{command} --help\"")
}

/// Returns advice where a word is one of `names` but for one letter that is wrong, missing or added, or two that are
/// swapped.
pub(crate) fn suggest<'a>(word: &str, mut names: impl Iterator<Item = &'a str>) -> Option<String> {
    let near = names.find(|name| strsim::osa_distance(word, name) <= 1)?;
    Some(format!("did you mean {near}?"))
}

/// Returns the parser of an option that takes one of `choices`: its name, its value, and help.
pub(crate) fn choice<T: Clone + Send + Sync + 'static>(
    choices: &'static [(&'static str, T, &'static str)],
) -> ValueParser {
    let names = choices.iter().map(|(name, _, help)| PossibleValue::new(*name).help(*help));
    ValueParser::new(PossibleValuesParser::new(names).try_map(move |chosen| {
        let found = choices.iter().find(|(name, ..)| *name == chosen);
        found.map(|(_, value, _)| value.clone()).ok_or("not one of the possible values")
    }))
}

/// Parses a word of the library.
pub(crate) fn word<T: FromStr<Err: fmt::Display + 'static>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| {
        let ours = (&error as &dyn std::any::Any).downcast_ref::<zvf::Error>();
        ours.map_or_else(|| error.to_string(), zvf::Error::sentence)
    })
}

/// Returns the index of an axis that is given by its name or number.
pub(crate) fn find_axis(text: &str, names: &[String]) -> Option<usize> {
    let text = text.trim();
    names.iter().position(|name| name == text).or_else(|| text.parse().ok())
}

/// Parses a number of bytes with a unit.
pub(crate) fn size(text: &str) -> Result<u64, &'static str> {
    parse_size(text).ok_or("expected a size, such as 512MiB")
}

/// Object ids in order.
pub(crate) type Ids = Vec<ObjectId>;

/// Parses ids and half-open ranges, separated by commas.
pub(crate) fn ids(text: &str) -> Result<Ids, String> {
    parse_ids(text, MAX_IDS)
}

/// Parses a level by its number, or by a rule.
pub(crate) fn level_rule(text: &str) -> Result<LevelRule, &'static str> {
    let expected = "expected a number, vertices=N, bytes=SIZE, error=X or screen=WIDTH/PIXELS";
    parse_level(text).ok_or(expected)
}

/// The largest number of ids of one option.
const MAX_IDS: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_errors_are_summarized_in_one_line() {
        for (rendered, line) in [
            (
                "error: unexpected argument '--bbx' found\n\n  tip: a similar argument exists: \
                 '--bbox'\n\nUsage: zvf query --bbox <X> <STORE>\n\nFor more information, try '--help'.\n",
                "unexpected argument '--bbx' found; a similar argument exists: '--bbox'; see \"zvf query \
                 --help\"",
            ),
            (
                "error: the following required arguments were not provided:\n  <STORE>\n\nUsage: zvf \
                 inspect blobs show <STORE>\n\nFor more information, try '--help'.\n",
                "the following required arguments were not provided: <STORE>; see \"zvf inspect \
                 blobs show --help\"",
            ),
        ] {
            assert_eq!(summarize(rendered), line);
        }
    }

    #[test]
    fn negative_positions_are_shielded_in_edit_add_only() {
        let shield = |line: &str| {
            let args = shield_positions(line.split(' ').map(OsString::from));
            args.join(std::ffi::OsStr::new("|")).into_string().unwrap()
        };
        assert_eq!(shield("zvf edit add s -1,2 3,-4 --at 1"), "zvf|edit|add|s| -1,2|3,-4|--at|1");
        assert_eq!(shield("zvf -q edit add s -.5,-2e3 -x,1"), "zvf|-q|edit|add|s| -.5,-2e3|-x,1");
        assert_eq!(shield("zvf edit move s --by -1,2"), "zvf|edit|move|s|--by|-1,2");
    }

    #[test]
    fn json_is_found_before_the_end_of_options() {
        let has_json = |args: &[&str]| ask_for_json(args.iter().map(OsString::from));
        assert!(has_json(&["zvf", "info", "--json"]));
        assert!(!has_json(&["zvf", "info", "--", "--json"]) && !has_json(&["zvf", "info"]));
    }
}
