//! Runs edits and converts their errors, for tasks: an edit blocks, so it runs on its own thread.

use zvf_edit::EditError;
use zvf_format::Class;

use crate::Error;

/// Runs `work` on a separate thread and returns its result, because edits block.
pub(super) async fn run_on_thread<T: Send + 'static>(
    op: &'static str,
    work: impl FnOnce() -> Result<T, EditError> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| wrap_edit_error(op, &error)),
        Err(error) => Err(Error::custom(Class::Io, error.to_string()).with_op(op)),
    }
}

pub(super) fn wrap_edit_error(op: &'static str, error: &EditError) -> Error {
    Error::from_line(error.class, error.to_string()).with_op(op)
}
