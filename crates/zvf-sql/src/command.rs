//! Does what the arguments ask: the statements in them, those of standard input, or those typed at the prompt.

use std::io::{self, IsTerminal as _, Read as _};

use crate::arguments::Arguments;
use crate::fault::Fault;
use crate::{output, prompt, session, statements};

/// Does what the arguments ask.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Fault> {
    let arguments = &arguments;
    output::check(arguments)?;
    let context = statements::or_interrupt(session::open(arguments)).await?;
    match &arguments.statement {
        Some(text) if text != "-" => statements::interruptible(&context, arguments, text).await,
        None if io::stdin().is_terminal() => prompt::run(&context, arguments).await,
        _ => {
            let text = statements::or_interrupt(typed()).await?;
            statements::interruptible(&context, arguments, &text).await
        }
    }
}

/// All of standard input.
async fn typed() -> Result<String, Fault> {
    // On a thread of its own: an interrupt is seen meanwhile.
    let read = tokio::task::spawn_blocking(|| {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_bytes| text)
    });
    Ok(read.await.map_err(io::Error::other)??)
}
