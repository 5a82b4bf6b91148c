//! What is wanted of zvf in each piece of work, and whether it is met.
//!
//! A figure is a time, or how many times as long as somebody else it may take at most. Work for which none is written
//! down should be ten times as fast as the reference (where that is not there: as the fastest of the others), or within
//! twice the limit. Work with nobody beside it and no figure is not judged, and neither is a figure that compares with
//! somebody who is not here. How the time grows with the data has a figure of its own.

use crate::bar::Bar;
use crate::row::{Role, Row, Side};

/// What is wanted of a piece of work, by its part and a piece of its name; none for all others.
pub(crate) fn find_bars(part: &str, work: &str) -> Vec<Bar> {
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
pub(crate) fn judge_row(row: &Row) -> Verdict {
    let verdicts: Vec<Verdict> = match row.bars.as_slice() {
        [] => vec![judge_without_figure(row)],
        bars => bars.iter().map(|bar| judge_bar(row, *bar)).collect(),
    };
    if let Some(missed) = verdicts.iter().find(|verdict| matches!(verdict, Verdict::Missed { .. }))
    {
        return missed.clone();
    }
    let whys: Vec<&str> = verdicts
        .iter()
        .filter_map(|verdict| match verdict {
            Verdict::NotJudged(why) => Some(why.as_str()),
            _ => None,
        })
        .collect();
    if whys.is_empty() { Verdict::Met } else { Verdict::NotJudged(whys.join("; ")) }
}

fn judge_bar(row: &Row, bar: Bar) -> Verdict {
    let (side, ours) = match find_our_side(row, bar) {
        Ok(ours) => ours,
        Err(why) => return Verdict::NotJudged(why),
    };
    let met = match bar {
        Bar::Ahead(times) => rival_seconds(row).map(|rival| rival >= times * ours),
        Bar::Seconds(seconds) => Ok(ours <= seconds),
        Bar::Times(_, times, who) => {
            let name = &row.sides[side].name;
            let theirs = |side: &&Side| side.name != *name && side.name.contains(who);
            find_seconds(row, who, theirs).map(|(_, theirs)| ours <= times * theirs)
        }
        Bar::Cores(times) => {
            let alone = |side: &&Side| side.name.ends_with(ONE_PROCESSOR);
            find_seconds(row, ONE_PROCESSOR, alone).map(|(_, alone)| alone >= times * ours)
        }
    };
    match met {
        Ok(true) => Verdict::Met,
        Ok(false) => Verdict::Missed { side },
        Err(why) => Verdict::NotJudged(why),
    }
}

/// Which one of ours a figure is of, and what it takes.
fn find_our_side(row: &Row, bar: Bar) -> Result<(usize, f64), String> {
    match bar {
        Bar::Times(form, ..) => {
            let is_side = |side: &&Side| is_ours(side.role) && side.name.ends_with(form);
            find_seconds(row, form, is_side)
        }
        _ => find_seconds(row, "zvf", |side| side.role == Role::Zvf),
    }
}

/// The place of a side and what it takes, or why that is not known.
fn find_seconds(
    row: &Row,
    who: &str,
    is_side: impl FnMut(&&Side) -> bool,
) -> Result<(usize, f64), String> {
    let mut is_side = is_side;
    let found = row.sides.iter().enumerate().find(|(_, side)| is_side(side));
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
fn rival_seconds(row: &Row) -> Result<f64, String> {
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
    let (side, ours) = match find_our_side(row, Bar::Ahead(10.0)) {
        Ok(ours) => ours,
        Err(why) => return Verdict::NotJudged(why),
    };
    let (rival, limit) = (rival_seconds(row), row.seconds(Role::Limit));
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
pub(crate) fn find_growth_limit(part: &str, work: &str, who: &str) -> f64 {
    let found = GROWTHS.iter().find(|growth| {
        growth.part == part && work.contains(growth.work) && who.ends_with(growth.who)
    });
    found.map_or(LINEAR, |growth| growth.exponent)
}

/// A figure for all work of a part with this in its name.
struct Figure {
    part: &'static str,
    work: &'static str,
    bar: Bar,
}

const fn new_figure(part: &'static str, work: &'static str, bar: Bar) -> Figure {
    Figure { part, work, bar }
}

const FIGURES: &[Figure] = &[
    new_figure("points", "intensity > ", Bar::Times("", 1.0, "DuckDB prepared")),
    new_figure("lines", "one streamline", Bar::Times("", 3.0, "TRX")),
    new_figure("lines", "2000 streamlines", Bar::Times("", 1.0, "TRX")),
    new_figure("lines", "all streamlines", Bar::Times("in shards", 4.0, "TRX")),
    new_figure("lines", "all streamlines", Bar::Times("packed and mapped", 3.0, "TRX")),
    new_figure("shapes", "1 of 1000 ", Bar::Seconds(30e-6)),
    new_figure("shapes", "500 of 1000 ", Bar::Seconds(8e-3)),
    new_figure("open", "97336 chunks", Bar::Seconds(0.3e-3)),
    // Rounds of 20 ms, and what the machine needs beside them.
    new_figure("remote", "a new handle", Bar::Times("a file a cell", 3.3, "one request a cell")),
    new_figure("remote", "a new handle", Bar::Times("in shards", 4.3, "one request a cell")),
    new_figure("remote", "a new handle", Bar::Times("packed", 2.3, "one request a cell")),
    new_figure("files", "of CSV", Bar::Times("", 3.0, "polars")),
    new_figure("files", "of OBJ", Bar::Seconds(0.35)),
    new_figure("pyramid", "a mesh of", Bar::Times("", 3.0, "meshoptimizer")),
    new_figure("edit", "move one of 1000000 ", Bar::Seconds(10e-3)),
    new_figure("edit", "100000 random edits", Bar::Seconds(0.5)),
    new_figure("tensor", "b2nd: plane across axis 2", Bar::Ahead(1.5)),
    new_figure("tensor", "b2nd: box", Bar::Ahead(2.5)),
    new_figure("cores", "", Bar::Cores(1.7)),
    new_figure("billion", "SQL, all rows to Arrow", Bar::Times("zvf-sql", 1.3, "zvf query")),
    new_figure("billion", "SQL, rows of a box to Arrow", Bar::Times("zvf-sql", 2.0, "zvf query")),
];

/// A figure for the growth of all work of a part with this in its name, by whoever of ours has a name that ends so.
struct Growth {
    part: &'static str,
    work: &'static str,
    who: &'static str,
    exponent: f64,
}

const fn new_growth(
    part: &'static str,
    work: &'static str,
    who: &'static str,
    exponent: f64,
) -> Growth {
    Growth { part, work, who, exponent }
}

const GROWTHS: &[Growth] = &[
    new_growth("open", "", "", CONSTANT),
    new_growth("grow", "new levels beside more files", "", CONSTANT),
    new_growth("grow", "a box of a thousand points", "", CONSTANT),
    new_growth("grow", "one streamline", "", CONSTANT),
    new_growth("grow", "100 streamlines", "", CONSTANT),
    new_growth("grow", "a box of a ", "", CONSTANT),
    new_growth("grow", "all ", "", 1.05),
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

    fn new_row(bars: &[Bar], sides: &[(&str, Role, f64)]) -> Row {
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
        judge_row(row) == Verdict::Met
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
            assert_eq!(is_met(&new_row(&[], &sides)), met, "{sides:?}");
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
            assert_eq!(is_met(&new_row(&[bar], &sides)), met, "{bar}");
            assert!(!is_met(&new_row(&[bar, Bar::Seconds(1.0)], &sides)));
        }
    }

    #[test]
    fn what_cannot_be_compared_is_not_judged() {
        let mut alone = new_row(&[], &[("zvf", Role::Zvf, 1.0)]);
        let why = |text: &str| Verdict::NotJudged(text.into());
        assert_eq!(judge_row(&alone), why("no figure, and nobody else does it"));
        alone.sides.push(Side {
            name: "TRX, trx-python".into(),
            role: Role::Peer,
            result: Err("no wheel".into()),
            stored: None,
        });
        assert_eq!(judge_row(&alone), why("no figure, and TRX, trx-python is not here: no wheel"));
        for (bar, text) in [
            (Bar::Times("", 3.0, "TRX"), "TRX, trx-python is not here: no wheel"),
            (Bar::Times("mapped", 3.0, "TRX"), "mapped is not in the row"),
            (Bar::Ahead(2.0), "TRX, trx-python is not here: no wheel"),
            (Bar::Cores(1.7), "one processor is not in the row"),
        ] {
            alone.bars = vec![bar, Bar::Seconds(1.0)];
            assert_eq!(judge_row(&alone), why(text), "{bar}");
            // What is missed for certain is missed.
            alone.bars = vec![bar, Bar::Seconds(0.5)];
            assert_eq!(judge_row(&alone), Verdict::Missed { side: 0 }, "{bar}");
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
        assert_eq!(judge_row(&new_row(&[times("zvf")], &sides)), Verdict::Met);
        assert_eq!(
            judge_row(&new_row(&[times("zvf"), times("in shards")], &sides)),
            Verdict::Missed { side: 1 }
        );
        assert_eq!(judge_row(&new_row(&[Bar::Cores(1.5)], &sides)), Verdict::Met);
        assert_eq!(judge_row(&new_row(&[Bar::Cores(1.7)], &sides)), Verdict::Missed { side: 0 });
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
            assert_eq!(find_growth_limit(part, work, who), exponent, "{work}");
        }
    }

    /// A figure for a part that is gone is never seen.
    #[test]
    fn every_figure_is_of_a_part_that_there_is() {
        for figure in FIGURES {
            let is_in_table = ALL.iter().any(|part| part.name == figure.part);
            let alone = ["remote", "billion"].contains(&figure.part);
            assert!(is_in_table || alone, "{}", figure.part);
        }
        assert!(GROWTHS.iter().all(|growth| ALL.iter().any(|part| part.name == growth.part)));
        assert_eq!(find_bars("shapes", "1 of 1000 meshes"), [Bar::Seconds(30e-6)]);
        assert!(
            find_bars("shapes", "1 of 10 meshes").is_empty()
                && find_bars("ask", "1 of 1000 ").is_empty()
        );
    }
}
