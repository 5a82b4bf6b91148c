//! What is wanted of zvf in each piece of work, and whether it is met.
//!
//! A figure is a time, or how many times as long as somebody else it may take at most. Work for which none is written
//! down should be ten times as fast as the reference (where that is not there: as the fastest of the others), or within
//! twice the limit. Work with nobody beside it and no figure is not judged, and neither is a figure that compares with
//! somebody who is not here. How the time grows with the data has a figure of its own.

use crate::bar::Bar;
use crate::row::{Role, Row, Side};

/// What is wanted of a piece of work, by its part and a piece of its name; none for all others.
pub(crate) fn find(part: &str, work: &str) -> Vec<Bar> {
    let found = FIGURES.iter().filter(|figure| figure.part == part && work.contains(figure.work));
    found.map(|figure| figure.bar).collect()
}

/// What became of a piece of work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// All that is wanted of it is met.
    Met,
    /// Some is not, by this one of its sides.
    Missed { side: usize },
    /// Nothing is missed, and some cannot be said, for this reason.
    NotJudged(String),
}

/// Whether all that is wanted of a row is met.
pub(crate) fn judge(row: &Row) -> Verdict {
    let verdicts: Vec<Verdict> = match row.bars.as_slice() {
        [] => vec![judge_without_figure(row)],
        bars => bars.iter().map(|bar| judge_bar(row, *bar)).collect(),
    };
    if let Some(missed) = verdicts.iter().find(|one| matches!(one, Verdict::Missed { .. })) {
        return missed.clone();
    }
    let whys: Vec<&str> = verdicts
        .iter()
        .filter_map(|one| match one {
            Verdict::NotJudged(why) => Some(why.as_str()),
            _ => None,
        })
        .collect();
    if whys.is_empty() { Verdict::Met } else { Verdict::NotJudged(whys.join("; ")) }
}

fn judge_bar(row: &Row, bar: Bar) -> Verdict {
    let (side, ours) = match find_ours(row, bar) {
        Ok(ours) => ours,
        Err(why) => return Verdict::NotJudged(why),
    };
    let met = match bar {
        Bar::Ahead(times) => rival(row).map(|rival| rival >= times * ours),
        Bar::Seconds(seconds) => Ok(ours <= seconds),
        Bar::Times(_, times, who) => {
            let own = &row.sides[side].name;
            let theirs = |side: &&Side| side.name != *own && side.name.contains(who);
            seconds_of(row, who, theirs).map(|(_, theirs)| ours <= times * theirs)
        }
        Bar::Cores(times) => {
            let alone = |side: &&Side| side.name.ends_with(ONE_PROCESSOR);
            seconds_of(row, ONE_PROCESSOR, alone).map(|(_, alone)| alone >= times * ours)
        }
    };
    match met {
        Ok(true) => Verdict::Met,
        Ok(false) => Verdict::Missed { side },
        Err(why) => Verdict::NotJudged(why),
    }
}

/// Which one of ours a figure is of, and what it takes.
fn find_ours(row: &Row, bar: Bar) -> Result<(usize, f64), String> {
    match bar {
        Bar::Times(form, ..) => {
            let wanted = |side: &&Side| is_ours(side.role) && side.name.ends_with(form);
            seconds_of(row, form, wanted)
        }
        _ => seconds_of(row, "zvf", |side| side.role == Role::Zvf),
    }
}

/// The place of a side and what it takes, or why that is not known.
fn seconds_of(
    row: &Row,
    who: &str,
    wanted: impl FnMut(&&Side) -> bool,
) -> Result<(usize, f64), String> {
    let mut wanted = wanted;
    let found = row.sides.iter().enumerate().find(|(_, side)| wanted(side));
    let (place, side) = found.ok_or_else(|| format!("{who} is not in the row"))?;
    match &side.result {
        Ok(turn) => Ok((place, turn.seconds)),
        Err(why) => Err(format!("{} is not here: {why}", side.name)),
    }
}

const fn is_ours(role: Role) -> bool {
    matches!(role, Role::Zvf | Role::Variant)
}

/// The reference, or else the fastest of the others; or why there is none.
fn rival(row: &Row) -> Result<f64, String> {
    let peers = row.sides.iter().filter(|side| side.role == Role::Peer);
    let fastest =
        peers.filter_map(|side| Some(side.result.as_ref().ok()?.seconds)).reduce(f64::min);
    row.seconds(Role::Reference).or(fastest).ok_or_else(|| {
        let others = |side: &&Side| matches!(side.role, Role::Reference | Role::Peer);
        match row.sides.iter().find(others).map(|side| (&side.name, &side.result)) {
            Some((name, Err(why))) => format!("{name} is not here: {why}"),
            _ => "nobody else does it".to_owned(),
        }
    })
}

/// Whether zvf is ten times ahead, or within twice the limit.
fn judge_without_figure(row: &Row) -> Verdict {
    let (side, ours) = match find_ours(row, Bar::Ahead(10.0)) {
        Ok(ours) => ours,
        Err(why) => return Verdict::NotJudged(why),
    };
    let (rival, limit) = (rival(row), row.seconds(Role::Limit));
    let is_ahead = rival.as_ref().is_ok_and(|rival| *rival >= 10.0 * ours);
    if is_ahead || limit.is_some_and(|limit| ours <= 2.0 * limit) {
        return Verdict::Met;
    }
    match (rival, limit) {
        (Err(why), None) => Verdict::NotJudged(format!("no figure, and {why}")),
        _ => Verdict::Missed { side },
    }
}

