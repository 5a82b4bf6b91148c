//! The blobs of a ZVF store: fragments, manifests, ragged rows, links, framing, shards.

use zvf_error::Result;
use zvf_format::fragment::{Fragment, FragmentIndex};
use zvf_format::link::{Body, LinkCell, RowShape};
use zvf_format::manifest::{Block, BlockFragments, Manifest};
use zvf_format::num::{checked_usize, to_u64};
use zvf_format::ragged::Ragged;
use zvf_format::shard::{IndexLocation, ShardIndex};
use zvf_format::vlen::VlenRows;

use super::{BlobReport, BlobSettings};

impl BlobReport {
    pub(super) fn fragment_index(&mut self, settings: &BlobSettings, blob: &[u8]) -> Result<()> {
        let index = FragmentIndex::parse(blob)?;
        let explicit =
            index.iter().filter(|fragment| matches!(fragment, Fragment::Rows(_))).count();
        self.add_fact("fragments", index.len());
        self.add_fact("explicit", explicit);
        self.add_fact("rows", index.rows_total());
        self.add_fact("extent", index.extent());
        self.lints(&index.lints());
        self.list(index.iter().enumerate().map(|(f, fragment)| match fragment {
            Fragment::Range { start, count } => {
                format!("{f}: rows {start}..{}", start + count)
            }
            Fragment::Rows(_) => {
                format!("{f}: {} rows: {}", fragment.len(), first_few(fragment.rows()))
            }
        }));
        if let Some(rows) = settings.rows {
            self.add_fact("tiles", index.tiles(rows));
            index.check_rows(rows)?;
        }
        Ok(())
    }

    pub(super) fn manifest(&mut self, axes: u64, blob: &[u8]) -> Result<()> {
        let manifest = Manifest::parse(blob, axes)?;
        self.add_fact("blocks", manifest.blocks().count());
        self.add_fact("references", manifest.len());
        self.list(manifest.blocks().map(|block| words(&block)));
        Ok(())
    }

    pub(super) fn ragged(&mut self, settings: &BlobSettings, size: u8, blob: &[u8]) -> Result<()> {
        let ragged = Ragged::parse(blob, size, settings.columns)?;
        self.add_fact("groups", ragged.len());
        self.add_fact("rows", ragged.rows().len());
        self.lints(&ragged.lints());
        let row = u64::from(size) * u64::from(settings.columns); // as the groups were parsed
        self.list(ragged.groups().enumerate().map(|(k, group)| {
            let rows = to_u64(group.len()).checked_div(row).unwrap_or(0); // rows without bytes
            format!("group {k}: {rows} rows")
        }));
        Ok(())
    }

    pub(super) fn link_cell(
        &mut self,
        settings: &BlobSettings,
        shape: RowShape,
        blob: &[u8],
    ) -> Result<()> {
        let body = if settings.inline { Body::Inline } else { Body::Flat };
        let cell = LinkCell::parse(blob, body, shape)?;
        self.add_fact("records", cell.len());
        if let Some(groups) = cell.groups() {
            self.add_fact("groups", groups.len());
        }
        self.lints(&cell.lints());
        self.list(cell.records().map(|record| {
            let rows: Vec<String> = record.rows().iter().map(u64::to_string).collect();
            match record.perm() {
                Some(code) => format!("{} (permutation {code})", rows.join(" - ")),
                None => rows.join(" - "),
            }
        }));
        Ok(())
    }

    pub(super) fn vlen(&mut self, settings: &BlobSettings, blob: &[u8]) -> Result<()> {
        // A blob that is too short for its count is refused below.
        let stated = blob.first_chunk::<4>().map_or(0, |count| u32::from_le_bytes(*count).into());
        let rows = VlenRows::parse(blob, settings.rows.unwrap_or(stated))?;
        self.add_fact("items", rows.len());
        self.add_fact("payload_bytes", rows.iter().map(<[u8]>::len).sum::<usize>());
        self.lints(&rows.lints());
        self.list(rows.iter().enumerate().map(|(i, item)| format!("{i}: {} bytes", item.len())));
        Ok(())
    }

    pub(super) fn shard_index(
        &mut self,
        settings: &BlobSettings,
        cells: u64,
        blob: &[u8],
    ) -> Result<()> {
        let location =
            if settings.index_at_start { IndexLocation::Start } else { IndexLocation::End };
        let total = self.bytes;
        let span = location.span(cells, settings.checksum, total)?;
        let bounds = checked_usize(span.start).zip(checked_usize(span.end));
        // The span is inside the blob.
        let bytes = bounds.and_then(|(start, end)| blob.get(start..end)).unwrap_or_default();
        let index = ShardIndex::parse(bytes, cells, settings.checksum)?;
        let alone = span.end - span.start == total;
        self.add_fact("cells", index.len());
        self.add_fact("present", index.iter().flatten().count());
        // The spans of an index alone were not checked against a file size: their sum may overflow 64
        // bits.
        let mut lengths = index.iter().flatten().map(|span| span.end - span.start);
        self.add_fact("payload_bytes", lengths.try_fold(0_u64, u64::checked_add));
        self.list(index.iter().enumerate().map(|(i, span)| match span {
            Some(span) => format!("{i}: bytes {}..{}", span.start, span.end),
            None => format!("{i}: absent"),
        }));
        if !alone {
            index.check_spans(total, location)?;
        }
        Ok(())
    }
}

fn words(block: &Block<'_>) -> String {
    let chunk: Vec<String> = block.chunk.iter().map(|at| at.get().to_string()).collect();
    let chunk = chunk.join(".");
    match block.fragments {
        BlockFragments::Single(fragment) => format!("chunk {chunk}: fragment {fragment}"),
        BlockFragments::Range { start, count } => {
            format!("chunk {chunk}: fragments {start}..{}", start + count)
        }
        fragments => format!("chunk {chunk}: fragments {}", first_few(fragments.iter())),
    }
}

/// Lists the first eight numbers, and marks where there are more.
fn first_few(mut numbers: impl Iterator<Item = u64>) -> String {
    let listed: Vec<String> = numbers.by_ref().take(8).map(|number| number.to_string()).collect();
    let more = if numbers.next().is_some() { ", …" } else { "" };
    format!("{}{more}", listed.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::BlobKind;
    use super::*;

    #[test]
    fn cells_of_an_index_alone_may_have_any_length() {
        let settings = BlobSettings { cells: Some(2), checksum: false, ..BlobSettings::default() };
        for (bytes, sum) in [(8, json!(16)), (u64::MAX - 1, Value::Null)] {
            let index = [0, bytes, 0, bytes].map(u64::to_le_bytes).concat();
            let report = settings.report(BlobKind::ShardIndex, &index).unwrap();
            assert_eq!(report.facts["payload_bytes"], sum, "{bytes}");
            assert!(report.is_sound(true), "{:?}", report.findings);
        }
    }
}
