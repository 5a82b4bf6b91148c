//! What is wanted of zvf in each piece of work, and whether it is met.
//!
//! A figure is a time, or how many times as long as somebody else it may take at most. Work for which none is written
//! down should be ten times as fast as the reference (where that is not there: as the fastest of the others), or within
//! twice the limit.

use std::fmt;

use crate::contest::{Role, Row};

/// What is wanted of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bar {
    /// At least so many times as fast as the reference, or else as the fastest of the others.
    Ahead(f64),
    /// At most so many seconds.
    Seconds(f64),
    /// One of ours, whose name ends so, takes at most so many times as long as another one, who has this in its name.
    Times(&'static str, f64, &'static str),
}

impl fmt::Display for Bar {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ahead(times) => write!(to, "{} times as fast", round(*times)),
            Self::Seconds(seconds) => write!(to, "at most {}", crate::page::time(*seconds)),
            Self::Times(_, times, who) => write!(to, "at most {} times {who}", round(*times)),
        }
    }
}

/// Two digits after the point: figures of the issue say no more.
fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// What is wanted of a piece of work, by its part and a piece of its name; none for all others.
pub(crate) fn find(part: &str, work: &str) -> Vec<Bar> {
    let found = FIGURES.iter().filter(|figure| figure.part == part && work.contains(figure.work));
    found.map(|figure| figure.bar).collect()
}

/// Whether all that is wanted of a row is met; what cannot be said, because nobody is there to compare with, is.
pub(crate) fn is_met(row: &Row) -> bool {
    match row.bars.as_slice() {
        [] => is_well(row),
        bars => bars.iter().all(|bar| meets(row, *bar)),
    }
}

fn meets(row: &Row, bar: Bar) -> bool {
    let ours = row.seconds(Role::Zvf).unwrap_or(f64::NAN);
    match bar {
        Bar::Ahead(times) => rival(row).is_none_or(|rival| rival >= times * ours),
        Bar::Seconds(seconds) => ours <= seconds,
        Bar::Times(form, times, who) => {
            let mut sides = row.sides.iter();
            let ours = sides.find(|side| is_ours(side.role) && side.name.ends_with(form));
            let own = ours.map(|side| side.name.as_str());
            let mut others = row.sides.iter().filter(|side| Some(side.name.as_str()) != own);
            let theirs = others.find(|side| side.name.contains(who));
            let seconds = [ours, theirs]
                .map(|side| side.and_then(|side| Some(side.result.as_ref().ok()?.seconds)));
            match seconds {
                [Some(ours), Some(theirs)] => ours <= times * theirs,
                _ => true,
            }
        }
    }
}

const fn is_ours(role: Role) -> bool {
    matches!(role, Role::Zvf | Role::Variant)
}

/// The reference, or else the fastest of the others.
fn rival(row: &Row) -> Option<f64> {
    let peers = row.sides.iter().filter(|side| side.role == Role::Peer);
    let fastest =
        peers.filter_map(|side| Some(side.result.as_ref().ok()?.seconds)).reduce(f64::min);
    row.seconds(Role::Reference).or(fastest)
}

/// Whether zvf is ten times ahead, or within twice the limit, or has nobody beside it.
fn is_well(row: &Row) -> bool {
    let ours = row.seconds(Role::Zvf).unwrap_or(f64::NAN);
    let (rival, limit) = (rival(row), row.seconds(Role::Limit));
    rival.is_some_and(|rival| rival >= 10.0 * ours)
        || limit.is_some_and(|limit| ours <= 2.0 * limit)
        || (rival.is_none() && limit.is_none())
}

/// A figure for all work of a part with this in its name.
struct Figure {
    part: &'static str,
    work: &'static str,
    bar: Bar,
}

const fn figure(part: &'static str, work: &'static str, bar: Bar) -> Figure {
    Figure { part, work, bar }
}

