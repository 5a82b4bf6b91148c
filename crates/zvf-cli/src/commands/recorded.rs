//! Arguments of a command, and the words that give the same options: a plan stores the words, and tasks parse them
//! again.
//!
//! Positional arguments are not recorded: tasks have others.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, Parser};

use crate::outcome::Usage;

/// Arguments, parsed and as words.
#[derive(Debug, PartialEq)]
pub(crate) struct Recorded<T> {
    /// The parsed arguments.
    pub(crate) args: T,
    /// The words of the options that were given.
    pub(crate) words: Vec<String>,
}

impl<T> Recorded<T> {
    /// Returns the name of the first option that was given.
    pub(crate) fn first_given(&self) -> Option<&str> {
        self.words.first().map(|word| word.split('=').next().unwrap_or(word))
    }
}

impl<T: Args> Args for Recorded<T> {
    fn augment_args(command: Command) -> Command {
        T::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

impl<T: Args> FromArgMatches for Recorded<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let command = T::augment_args(Command::new("zvf"));
        let mut words = Vec::new();
        for argument in command.get_arguments().filter(|argument| !argument.is_positional()) {
            add_words(matches, argument, &mut words)?;
        }
        Ok(Self { args: T::from_arg_matches(matches)?, words })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Adds the words of the option, once per occurrence.
fn add_words(matches: &ArgMatches, argument: &Arg, words: &mut Vec<String>) -> Result<(), Error> {
    let id = argument.get_id().as_str();
    if matches.value_source(id) != Some(ValueSource::CommandLine) {
        return Ok(());
    }
    let Some(long) = argument.get_long() else { return Ok(()) };
    if !argument.get_action().takes_values() {
        words.push(format!("--{long}"));
        return Ok(());
    }
    for value in matches.get_raw_occurrences(id).into_iter().flatten().flatten() {
        let Some(value) = value.to_str() else {
            let text =
                format!("--{long}: the value is not valid UTF-8, so the plan cannot hold it\n");
            return Err(Error::raw(ErrorKind::InvalidUtf8, text));
        };
        words.push(format!("--{long}={value}"));
    }
    Ok(())
}

/// Returns the words of a command line without its name.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Words<T: Args> {
    #[command(flatten)]
    args: T,
}

/// Parses recorded options, followed by `positional` arguments.
pub(crate) fn parse<T: Args>(words: &[String], positional: &[&str]) -> Result<T, Usage> {
    let words = words.iter().map(String::as_str);
    let words = words.chain(["--"]).chain(positional.iter().copied());
    let parsed = Words::<T>::try_parse_from(words);
    parsed.map(|words| words.args).map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        Usage::new(format!("the plan has an invalid option: {line}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Args)]
    struct Shape {
        #[arg(required = true)]
        inputs: Vec<String>,
        #[arg(long, value_delimiter = ',', allow_hyphen_values = true)]
        lengths: Vec<f64>,
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "0")]
        draco: Option<u8>,
        #[arg(long, default_value_t = 7)]
        count: u32,
        #[arg(long)]
        quiet: bool,
    }

    #[derive(Parser)]
    struct Line {
        #[arg(long)]
        more: Option<u8>,
        #[command(flatten)]
        shape: Recorded<Shape>,
    }

    #[test]
    fn recorded_arguments_parse_to_the_same_values() {
        for command in [
            &["zvf", "a"][..],
            &["zvf", "a", "--lengths", "-1,2.5", "--more", "3", "--quiet", "--lengths=4"],
            &["zvf", "--draco", "--count", "9", "a"],
            &["zvf", "a", "--draco=12"],
        ] {
            let Recorded { args, words } = Line::try_parse_from(command).unwrap().shape;
            assert!(words.iter().all(|word| !word.starts_with("--more") && word != "a"));
            assert_eq!(parse::<Shape>(&words, &["a"]).unwrap(), args, "{words:?}");
        }
        let recorded = Line::try_parse_from(["zvf", "a"]).unwrap().shape;
        assert!(recorded.words.is_empty(), "defaults are not recorded: {:?}", recorded.words);
        let error = parse::<Shape>(&["--nonsense=1".to_owned()], &["a"]).unwrap_err();
        assert!(error.to_string().contains("--nonsense"), "{error}");
    }
}
