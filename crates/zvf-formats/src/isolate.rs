//! Isolation of third-party decoders: a panic becomes an error message.
//!
//! The panic prints nothing on the terminal. The caller reports an error of the file.

use std::cell::Cell;
use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// Runs `decode`, and returns the message of a panic.
///
/// # Errors
///
/// When it panicked.
pub fn catch_panic<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let default_hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_CATCHING.get() {
                default_hook(info);
            }
        }));
    });
    let was_catching = IS_CATCHING.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(decode));
    IS_CATCHING.set(was_catching);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        format!("a decoder that gave up: {}", text.unwrap_or_else(|| "no reason given".to_owned()))
    })
}

/// Runs `decode`, and returns the message of its error or of a panic.
pub fn catch<T, E: Display>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    catch_panic(decode)?.map_err(|error| error.to_string())
}

static HOOK: Once = Once::new();

thread_local! {
    /// Whether this thread runs in [`catch_panic`].
    static IS_CATCHING: Cell<bool> = const { Cell::new(false) };
}

#[cfg(test)]
mod tests {
    use crate::isolate::catch_panic;

    #[test]
    fn returns_the_message_of_a_panic() {
        assert_eq!(catch_panic(|| 1), Ok(1));
        let found = catch_panic(|| [1, 2].iter().map(|n| 1 / (n - 1)).sum::<i32>()).unwrap_err();
        assert!(found.contains("divide by zero"), "{found}");
    }
}