/// By which power of the amount of data the time of a work of ours may grow at most.
pub(crate) fn find_growth(part: &str, work: &str, who: &str) -> f64 {
    let found = GROWTHS
        .iter()
        .find(|one| one.part == part && work.contains(one.work) && who.ends_with(one.who));
    found.map_or(LINEAR, |one| one.exponent)
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
    figure("cores", "", Bar::Cores(1.7)),
    figure("billion", "SQL, all rows to Arrow", Bar::Times("zvf-sql", 1.3, "zvf query")),
    figure("billion", "SQL, rows of a box to Arrow", Bar::Times("zvf-sql", 2.0, "zvf query")),
];

/// A figure for the growth of all work of a part with this in its name, by whoever of ours has a name that ends so.
struct Growth {
    part: &'static str,
    work: &'static str,
    who: &'static str,
    exponent: f64,
}

const fn growth(
    part: &'static str,
    work: &'static str,
    who: &'static str,
    exponent: f64,
) -> Growth {
    Growth { part, work, who, exponent }
}

const GROWTHS: &[Growth] = &[
    growth("open", "", "", CONSTANT),
    growth("grow", "new levels beside more files", "", CONSTANT),
    growth("grow", "a box of a thousand points", "", CONSTANT),
    growth("grow", "one streamline", "", CONSTANT),
    growth("grow", "100 streamlines", "", CONSTANT),
    growth("grow", "a box of a ", "", CONSTANT),
    growth("grow", "all ", "", 1.05),
];

/// The growth of work that looks at all data: linear, and what the caches of a processor add.
const LINEAR: f64 = 1.1;
/// The growth of work that looks at as much however much there is.
const CONSTANT: f64 = 0.3;
/// The end of the name of who works on one processor.
pub(crate) const ONE_PROCESSOR: &str = "one processor";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::ALL;
    use crate::row::{Side, Turn};

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

    fn is_met(row: &Row) -> bool {
        judge(row) == Verdict::Met
    }

    #[test]
    fn without_a_figure_far_ahead_or_near_the_limit_is_enough() {
        for (sides, met) in [
            (&[(Role::Reference, 10.0)][..], true),
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

    #[test]
    fn what_cannot_be_compared_is_not_judged() {
        let mut alone = row(&[], &[("zvf", Role::Zvf, 1.0)]);
        let why = |text: &str| Verdict::NotJudged(text.into());
        assert_eq!(judge(&alone), why("no figure, and nobody else does it"));
        alone.sides.push(Side {
            name: "TRX, trx-python".into(),
            role: Role::Peer,
            result: Err("no wheel".into()),
            stored: None,
        });
        assert_eq!(judge(&alone), why("no figure, and TRX, trx-python is not here: no wheel"));
        for (bar, text) in [
            (Bar::Times("", 3.0, "TRX"), "TRX, trx-python is not here: no wheel"),
            (Bar::Times("mapped", 3.0, "TRX"), "mapped is not in the row"),
            (Bar::Ahead(2.0), "TRX, trx-python is not here: no wheel"),
            (Bar::Cores(1.7), "one processor is not in the row"),
        ] {
            alone.bars = vec![bar, Bar::Seconds(1.0)];
            assert_eq!(judge(&alone), why(text), "{bar}");
            // What is missed for certain is missed.
            alone.bars = vec![bar, Bar::Seconds(0.5)];
            assert_eq!(judge(&alone), Verdict::Missed { side: 0 }, "{bar}");
        }
    }

    #[test]
    fn the_one_of_ours_that_misses_is_named() {
        let sides = [
            ("zvf", Role::Zvf, 1.0),
            ("zvf, in shards", Role::Variant, 9.0),
            ("zvf, one processor", Role::Variant, 1.5),
            ("TRX", Role::Peer, 2.0),
        ];
        let times = |form| Bar::Times(form, 4.0, "TRX");
        assert_eq!(judge(&row(&[times("zvf")], &sides)), Verdict::Met);
        assert_eq!(
            judge(&row(&[times("zvf"), times("in shards")], &sides)),
            Verdict::Missed { side: 1 }
        );
        assert_eq!(judge(&row(&[Bar::Cores(1.5)], &sides)), Verdict::Met);
        assert_eq!(judge(&row(&[Bar::Cores(1.7)], &sides)), Verdict::Missed { side: 0 });
    }

    #[test]
    fn growth_has_figures_of_its_own() {
        for (part, work, who, exponent) in [
            ("grow", "all points", "zvf", 1.05),
            ("grow", "all points", "zvf, in shards", 1.05),
            ("grow", "write a mesh", "zvf, in shards", 1.1),
            ("grow", "a box of a mesh", "zvf", 0.3),
            ("grow", "three levels of a mesh, within 64MiB", "zvf", 1.1),
            ("open", "open, by chunks", "zvf", 0.3),
        ] {
            assert_eq!(find_growth(part, work, who), exponent, "{work}");
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
        assert!(GROWTHS.iter().all(|one| ALL.iter().any(|part| part.name == one.part)));
        assert_eq!(find("shapes", "1 of 1000 meshes"), [Bar::Seconds(30e-6)]);
        assert!(
            find("shapes", "1 of 10 meshes").is_empty() && find("ask", "1 of 1000 ").is_empty()
        );
    }
}
