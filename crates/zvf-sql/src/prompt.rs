//! The interactive prompt: reads statements up to a semicolon, with history; prints faults and continues.
//!
//! Line editing is that of the terminal. A line editor crate would enable features of `libc` and `rustix` with which the
//! engine would be compiled again.

use std::io::{self, IsTerminal as _, Write as _};

use datafusion::prelude::SessionContext;
use tokio::sync::mpsc::{Receiver, channel};

use crate::arguments::Arguments;
use crate::fault::Fault;
use crate::history::History;
use crate::statements;

/// Reads and runs statements until the end of input or `quit`.
pub(crate) async fn run(context: &SessionContext, arguments: &Arguments) -> Result<(), Fault> {
    let mut history = History::load()?;
    if !arguments.quiet {
        writeln!(io::stdout(), "{HELP}")?;
    }
    let mut lines = read_lines();
    let mut text = String::new();
    loop {
        show_prompt(if text.is_empty() { "zvf> " } else { "...> " })?;
        let line = tokio::select! {
            line = lines.recv() => line,
            _ = tokio::signal::ctrl_c() => {
                // The terminal has discarded the line.
                text.clear();
                writeln!(io::stdout())?;
                continue;
            }
        };
        let Some(line) = line else { break };
        text.push_str(&line?);
        match parse_input(&text, &history) {
            Input::Part => text.push('\n'),
            Input::Nothing => text.clear(),
            Input::Quit => break,
            Input::Help => {
                writeln!(io::stdout(), "{HELP}")?;
                text.clear();
            }
            Input::History => {
                let mut out = io::stdout().lock();
                for (number, statement) in history.newest_statements(MAX_SHOWN_STATEMENTS) {
                    writeln!(out, "{number:5}  {}", statement.replace('\n', "\n       "))?;
                }
                text.clear();
            }
            Input::Unknown(word) => {
                Fault::usage(format!("there is no statement {word} in the history")).print(false);
                text.clear();
            }
            Input::Statement(statement) => {
                if let Err(error) = history.add(&statement) {
                    Fault::from(error).print(arguments.json);
                }
                if let Err(fault) = statements::run(context, arguments, &statement).await {
                    fault.print(arguments.json);
                }
                text.clear();
            }
        }
    }
    Ok(())
}

/// The meaning of the text typed so far.
#[derive(Debug, PartialEq, Eq)]
enum Input {
    Nothing,
    /// An incomplete statement.
    Part,
    Statement(String),
    History,
    Help,
    Quit,
    /// A reference to a statement that the history does not have.
    Unknown(String),
}

/// Parses the text typed so far.
fn parse_input(text: &str, history: &History) -> Input {
    let typed = text.trim();
    match typed.trim_end_matches(';').trim_end() {
        "" => return Input::Nothing,
        "quit" | "exit" | "\\q" => return Input::Quit,
        "help" | "\\?" => return Input::Help,
        "history" => return Input::History,
        word => {
            if let Some(number) = word.strip_prefix('!') {
                let number = if number == "!" { Ok(0) } else { number.parse::<usize>() };
                let found = number.ok().and_then(|number| history.get(number));
                return match found {
                    Some(statement) => Input::Statement(statement.to_owned()),
                    None => Input::Unknown(word.to_owned()),
                };
            }
        }
    }
    if typed.ends_with(';') { Input::Statement(typed.to_owned()) } else { Input::Part }
}

/// Reads lines of standard input on a separate thread, so that an interrupt is handled meanwhile.
fn read_lines() -> Receiver<io::Result<String>> {
    let (sender, receiver) = channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lines() {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Shows the prompt if standard output is a terminal.
fn show_prompt(prompt: &str) -> io::Result<()> {
    if !io::stdout().is_terminal() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(prompt.as_bytes())?;
    out.flush()
}

const HELP: &str = "Statements end with a semicolon; history lists the last ones, !3 runs the third again, !! the last, quit ends.";

/// Maximum statements that `history` lists.
const MAX_SHOWN_STATEMENTS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_with_a_semicolon() {
        let mut history = History::default();
        history.add("SELECT 1;").unwrap();
        assert_eq!(parse_input("SELECT 1\n", &history), Input::Part);
        assert_eq!(
            parse_input(" SELECT\n1; ", &history),
            Input::Statement("SELECT\n1;".to_owned())
        );
        for word in ["!!", "!1", "!1;"] {
            assert_eq!(parse_input(word, &history), Input::Statement("SELECT 1;".to_owned()));
        }
        assert_eq!(parse_input("!2", &history), Input::Unknown("!2".to_owned()));
        assert_eq!(parse_input(" \n", &history), Input::Nothing);
        assert_eq!(parse_input("quit;", &history), Input::Quit);
        assert_eq!(parse_input("history", &history), Input::History);
    }
}
