//! Finds the name that was probably meant.

/// Returns the one of `names` with the smallest edit distance to `name`, if that is small enough.
pub(crate) fn find_closest_name<'a>(
    name: &str,
    names: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let budget = name.chars().count() / 3;
    let scored = names.map(|candidate| (distance(name, candidate), candidate));
    let (changes, nearest) = scored.min_by_key(|(changes, _)| *changes)?;
    (changes <= budget.max(1)).then_some(nearest)
}

/// Returns the edit distance, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    let mut changes = b.len();
    for (i, from) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (to, above) in b.iter().zip(row.iter().skip(1)) {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = *above;
            left = replaced.min(left + 1).min(above + 1);
            next.push(left);
        }
        row = next;
        changes = left;
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted() {
        for (a, b, changes) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("kitten", "sitting", 3),
            ("Label", "label", 0),
            ("ab", "ba", 2),
            ("intensty", "intensity", 1),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (changes, changes), "{a} {b}");
        }
    }

    #[test]
    fn only_similar_names_are_suggested() {
        let names = || ["color", "intensity", "id"].into_iter();
        assert_eq!(find_closest_name("intensty", names()), Some("intensity"));
        assert_eq!(find_closest_name("colour", names()), Some("color"));
        assert_eq!(find_closest_name("label", names()), None);
        assert_eq!(find_closest_name("x", std::iter::empty()), None);
    }
}
