//! Runs the program: the statements of the arguments, of standard input, or of the prompt.

use std::io::{self, IsTerminal as _, Read as _};

use crate::arguments::Arguments;
use crate::fault::Fault;
use crate::{output, prompt, session, statements};

/// Runs the program.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Fault> {
    let arguments = &arguments;
    output::check(arguments)?;
    let context = statements::run_until_interrupt(session::open(arguments)).await?;
    match &arguments.statement {
        Some(text) if text != "-" => statements::run(&context, arguments, text).await,
        None if io::stdin().is_terminal() => prompt::run(&context, arguments).await,
        _ => {
            let text = statements::run_until_interrupt(read_stdin()).await?;
            statements::run(&context, arguments, &text).await
        }
    }
}

/// Reads all of standard input.
async fn read_stdin() -> Result<String, Fault> {
    // Read on a separate thread, so that an interrupt is handled meanwhile.
    let read = tokio::task::spawn_blocking(|| {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_bytes| text)
    });
    Ok(read.await.map_err(io::Error::other)??)
}