const FIGURES: &[Figure] = &[
    figure("points", "intensity > ", Bar::Times("", 1.0, "DuckDB prepared")),
    figure("lines", "one streamline", Bar::Times("", 3.0, "TRX")),
    figure("lines", "2000 streamlines", Bar::Times("", 1.0, "TRX")),
    figure("lines", "all streamlines", Bar::Times("in shards", 4.0, "TRX")),
    figure("lines", "all streamlines", Bar::Times("packed and mapped", 3.0, "TRX")),
    figure("shapes", "1 of 1000 ", Bar::Seconds(30e-6)),
    figure("shapes", "500 of 1000 ", Bar::Seconds(8e-3)),
    figure("open", "97336 chunks", Bar::Seconds(0.3e-3)),
    // Rounds of 20 ms, and what the machine needs beside them.
    figure("remote", "a new handle", Bar::Times("a file a cell", 3.3, "one request a cell")),
    figure("remote", "a new handle", Bar::Times("in shards", 4.3, "one request a cell")),
    figure("remote", "a new handle", Bar::Times("packed", 2.3, "one request a cell")),
    figure("files", "of CSV", Bar::Times("", 3.0, "polars")),
    figure("files", "of OBJ", Bar::Seconds(0.35)),
    figure("pyramid", "a mesh of", Bar::Times("", 3.0, "meshoptimizer")),
    figure("edit", "move one of 1000000 ", Bar::Seconds(10e-3)),
    figure("edit", "100000 random edits", Bar::Seconds(0.5)),
    figure("tensor", "b2nd: plane across axis 2", Bar::Ahead(1.5)),
    figure("tensor", "b2nd: box", Bar::Ahead(2.5)),
    figure("billion", "SQL, all rows to Arrow", Bar::Times("zvf-sql", 1.3, "zvf query")),
    figure("billion", "SQL, rows of a box to Arrow", Bar::Times("zvf-sql", 2.0, "zvf query")),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::{Side, Turn};
    use crate::parts::ALL;

    fn row(bars: &[Bar], sides: &[(&str, Role, f64)]) -> Row {
        let side = |(name, role, seconds): &(&str, Role, f64)| Side {
            name: (*name).into(),
            role: *role,
            result: Ok(Turn::from_seconds(*seconds)),
            stored: None,
        };
        let sides = sides.iter().map(side).collect();
        let work = "2000 objects".into();
        Row { part: "ask", work, count: None, bars: bars.to_vec(), sides, profile: None }
    }

    #[test]
    fn without_a_figure_far_ahead_or_near_the_limit_is_enough() {
        for (sides, met) in [
            (&[][..], true),
            (&[(Role::Reference, 10.0)], true),
            (&[(Role::Reference, 9.9)], false),
            (&[(Role::Limit, 0.5)], true),
            (&[(Role::Limit, 0.4)], false),
            (&[(Role::Reference, 9.9), (Role::Limit, 0.5)], true),
            (&[(Role::Reference, 10.0), (Role::Limit, 0.1)], true),
            (&[(Role::Peer, 11.0), (Role::Peer, 9.0)], false),
            (&[(Role::Peer, 11.0), (Role::Reference, 9.0)], false),
        ] {
            let sides: Vec<_> = [("zvf", Role::Zvf, 1.0)]
                .into_iter()
                .chain(sides.iter().map(|(role, seconds)| ("other", *role, *seconds)))
                .collect();
            assert_eq!(is_met(&row(&[], &sides)), met, "{sides:?}");
        }
    }

    #[test]
    fn a_figure_is_of_one_of_ours_and_of_one_of_theirs() {
        let sides = [
            ("zvf", Role::Zvf, 4.0),
            ("zvf, in shards", Role::Variant, 2.0),
            ("TRX, trx-python", Role::Peer, 1.0),
            ("GDAL", Role::Peer, 9.0),
            ("zvf query", Role::Variant, 8.0),
        ];
        for (bar, met) in [
            (Bar::Times("zvf", 4.0, "TRX"), true),
            (Bar::Times("zvf", 3.9, "TRX"), false),
            (Bar::Times("in shards", 2.0, "TRX"), true),
            (Bar::Times("in shards", 1.9, "TRX"), false),
            (Bar::Times("mapped", 0.1, "TRX"), true),
            (Bar::Times("in shards", 0.25, "zvf query"), true),
            (Bar::Times("in shards", 0.24, "zvf query"), false),
            (Bar::Seconds(4.0), true),
            (Bar::Seconds(3.9), false),
            (Bar::Ahead(0.25), true),
            (Bar::Ahead(0.26), false),
        ] {
            assert_eq!(is_met(&row(&[bar], &sides)), met, "{bar}");
            assert!(!is_met(&row(&[bar, Bar::Seconds(1.0)], &sides)));
        }
    }

    /// A figure for a part that is gone is never seen.
    #[test]
    fn every_figure_is_of_a_part_that_there_is() {
        for figure in FIGURES {
            let known = ALL.iter().any(|part| part.name == figure.part);
            let alone = ["remote", "billion"].contains(&figure.part);
            assert!(known || alone, "{}", figure.part);
        }
        assert_eq!(find("shapes", "1 of 1000 meshes"), [Bar::Seconds(30e-6)]);
        assert!(
            find("shapes", "1 of 10 meshes").is_empty() && find("ask", "1 of 1000 ").is_empty()
        );
    }
}
