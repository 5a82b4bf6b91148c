//! The arguments of `cargo xtask <command>`: a few flags; the rest is forwarded.
//!
//! Arguments that a command does not use are forwarded to the program it starts, so that `cargo xtask conformance
//! --hostile DIR` needs no list of options here.

use std::collections::VecDeque;
use std::ffi::OsString;

use anyhow::{Context, bail};

/// Arguments not used yet.
#[derive(Default)]
pub(crate) struct Args {
    words: VecDeque<OsString>,
}

impl Args {
    pub(crate) fn new(words: impl Iterator<Item = OsString>) -> Self {
        Self { words: words.collect() }
    }

    /// Creates arguments from words of this program.
    pub(crate) fn from_words(words: &[&str]) -> Self {
        Self::new(words.iter().map(OsString::from))
    }

    /// Returns the next word.
    pub(crate) fn next(&mut self) -> Option<OsString> {
        self.words.pop_front()
    }

    /// Returns whether `--help` is the first word: a later one belongs to the started program.
    pub(crate) fn asks_for_help(&self) -> bool {
        self.words.front().is_some_and(|word| word == "--help" || word == "-h")
    }

    /// Returns whether `name` is present.
    pub(crate) fn peek(&self, name: &str) -> bool {
        self.words.iter().any(|word| word == name)
    }

    /// Removes `name`, and returns whether it was present.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let at = self.words.iter().position(|word| word == name);
        at.and_then(|at| self.words.remove(at)).is_some()
    }

    /// Removes `name` and the number after it.
    pub(crate) fn number(&mut self, name: &str) -> anyhow::Result<Option<u64>> {
        let Some(at) = self.words.iter().position(|word| word == name) else {
            return Ok(None);
        };
        self.words.remove(at);
        let value = self.words.remove(at).and_then(|value| value.into_string().ok());
        let value = value.with_context(|| format!("{name} needs a number"))?;
        Ok(Some(value.parse().with_context(|| format!("{name} {value}: not a number"))?))
    }

    /// Returns all remaining arguments.
    pub(crate) fn into_words(self) -> impl Iterator<Item = OsString> {
        self.words.into_iter()
    }

    /// Refuses remaining arguments.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        match self.words.front() {
            Some(word) => bail!("unexpected argument {}", word.to_string_lossy()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_it_knows_and_keeps_the_rest() {
        let mut args = Args::from_words(&["frag", "--seconds", "9", "--check", "-x"]);
        assert!(args.peek("--check") && !args.peek("-y"));
        assert!(args.flag("--check") && !args.flag("--check"));
        assert_eq!(args.number("--seconds").unwrap(), Some(9));
        assert_eq!(args.number("--seconds").unwrap(), None);
        assert_eq!(args.into_words().collect::<Vec<_>>(), ["frag", "-x"]);
    }

    #[test]
    fn says_what_is_wrong() {
        let text = |result: anyhow::Result<()>| format!("{:#}", result.unwrap_err());
        assert_eq!(text(Args::from_words(&["-x"]).end()), "unexpected argument -x");
        let number = |words: &[&str]| Args::from_words(words).number("-n").map(|_| ());
        assert_eq!(text(number(&["-n"])), "-n needs a number");
        assert!(text(number(&["-n", "many"])).starts_with("-n many: not a number"));
    }
}
