//! A long list of short texts in one allocation: the presence list of a chunk array.
//!
//! A level may have ten million chunks. As JSON values their keys would take ten times the size of
//! the document; here they take the size of their text. Opening a store need not parse each key: a
//! list as writers print it is checked bytewise and stored unchanged, and split when keys are
//! requested.
//!
//! ```text
//! ["0.0", "0.1",\n "10.0"]     as printed: digits, dots and signs between quotes, a comma after each
//! ["0.\u0030", "a" , "b"]     any other list: its keys one by one, as the parser reads strings
//! ```
//!
//! Not here: the meaning of a key (`zvf_format::key`), and whether it lies inside the grid.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use zvf_format::key::count_printed_keys;

/// Texts in document order; cheap to clone if they come from a document.
///
/// ```
/// use zvf_metadata::KeyList;
///
/// let keys: KeyList = ["-1.0", "0.0"].into_iter().collect();
/// assert_eq!((keys.len(), keys.get(0), keys.get(2)), (2, Some("-1.0"), None));
/// assert_eq!(keys.iter().collect::<Vec<_>>(), ["-1.0", "0.0"]);
/// ```
#[derive(Clone, Debug)]
pub struct KeyList(Keys);

#[derive(Clone, Debug)]
enum Keys {
    /// Document text without the brackets: `len` texts, each between two quotes, and no other
    /// quotes.
    Printed { text: Arc<str>, len: usize },
    /// Concatenated texts. `ends` never decreases, each end is a character boundary of `text`, and
    /// the last is its length.
    Joined { text: String, ends: Vec<usize> },
}

impl KeyList {
    /// Parses the list whose opening bracket `text` starts with, and returns its length in bytes,
    /// brackets included.
    ///
    /// `None` if it is not printed as writers print it; it may still be a valid list.
    pub(super) fn parse_printed(text: &str) -> Option<(Self, usize)> {
        let end = text.find(']')?;
        let list = text.get(..end)?.trim_end_matches([' ', '\n', '\r', '\t']);
        let len = count_printed_keys(list.as_bytes())?;
        let text = list.get(1..)?.into();
        Some((Self(Keys::Printed { text, len }), end.saturating_add(1)))
    }

    /// Returns the number of keys.
    pub const fn len(&self) -> usize {
        match &self.0 {
            Keys::Printed { len, .. } => *len,
            Keys::Joined { ends, .. } => ends.len(),
        }
    }

    /// Returns whether there are no keys.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns key `i`, or `None` past the end. In a document's list this scans all keys before it.
    pub fn get(&self, i: usize) -> Option<&str> {
        self.iter().nth(i)
    }

    /// Returns an iterator over the keys, in document order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let mut start = 0;
        (0..self.len()).map(move |i| {
            let (key, next) = self.cut(i, start).unwrap_or_default(); // `i` is below the length
            start = next;
            key
        })
    }

    /// Returns key `i`, searched from `start` on, and the position from which to search the next
    /// one. Positions lie in `text`, so no sum saturates.
    fn cut(&self, i: usize, start: usize) -> Option<(&str, usize)> {
        match &self.0 {
            Keys::Printed { text, .. } => {
                let quote = |from: usize| {
                    let run = text.as_bytes().get(from..)?.iter().position(|b| *b == b'"')?;
                    from.checked_add(run)
                };
                let from = quote(start)?.saturating_add(1);
                let end = quote(from)?;
                Some((text.get(from..end)?, end.saturating_add(1)))
            }
            Keys::Joined { text, ends } => {
                let end = *ends.get(i)?;
                Some((text.get(start..end)?, end))
            }
        }
    }

    /// Appends one key.
    pub fn push(&mut self, key: &str) {
        if let Keys::Printed { .. } = self.0 {
            *self = self.iter().collect();
        }
        if let Keys::Joined { text, ends } = &mut self.0 {
            text.push_str(key);
            ends.push(text.len());
        }
    }

    /// Releases unused capacity.
    pub(super) fn shrink(&mut self) {
        if let Keys::Joined { text, ends } = &mut self.0 {
            text.shrink_to_fit();
            ends.shrink_to_fit();
        }
    }
}

impl Default for KeyList {
    fn default() -> Self {
        Self(Keys::Joined { text: String::new(), ends: Vec::new() })
    }
}

/// Equal if they hold the same keys in the same order; the representation does not count.
impl PartialEq for KeyList {
    fn eq(&self, other: &Self) -> bool {
        if let (Keys::Printed { text: one, .. }, Keys::Printed { text: two, .. }) =
            (&self.0, &other.0)
            && one == two
        {
            return true;
        }
        self.iter().eq(other.iter())
    }
}

impl Eq for KeyList {}

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
    fn keys_are_returned_one_by_one() {
        let keys: KeyList = ["", "0.1", "", "é"].into_iter().collect();
        for (i, key) in keys.iter().enumerate() {
            assert_eq!(keys.get(i), Some(key));
        }
        assert_eq!(keys.iter().collect::<Vec<_>>(), ["", "0.1", "", "é"]);
        assert_eq!(keys.get(4), None);
        assert!(KeyList::default().is_empty() && !keys.is_empty());
    }

    /// Each list with its result, followed by `]` and more text: the keys, or `None` if the parser
    /// must read it.
    #[test]
    fn printed_lists_are_kept() {
        #[rustfmt::skip]
        let table: [(&str, Option<&[&str]>); 22] = [
            ("[\"0.-1\"", Some(&["0.-1"])),
            ("[\"0.0\", \"0.1\"", Some(&["0.0", "0.1"])),
            ("[\"0\",\"1\",\"2\"", Some(&["0", "1", "2"])),
            ("[\n      \"0\",\n      \"1\"\n    ", Some(&["0", "1"])),
            ("", None), // only a bracket
            ("[", None),
            ("[\"\"", None),
            ("[\"0\", \"\"", None),
            ("[\"0\" \"1\"", None),
            ("[\"0\"\"1\"", None),
            ("[\"0\",, \"1\"", None),
            ("[\"0\",", None),
            ("[, \"0\"", None),
            ("[\"0\", 1", None),
            ("[\"0\", \"1", None),
            ("[\"0 1\"", None),
            ("[\"0\", \",\"", None),
            ("[0\"1\"", None),
            ("[\"a\"", None),
            ("[\"0\\u0030\"", None),
            ("[\"0\", [\"1\"", None),
            ("[\"0\"\x0c", None), // not a space in JSON
        ];
        for (list, keys) in table {
            let text = alloc::format!("{list}], [\"7\"]");
            let found = KeyList::parse_printed(&text);
            assert_eq!(found.as_ref().map(|(_, len)| *len), keys.map(|_| list.len() + 1), "{list}");
            let Some((mut found, _)) = found else { continue };
            let keys: KeyList = keys.unwrap_or_default().iter().collect();
            assert_eq!((&found, found.len(), found.get(keys.len())), (&keys, keys.len(), None));
            found.push("é");
            assert_eq!(
                found.iter().collect::<Vec<_>>(),
                keys.iter().chain(["é"]).collect::<Vec<_>>()
            );
        }
    }
}
