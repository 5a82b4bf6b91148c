//! Formats counts for messages.

/// Formats a count with separators between thousands.
///
/// ```
/// assert_eq!(zvf_error::group_digits(1_234_567), "1,234,567");
/// ```
pub fn group_digits(n: u64) -> String {
    let digits = n.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// Formats a count and its noun, which is given for one.
///
/// ```
/// use zvf_error::format_count;
///
/// assert_eq!((format_count(1, "vertex"), format_count(0, "row")), ("1 vertex".into(), "0 rows".into()));
/// assert_eq!(format_count(2000, "vertex"), "2,000 vertices");
/// ```
pub fn format_count(n: impl TryInto<u64>, noun: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX); // no count is negative or larger
    let (stem, end) = match noun.strip_suffix("ex") {
        _ if n == 1 => (noun, ""),
        Some(stem) => (stem, "ices"),
        None => (noun, "s"),
    };
    format!("{} {stem}{end}", group_digits(n))
}

/// Rounds a number to this many digits, which are at least one.
///
/// ```
/// assert_eq!(zvf_error::round_digits(1.11417125017175, 4), 1.114);
/// ```
pub fn round_digits(x: f64, digits: usize) -> f64 {
    format!("{x:.*e}", digits.saturating_sub(1)).parse().unwrap_or(x)
}
