//! Decoders of others, kept from taking the program down.
//!
//! A panic in one becomes a value, and says nothing on the terminal: the caller makes a fault of the file
//! of it.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// Runs `decode`; what it said where it panicked.
///
/// # Errors
///
/// When it panicked.
pub(crate) fn catch<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    let before = QUIET.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(decode));
    QUIET.set(before);
    done.map_err(|said| {
        let text = said.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| said.downcast_ref::<String>().cloned());
        format!("a decoder that gave up: {}", text.unwrap_or_else(|| "no reason given".to_owned()))
    })
}

static HOOK: Once = Once::new();

thread_local! {
    /// Whether a panic of this thread is caught above.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

#[cfg(test)]
mod tests {
    use super::catch;

    #[test]
    fn a_panic_is_a_value() {
        assert_eq!(catch(|| 1), Ok(1));
        let found = catch(|| [1, 2].iter().map(|n| 1 / (n - 1)).sum::<i32>()).unwrap_err();
        assert!(found.contains("divide by zero"), "{found}");
    }
}
