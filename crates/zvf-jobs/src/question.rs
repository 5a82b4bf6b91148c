//! The parts of a query as text, for the command line and for query strings.
//!
//! ```text
//! level             0, vertices=N, bytes=SIZE, error=X, screen=WIDTH/PIXELS
//! ids               7,9,20..30: the end of a range is not included
//! columns           all, none, or names with commas between them
//! box               x,y,z:x,y,z, or the numbers of both corners in one list
//! ball, half-space  x,y,z:r
//! groups            0,left: by number or name
//! ```
//!
//! Not here: queries as JSON (serde of [`zvf_query::Query`]), and conditions
//! ([`zvf_query::predicate`]).

use zvf_format::Class;
use zvf_format::num::to_u64;
use zvf_model::{Kind, LevelId, LevelReader, ObjectId};
use zvf_query::{Columns, LevelRule};
use zvf_store::Store;

use crate::Error;

/// Parses a level by its number, or by a rule.
///
/// ```
/// use zvf_jobs::question::parse_level;
/// use zvf_query::LevelRule;
///
/// assert_eq!(parse_level("bytes=2MiB"), Some(LevelRule::MaxBytes(2 << 20)));
/// ```
pub fn parse_level(text: &str) -> Option<LevelRule> {
    let Some((rule, value)) = text.split_once('=') else {
        return text.parse().ok().map(|number| LevelRule::Number(LevelId(number)));
    };
    let positive = |text| parse_number(text).filter(|x| *x > 0.0 && x.is_finite());
    match rule {
        "vertices" => value.parse().ok().map(LevelRule::MaxVertices),
        "bytes" => parse_size(value).map(LevelRule::MaxBytes),
        "error" => positive(value).map(LevelRule::Error),
        "screen" => {
            let (width, pixels) = value.split_once('/')?;
            Some(LevelRule::Screen { width: positive(width)?, pixels: pixels.parse().ok()? })
        }
        _ => None,
    }
}

/// Parses a number of bytes above 0 with a unit: powers of 1000 as `kB`, of 1024 as `KiB`.
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|bytes| *bytes > 0)
}

/// Parses ids and half-open ranges of ids, at most `max` in all.
///
/// # Errors
///
/// The reason, for a message.
pub fn parse_ids(text: &str, max: u64) -> Result<Vec<ObjectId>, String> {
    let wrong = |part: &str| format!("{part:?} is not an object id or a range such as 20..30");
    let mut ids = Vec::new();
    for part in text.split(',').map(str::trim) {
        let number = |text: &str| text.trim().parse::<i64>().map_err(|_no_number| wrong(part));
        let Some((start, end)) = part.split_once("..") else {
            ids.push(ObjectId(number(part)?));
            continue;
        };
        let range = number(start)?..number(end)?;
        if range.is_empty() {
            return Err(format!("the range {part:?} is empty: its end must be above its start"));
        }
        if range.start.abs_diff(range.end) > max.saturating_sub(to_u64(ids.len())) {
            return Err(format!("{part:?} has more than {max} ids"));
        }
        ids.extend(range.map(ObjectId));
    }
    if to_u64(ids.len()) > max {
        return Err(format!("more than {max} ids"));
    }
    Ok(ids)
}

/// Parses the attributes to read.
pub fn parse_columns(text: &str) -> Columns {
    match text {
        "all" => Columns::All,
        "none" | "" => Columns::None,
        names => Columns::Named(names.split(',').map(|name| name.trim().to_owned()).collect()),
    }
}

/// Parses the corners of a box. In one list they have at least two numbers each.
pub fn parse_box(text: &str) -> Option<[Vec<f64>; 2]> {
    if let Some((low, high)) = text.split_once(':') {
        let corners = [parse_numbers(low)?, parse_numbers(high)?];
        return (corners[0].len() == corners[1].len()).then_some(corners);
    }
    let all = parse_numbers(text).filter(|all| all.len() >= 4 && all.len() % 2 == 0)?;
    let (low, high) = all.split_at(all.len() / 2);
    Some([low.to_vec(), high.to_vec()])
}

/// Parses a vector and a number: centre and radius of a ball, or normal and offset of a half-space.
pub fn parse_ball(text: &str) -> Option<(Vec<f64>, f64)> {
    let (centre, radius) = text.split_once(':')?;
    Some((parse_numbers(centre)?, parse_number(radius)?))
}

/// Parses numbers with commas between them.
pub fn parse_numbers(text: &str) -> Option<Vec<f64>> {
    text.split(',').map(parse_number).collect()
}

