//! Statements typed in: until a semicolon, with history; faults are printed and the next one is asked for.
//!
//! Lines are edited by the terminal itself. A reader of lines of its own would bring features of `libc` and `rustix` that
//! the engine is then compiled with once more.

use std::io::{self, IsTerminal as _, Write as _};

use datafusion::prelude::SessionContext;
use tokio::sync::mpsc::{Receiver, channel};

use crate::arguments::Arguments;
use crate::fault::Fault;
use crate::history::History;
use crate::statements;

/// Asks for statements until the end of input or `quit`.
pub(crate) async fn run(context: &SessionContext, arguments: &Arguments) -> Result<(), Fault> {
    let mut history = History::load()?;
    if !arguments.quiet {
        writeln!(io::stdout(), "{HELP}")?;
    }
    let mut lines = lines();
    let mut text = String::new();
    loop {
        show(if text.is_empty() { "zvf> " } else { "...> " })?;
        let line = tokio::select! {
            line = lines.recv() => line,
            _ = tokio::signal::ctrl_c() => {
                // The terminal has thrown the line away.
                text.clear();
                writeln!(io::stdout())?;
                continue;
            }
        };
        let Some(line) = line else { break };
        text.push_str(&line?);
        match meaning(&text, &history) {
            Typed::Part => text.push('\n'),
            Typed::Nothing => text.clear(),
            Typed::Quit => break,
            Typed::Help => {
                writeln!(io::stdout(), "{HELP}")?;
                text.clear();
            }
            Typed::History => {
                let mut out = io::stdout().lock();
                for (number, statement) in history.newest(SHOWN) {
                    writeln!(out, "{number:5}  {}", statement.replace('\n', "\n       "))?;
                }
                text.clear();
            }
            Typed::Unknown(word) => {
                Fault::usage(format!("there is no statement {word} in the history")).print(false);
                text.clear();
            }
            Typed::Statement(statement) => {
                if let Err(error) = history.add(&statement) {
                    Fault::from(error).print(arguments.json);
                }
                if let Err(fault) = statements::interruptible(context, arguments, &statement).await
                {
                    fault.print(arguments.json);
                }
                text.clear();
            }
        }
    }
    Ok(())
}

/// What was typed so far.
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    Nothing,
    /// The beginning of a statement.
    Part,
    Statement(String),
    History,
    Help,
    Quit,
    /// A number that no statement of the history has.
    Unknown(String),
}

fn meaning(text: &str, history: &History) -> Typed {
    let typed = text.trim();
    match typed.trim_end_matches(';').trim_end() {
        "" => return Typed::Nothing,
        "quit" | "exit" | "\\q" => return Typed::Quit,
        "help" | "\\?" => return Typed::Help,
        "history" => return Typed::History,
        word => {
            if let Some(number) = word.strip_prefix('!') {
                let number = if number == "!" { Ok(0) } else { number.parse::<usize>() };
                let found = number.ok().and_then(|number| history.get(number));
                return match found {
                    Some(statement) => Typed::Statement(statement.to_owned()),
                    None => Typed::Unknown(word.to_owned()),
                };
            }
        }
    }
    if typed.ends_with(';') { Typed::Statement(typed.to_owned()) } else { Typed::Part }
}

/// The lines of standard input: a thread waits for them, so that an interrupt is seen meanwhile.
fn lines() -> Receiver<io::Result<String>> {
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

fn show(prompt: &str) -> io::Result<()> {
    if !io::stdout().is_terminal() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(prompt.as_bytes())?;
    out.flush()
}

const HELP: &str = "Statements end with a semicolon; history lists the last ones, !3 runs the third again, !! the last, quit ends.";

/// Statements that `history` lists.
const SHOWN: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_with_a_semicolon() {
        let mut history = History::default();
        history.add("SELECT 1;").unwrap();
        assert_eq!(meaning("SELECT 1\n", &history), Typed::Part);
        assert_eq!(meaning(" SELECT\n1; ", &history), Typed::Statement("SELECT\n1;".to_owned()));
        for word in ["!!", "!1", "!1;"] {
            assert_eq!(meaning(word, &history), Typed::Statement("SELECT 1;".to_owned()));
        }
        assert_eq!(meaning("!2", &history), Typed::Unknown("!2".to_owned()));
        assert_eq!(meaning(" \n", &history), Typed::Nothing);
        assert_eq!(meaning("quit;", &history), Typed::Quit);
        assert_eq!(meaning("history", &history), Typed::History);
    }
}
