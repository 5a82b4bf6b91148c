//! A long list of short texts in one piece of memory: the presence list of a chunk array.
//!
//! A level may have ten million chunks. As JSON values their keys would take ten times the bytes of
//! the document; here they take those of their text and one position each.
//!
//! Not here: what a key means (`key`), and whether it lies inside the grid.

use alloc::string::String;
use alloc::vec::Vec;

/// Texts back to back, in the order of the document.
///
/// ```
/// use zvf_format::metadata::KeyList;
///
/// let keys: KeyList = ["-1.0", "0.0"].into_iter().collect();
/// assert_eq!((keys.len(), keys.get(0), keys.get(2)), (2, Some("-1.0"), None));
/// assert_eq!(keys.iter().collect::<Vec<_>>(), ["-1.0", "0.0"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyList {
    text: String,
    ends: Vec<usize>, // never decreasing, each a character boundary of `text`, the last its length
}

impl KeyList {
    /// How many keys there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Key `i`, or `None` past the end.
    #[must_use]
    pub fn get(&self, i: usize) -> Option<&str> {
        let end = *self.ends.get(i)?;
        let start = match i.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.text.get(start..end)
    }

    /// The keys, in the order of the document.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let key = self.text.get(start..end).unwrap_or_default(); // cut where it was joined
            start = end;
            key
        })
    }

    /// Adds one key at the end.
    pub fn push(&mut self, key: &str) {
        self.text.push_str(key);
        self.ends.push(self.text.len());
    }

    /// Gives back what growing reserved too much.
    pub(super) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

impl<T: AsRef<str>> FromIterator<T> for KeyList {
    fn from_iter<I: IntoIterator<Item = T>>(keys: I) -> Self {
        let mut list = Self::default();
        for key in keys {
            list.push(key.as_ref());
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_one_by_one() {
        let keys: KeyList = ["", "0.1", "", "é"].into_iter().collect();
        for (i, key) in keys.iter().enumerate() {
            assert_eq!(keys.get(i), Some(key));
        }
        assert_eq!(keys.iter().collect::<Vec<_>>(), ["", "0.1", "", "é"]);
        assert_eq!(keys.get(4), None);
        assert!(KeyList::default().is_empty() && !keys.is_empty());
    }
}
