//! A long list of short texts in one piece of memory: the presence list of a chunk array.
//!
//! A level may have ten million chunks. As JSON values their keys would take ten times the bytes of
//! the document; here they take those of their text. Opening a store need not look at each of them:
//! a list as writers print it is checked by its bytes and kept as it is, and cut when keys are asked for.
//!
//! ```text
//! ["0.0", "0.1",\n "10.0"]     as printed: digits, dots and signs between quotes, a comma after each
//! ["0.\u0030", "a" , "b"]     any other list: its keys one by one, as the parser reads strings
//! ```
//!
//! Not here: what a key means (`zvf_format::key`), and whether it lies inside the grid.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use zvf_format::key::count_printed_keys;

/// Texts in the order of the document; cheap to clone when they came from one.
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
    /// As a document prints them, brackets left out: `len` texts between two quotes each, and no
    /// other quotes.
    Printed { text: Arc<str>, len: usize },
    /// Back to back; `ends` never decreases, each is a character boundary of `text`, the last its length.
    Joined { text: String, ends: Vec<usize> },
}

impl KeyList {
    /// Reads the list whose opening bracket `text` starts with, and counts the bytes it takes with its brackets.
    ///
    /// `None` where it is not printed as writers do: it may be a list all the same.
    pub(super) fn parse_printed(text: &str) -> Option<(Self, usize)> {
        let end = text.find(']')?;
        let list = text.get(..end)?.trim_end_matches([' ', '\n', '\r', '\t']);
        let len = count_printed_keys(list.as_bytes())?;
        let text = list.get(1..)?.into();
        Some((Self(Keys::Printed { text, len }), end.saturating_add(1)))
    }

    /// Returns how many keys there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        match &self.0 {
            Keys::Printed { len, .. } => *len,
            Keys::Joined { ends, .. } => ends.len(),
        }
    }

    /// Returns whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns key `i`, or `None` past the end. In a list of a document those before it are walked over.
    #[must_use]
    pub fn get(&self, i: usize) -> Option<&str> {
        self.iter().nth(i)
    }

    /// Returns an iterator over the keys, in the order of the document.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let mut start = 0;
        (0..self.len()).map(move |i| {
            let (key, next) = self.cut(i, start).unwrap_or_default(); // `i` is below the length
            start = next;
            key
        })
    }

    /// Returns key `i`, which lies at `start` or soon after, and where the one after it may be looked for: places in `text`,
    /// so that no sum saturates.
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

    /// Adds one key at the end.
    pub fn push(&mut self, key: &str) {
        if let Keys::Printed { .. } = self.0 {
            *self = self.iter().collect();
        }
        if let Keys::Joined { text, ends } = &mut self.0 {
            text.push_str(key);
            ends.push(text.len());
        }
    }

    /// Gives back what growing reserved too much.
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

/// The same keys in the same order, however they are kept.
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
