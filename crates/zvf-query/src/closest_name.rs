//! Finds the name that was probably meant.

/// Returns the one of `names` with the smallest edit distance to `name`, if that is small enough.
pub(crate) fn find_closest_name<'a>(
    name: &str,
    names: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let (budget, name) = (name.chars().count() / 3, name.to_lowercase());
    let changes = |candidate: &str| strsim::levenshtein(&name, &candidate.to_lowercase());
    let scored = names.map(|candidate| (changes(candidate), candidate));
    let (changes, nearest) = scored.min_by_key(|(changes, _)| *changes)?;
    (changes <= budget.max(1)).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_names_are_suggested() {
        let names = || ["color", "intensity", "id"].into_iter();
        assert_eq!(find_closest_name("intensty", names()), Some("intensity"));
        assert_eq!(find_closest_name("colour", names()), Some("color"));
        assert_eq!(find_closest_name("Coler", names()), Some("color"));
        assert_eq!(find_closest_name("label", names()), None);
        assert_eq!(find_closest_name("x", std::iter::empty()), None);
    }
}
