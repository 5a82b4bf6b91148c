//! Which link rows belong to which fragment.
//!
//! ```text
//! link_fragments/<chunk>    groups of the rows of the link cell whose endpoints lie in the chunk
//! fragment_link_groups      the level's claim that group k holds exactly the links among the rows of
//!                           fragment k, each link once
//! ```
//!
//! Where the claim is true, the links of one fragment are a few byte ranges of the cell. It is held
//! against the first chunk with links before it is relied on; where that chunk cannot be read, it is not.

use async_recursion::async_recursion as boxed;
use std::collections::HashSet;
use std::ops::Range;

use zvf_error::Result;
use zvf_format::fragment::Fragment;
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::num::to_u64;
use zvf_store::Caching;

use crate::{ChunkFragments, LevelReader, LinkRecords};

impl LevelReader {
    /// Returns the groups of link rows of the chunks `keys`; `None` where nothing is stored.
    ///
    /// Each answer has its own fault: a blob that cannot be read or is no fragment index.
    #[boxed]
    pub async fn link_fragments(&self, keys: &[ChunkKey]) -> Vec<Result<Option<ChunkFragments>>> {
        match self.node().cells("link_fragments").await {
            Ok(Some(cells)) => crate::level::indexes(&cells, keys).await,
            Ok(None) => keys.iter().map(|_| Ok(None)).collect(),
            Err(error) => keys.iter().map(|_| Err(error.clone().into())).collect(),
        }
    }

    /// Returns the rows of the link cell of `chunk` that join rows of its fragment `fragment`; `None` where only
    /// reading all of them would tell.
    ///
    /// # Errors
    ///
    /// When fragment indexes or links cannot be read.
    #[boxed]
    pub async fn links_of_fragment(
        &self,
        chunk: &ChunkKey,
        fragment: u64,
    ) -> Result<Option<Vec<Range<u64>>>> {
        let groups = self.kept_link_groups().get_or_try_init(|| self.has_link_groups());
        if !*groups.await? {
            return Ok(None);
        }
        let found = self.link_fragments(std::slice::from_ref(chunk)).await.pop();
        let Some(groups) = found.transpose()?.flatten() else { return Ok(None) };
        Ok(groups.view()?.get(fragment).map(ranges))
    }

    /// Returns whether the level claims that groups follow fragments, and its first chunk with links agrees.
    async fn has_link_groups(&self) -> Result<bool> {
        if !self.node().meta().fragment_link_groups {
            return Ok(false);
        }
        let Some(family) = self.links(Delta::SAME).await? else { return Ok(false) };
        let Some(within) = family.segments().iter().find(|segment| segment.is_intra()) else {
            return Ok(false);
        };
        let Some(first) = within.cells().await?.source(0) else { return Ok(true) };
        let key = [first];
        let (Some(Ok(fragments)), Some(Ok(Some(groups))), Some(Ok(records))) = (
            self.fragments(&key).await.pop(),
            self.link_fragments(&key).await.pop(),
            within.read(&[0], Caching::Keep).await.pop(),
        ) else {
            return Ok(false);
        };
        Ok(follow(&fragments, &groups, &records).unwrap_or(false)) // a chunk at fault bears nothing out
    }
}

/// Returns whether group k holds exactly the links among the rows of fragment k, and each link is in one.
fn follow(
    fragments: &ChunkFragments,
    groups: &ChunkFragments,
    records: &LinkRecords,
) -> Result<bool> {
    if fragments.len() != groups.len() {
        return Ok(false);
    }
    let (fragments, groups) = (fragments.view()?, groups.view()?);
    let total = to_u64(records.len());
    if groups.rows_total() != Some(total) || groups.check_rows(total).is_err() {
        return Ok(false);
    }
    let mut seen = HashSet::new();
    for (fragment, group) in fragments.iter().zip(groups.iter()) {
        for record in group.rows() {
            let record = zvf_format::num::saturating_usize(record); // one of those in memory
            let inside = records.ends(record).all(|(_, row)| contains_row(&fragment, row));
            if !inside || !seen.insert(record) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn contains_row(fragment: &Fragment<'_>, row: u64) -> bool {
    match fragment {
        // At most 2^63, unless a map has changed.
        Fragment::Range { start, count } => (*start..start.saturating_add(*count)).contains(&row),
        Fragment::Rows(_) => fragment.rows().any(|other| other == row),
    }
}

/// Returns the rows of a group, those that follow each other joined; below 2^63, unless a map has changed since they were
/// checked.
fn ranges(group: Fragment<'_>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let rows = match group {
        Fragment::Range { start, count } => {
            ranges.push(start..start.saturating_add(count));
            return ranges;
        }
        Fragment::Rows(_) => group.rows(),
    };
    for row in rows {
        match ranges.last_mut() {
            Some(last) if last.end == row => last.end = row.saturating_add(1),
            _ => ranges.push(row..row.saturating_add(1)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use zvf_format::fragment::FragmentIndexBuilder;
    use zvf_format::link::LinkRecord;
    use zvf_store::Key;

    use super::*;

    fn index(lists: &[&[u64]]) -> ChunkFragments {
        let mut builder = FragmentIndexBuilder::new();
        lists.iter().for_each(|rows| builder.push_rows(rows).unwrap());
        let chunk = ChunkKey::new(&[0]).unwrap();
        ChunkFragments::new(builder.encode().into(), &Key::root(), chunk).unwrap()
    }

    #[test]
    fn a_true_claim_is_accepted() {
        let chunk = ChunkKey::new(&[0]).unwrap();
        let mut records = LinkRecords::new(&[chunk, chunk], 2);
        for rows in [[0, 1], [3, 2], [1, 0]] {
            records.push(&LinkRecord::new(&rows, None).unwrap());
        }
        let fragments = index(&[&[0, 1], &[2, 3], &[]]);
        #[rustfmt::skip]
        let table: [(&str, &[&[u64]], bool); 6] = [
            ("true", &[&[0, 2], &[1], &[]], true),
            ("another number of groups", &[&[0, 2], &[1]], false),
            ("a link missing", &[&[0], &[1], &[]], false),
            ("a link in two groups", &[&[0, 0], &[1], &[]], false),
            ("a link of another fragment", &[&[0, 1], &[2], &[]], false),
            ("a row past the links", &[&[0, 2], &[3], &[]], false),
        ];
        for (name, groups, is) in table {
            assert_eq!(follow(&fragments, &index(groups), &records).unwrap(), is, "{name}");
        }
    }

    #[test]
    fn neighbouring_rows_are_one_range() {
        let groups = index(&[&[4, 5, 6], &[7, 2, 3, 9], &[]]);
        let view = groups.view().unwrap();
        let found: Vec<_> = view.iter().map(ranges).collect();
        assert_eq!(
            found,
            [std::iter::once(4..7).collect::<Vec<_>>(), vec![7..8, 2..4, 9..10], vec![]]
        );
    }
}
