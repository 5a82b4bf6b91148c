//! Pairwise tests of commands, kinds of stores, kinds of regions and limits: any two values occur
//! together in some run.

use std::collections::BTreeSet;

use anyhow::Context as _;

use super::kinds::{self, KindStore};
use super::{Memory, check_peak, measure_peak};
use crate::Report;
use crate::commands::{Case, Zvf, listed};

/// Measures every run of the cover, or a sample. Stores have the requested number of vertices, or
/// are ten times as large as the limit.
pub(super) fn run(options: &Memory, zvf: &Zvf, report: &mut Report) -> anyhow::Result<()> {
    let Memory { size, limit: limits, every, what, .. } = options;
    let [in_regions, whole] = ["in regions", "whole"].map(|list| Vec::from_iter(listed::<2>(list)));
    let rows = cover(&[in_regions.len(), KINDS, REGIONS.len(), limits.len()]).into_iter();
    let rows = rows.map(|row| (in_regions[row[0]], row[1], REGIONS[row[2]], row[3]));
    let of_whole = cover(&[whole.len(), KINDS, limits.len()]).into_iter();
    let rows = rows.chain(of_whole.map(|row| (whole[row[0]], row[1], "all", row[2])));
    let mut rows: Vec<_> = rows.step_by((*every).max(1)).collect();
    rows.sort_by_key(|(_, _, _, limit)| *limit);
    for (at, mib) in limits.iter().enumerate() {
        let folder = zvf.place.parent().context("the place has a parent")?.join(mib.to_string());
        let stores = kinds::prepare_stores(zvf, &folder, size.unwrap_or(mib << 20))?;
        for ([command, line], kind, region, _) in rows.iter().filter(|row| row.3 == at) {
            let store = &stores[*kind];
            let name = format!("{command} {region} {} {mib} MiB", store.kind);
            let case = prepare_case(&name, line, store, region);
            let is_there = *region != "objects" || store.has_objects();
            if !is_there || !case.is_selected(what.as_deref()) {
                continue;
            }
            zvf.restore(&case)?;
            let held = measure_peak(zvf, &case.line, *mib)?;
            check_peak(report, &name, held, (mib + SLACK_MIB) * 1024);
        }
        std::fs::remove_dir_all(folder)?;
    }
    Ok(())
}

fn prepare_case(name: &str, line: &str, store: &KindStore, region: &str) -> Case {
    let [x, y] = store.extent.map(|side| side / 2.0);
    let is_edit = line.starts_with("edit");
    let region = match region {
        "box" => format!("--bbox=0,0,0:{x},{y},1e9"),
        "slab" => format!("--bbox={x},-1,-1:{},1e9,1e9", x * 1.02),
        // An edit selects by columns, and by axes only in regions.
        "where" if is_edit => format!("--ball={x},0,0:{}", x / 1.5),
        "where" => format!("--where=x<{}", x / 1.5),
        "objects" => "--objects=0,7,9,30".to_owned(),
        _ if is_edit && !line.contains("append") => "--all".to_owned(),
        _ => String::new(),
    };
    Case::new(name, &store.before, format!("{} {region}", line.replace("INPUT", &store.input)))
}

/// Returns rows with a value of each factor, below these numbers: any two values of two factors
/// occur together in some row.
fn cover(factors: &[usize]) -> Vec<Vec<usize>> {
    let mut left = BTreeSet::new();
    for (a, first) in factors.iter().enumerate() {
        for (b, second) in factors.iter().enumerate().skip(a + 1) {
            left.extend((0..*first).flat_map(|v| (0..*second).map(move |w| (a, v, b, w))));
        }
    }
    let mut rows = Vec::new();
    while let Some(&(a, v, b, w)) = left.first() {
        let mut row: Vec<Option<usize>> = vec![None; factors.len()];
        (row[a], row[b]) = (Some(v), Some(w));
        for factor in 0..factors.len() {
            if row[factor].is_some() {
                continue;
            }
            let count_met = |value: &usize| {
                let others = row.iter().enumerate().filter_map(|(at, v)| Some((at, (*v)?)));
                let pair = |(at, v)| {
                    if at < factor { (at, v, factor, *value) } else { (factor, *value, at, v) }
                };
                others.map(pair).filter(|pair| left.contains(pair)).count()
            };
            // The last of the best values.
            row[factor] = (0..factors[factor]).max_by_key(count_met);
        }
        let row: Vec<usize> = row.into_iter().flatten().collect();
        left.retain(|(a, v, b, w)| row[*a] != *v || row[*b] != *w);
        rows.push(row);
    }
    rows
}

const REGIONS: [&str; 5] = ["all", "box", "slab", "where", "objects"];
/// The kinds of stores.
const KINDS: usize = 5;
/// The memory that a process may use beyond its limit.
const SLACK_MIB: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_two_values_meet() {
        let factors = [4, 3, 5, 2];
        let rows = cover(&factors);
        assert!(rows.len() < 30, "{}", rows.len());
        for a in 0..4 {
            for b in a + 1..4 {
                let met: BTreeSet<_> = rows.iter().map(|row| (row[a], row[b])).collect();
                assert_eq!(met.len(), factors[a] * factors[b]);
            }
        }
    }
}
