//! Statements typed in: until a semicolon, with history; faults are printed and the next one is asked for.

use std::io::{self, Write as _};
use std::path::PathBuf;

use datafusion::prelude::SessionContext;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::arguments::Arguments;
use crate::fault::Fault;
use crate::statements;

/// Asks for statements until the end of input or `quit`.
pub(crate) async fn run(context: &SessionContext, arguments: &Arguments) -> Result<(), Fault> {
    let mut editor = DefaultEditor::new().map_err(unusable)?;
    let history = history();
    if let Some(path) = &history {
        // There is none before the first time.
        drop(editor.load_history(path));
    }
    if !arguments.quiet {
        writeln!(io::stdout(), "Statements end with a semicolon; quit ends.")?;
    }
    let mut text = String::new();
    loop {
        let prompt = if text.is_empty() { "zvf> " } else { "...> " };
        match tokio::task::block_in_place(|| editor.readline(prompt)) {
            Ok(line) => text.push_str(&line),
            Err(ReadlineError::Interrupted) => {
                text.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(unusable(error)),
        }
        let typed = text.trim();
        if matches!(typed.trim_end_matches(';'), "quit" | "exit" | "\\q") {
            break;
        }
        if !typed.ends_with(';') {
            if !typed.is_empty() {
                text.push('\n');
            }
            continue;
        }
        // A line that cannot be kept is still answered.
        drop(editor.add_history_entry(typed));
        if let Err(fault) = statements::answer(context, arguments, typed).await {
            fault.print(arguments.json);
        }
        text.clear();
    }
    if let Some(path) = &history {
        drop(editor.save_history(path));
    }
    Ok(())
}

fn history() -> Option<PathBuf> {
    let home = std::env::home_dir()?;
    Some(home.join(".zvf_sql_history"))
}

fn unusable(error: ReadlineError) -> Fault {
    match error {
        ReadlineError::Io(error) => error.into(),
        other => Fault::usage(other.to_string()),
    }
}