fn parse_number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|x: &f64| !x.is_nan())
}

/// Returns the numbers of the groups called `names`; a number is its own name.
///
/// # Errors
///
/// When the level has no such group, or its groups cannot be read.
pub async fn find_groups(level: &LevelReader, names: &[String]) -> Result<Vec<u64>, Error> {
    let invalid = |text: String| Error::custom(Class::InvalidArgument, text);
    let catalogue = level.groups().await?;
    let catalogue = catalogue.ok_or_else(|| invalid("the level has no groups".to_owned()))?;
    let count = catalogue.len();
    let number = |name: &String| {
        let found = catalogue.find(name).or_else(|| name.parse().ok());
        found.filter(|group| *group < count).ok_or_else(|| {
            let examples = (0..count.min(8)).filter_map(|group| catalogue.name(group));
            let examples = examples.collect::<Vec<_>>().join(", ");
            invalid(format!("there is no group {name:?}; there are {count}, such as {examples}"))
        })
    };
    names.iter().map(number).collect()
}

/// Returns the names of the axes of a store.
pub fn axis_names(store: &Store) -> Vec<String> {
    store.root().axes().iter().map(|axis| axis.name.clone()).collect()
}

/// Opens the arrays of every kind of a level, or of the `only` one.
///
/// # Errors
///
/// When a kind cannot be opened.
pub async fn open_kinds(
    level: &LevelReader,
    only: Option<Kind>,
) -> Result<Vec<LevelReader>, Error> {
    let is_asked = |kind: &Kind| only.is_none_or(|only| only == *kind);
    let mut all = Vec::new();
    if only.is_none() || level.kinds().iter().any(is_asked) {
        all.push(level.clone());
    }
    for kind in level.extra_kinds().filter(is_asked).collect::<Vec<_>>() {
        all.extend(level.open_kind(kind).await?);
    }
    Ok(all)
}

/// Returns the kinds of a level: that of its own arrays, then those with further arrays.
pub fn all_kinds(level: &LevelReader) -> Vec<Kind> {
    level.kinds().first().copied().into_iter().chain(level.extra_kinds()).collect()
}

const UNITS: [(&str, u64); 11] = [
    ("", 1),
    ("b", 1),
    ("kb", 1000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_sizes_with_units() {
        for (text, bytes) in
            [("1", 1), ("10kB", 10_000), ("512MiB", 512 << 20), ("2 GiB", 2 << 30), ("3m", 3 << 20)]
        {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        let refused = "|MiB|0|-1|1.5GiB|1 parsec|99999999999999999999|18446744073709551615k";
        for text in refused.split('|') {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn parses_ids_and_ranges() {
        let parse = |text: &str| {
            parse_ids(text, 1000).map(|ids| ids.iter().map(|id| id.0).collect::<Vec<_>>())
        };
        assert_eq!(parse("7"), Ok(vec![7]));
        assert_eq!(parse("7, -9,2..4,7"), Ok(vec![7, -9, 2, 3, 7]));
        assert_eq!(parse("-2..0"), Ok(vec![-2, -1]));
        for range in ["4..4", "9..2"] {
            let text = format!("the range {range:?} is empty: its end must be above its start");
            assert_eq!(parse(range), Err(text));
        }
        assert_eq!(parse("a"), Err("\"a\" is not an object id or a range such as 20..30".into()));
        assert!(parse("").is_err() && parse("1..").is_err() && parse("1,,2").is_err());
        let all = "-9223372036854775808..9223372036854775807";
        assert_eq!(parse(all), Err(format!("{all:?} has more than 1000 ids")));
        assert!(parse("0..999,1").is_ok() && parse("0..999,1,2").is_err());
        assert!(parse("0..600,0..600").is_err());
    }

    #[test]
    fn parses_levels_by_number_or_rule() {
        for (text, rule) in [
            ("3", LevelRule::Number(LevelId(3))),
            ("vertices=100", LevelRule::MaxVertices(100)),
            ("bytes=2MiB", LevelRule::MaxBytes(2 << 20)),
            ("error=0.5", LevelRule::Error(0.5)),
            ("screen=100/800", LevelRule::Screen { width: 100.0, pixels: 800 }),
        ] {
            assert_eq!(parse_level(text), Some(rule), "{text}");
        }
        for text in
            ["", "-1", "x", "vertices=x", "bytes=", "error=0", "error=nan", "screen=1", "size=1"]
        {
            assert_eq!(parse_level(text), None, "{text}");
        }
    }
}
