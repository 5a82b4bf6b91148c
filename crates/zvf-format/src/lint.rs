//! Lints: input that is readable but not canonical, which only a strict reader refuses.
//!
//! A lint is a [`FormatError`] that was not returned. A structure allows few kinds of variation
//! (padding, spare bits, bytes after the end), so the set is small and needs no allocator: the
//! first lint of each kind is kept, the rest are counted.

use crate::error::FormatError;

/// The lints of one view, in file order.
///
/// ```
/// use zvf_format::Lints;
///
/// let lints = Lints::default();
/// assert!(lints.is_empty());
/// assert!(lints.into_strict().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lints {
    kept: [Option<FormatError>; KEPT], // filled from the front
    found: u64,
}

impl Lints {
    /// Returns whether nothing was found.
    pub const fn is_empty(&self) -> bool {
        self.found == 0
    }

    /// Returns the number of lints found, including those not kept.
    pub const fn count(&self) -> u64 {
        self.found
    }

    /// Returns an iterator over the kept lints: the first few, in file order.
    pub fn iter(&self) -> impl Iterator<Item = &FormatError> {
        self.kept.iter().flatten()
    }

    /// Returns the first lint as an error, for strict mode.
    ///
    /// # Errors
    ///
    /// The first lint, if there is one.
    pub const fn into_strict(self) -> Result<(), FormatError> {
        match self.kept {
            [Some(first), ..] => Err(first),
            _ => Ok(()),
        }
    }

    /// Adds one lint.
    pub fn push(&mut self, lint: FormatError) {
        self.found = self.found.saturating_add(1); // one by one
        if let Some(free) = self.kept.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(lint);
        }
    }
}

/// The number of lints kept per view.
const KEPT: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, Expected, Part};

    #[test]
    fn keeps_the_first_and_counts_the_rest() {
        let mut lints = Lints::default();
        for at in 0..9 {
            let expected = Expected::Exactly(0);
            lints.push(FormatError::new(
                Class::NonCanonical,
                Part::FragmentIndex,
                "bitmap padding",
                at,
                expected,
                1_u8,
            ));
        }
        assert_eq!((lints.count(), lints.iter().count()), (9, KEPT));
        assert_eq!(lints.into_strict().unwrap_err().offset, 0);
    }
}
