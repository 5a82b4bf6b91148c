//! The arrays of links: one per combination of offsets between the chunks of their ends, one per
//! attribute there, and the document of the family.
//!
//! Within a chunk, rows are written fragment by fragment, in input order within each, so that the
//! links of one object are one range of bytes. This is possible for a level if no link joins two
//! fragments of a chunk; the level then states it (`fragment_link_groups`).
//!
//! Not here: the location of a record (`zvf_format::link`), and the cells (`stages::link_cells`).

use zvf_error::Result;
use zvf_format::key::Offsets;
use zvf_format::link::{LinkPolicy, LinkStorage};
use zvf_format::num::to_u64;
use zvf_metadata::arrays::{ArrayAttributes as _, LinkColumnAttrs, LinksFamily, SegmentAttrs};
use zvf_metadata::{CellEncoding, GroupDoc, LinkStore, path_segment};
use zvf_store::CellSink;

use crate::cells::Frame;
use crate::columns::{Attribute, ColumnEncoding};

/// The family of links of a level.
pub(crate) struct Links<'a> {
    family: LinkPolicy,
    columns: &'a [Attribute],
}

impl<'a> Links<'a> {
    /// Returns links of `width` ends, with these attributes, in chunks with this many axes.
    pub(crate) fn new(
        (width, columns): (usize, &'a [Attribute]),
        rank: usize,
        directed: bool,
        store: LinkStore,
    ) -> Result<Self> {
        let family = LinkPolicy::new(width, rank)?;
        let family = if directed { family.with_direction() } else { family };
        let family = family.with_storage(match store {
            LinkStore::Canonical => LinkStorage::Canonical,
            LinkStore::Duplicate => LinkStorage::Duplicate,
        });
        Ok(Self { family, columns })
    }

    /// Returns their policy.
    pub(crate) const fn family(&self) -> &LinkPolicy {
        &self.family
    }

    /// Writes the document of the family.
    pub(crate) async fn describe(
        &self,
        frame: &Frame<'_>,
        logical: u64,
        physical: u64,
    ) -> Result<()> {
        let width = to_u64(self.family.link_width());
        let store = match self.family.store() {
            LinkStorage::Canonical => LinkStore::Canonical,
            LinkStorage::Duplicate => LinkStore::Duplicate,
        };
        let mut family = LinksFamily {
            sid_ndim: Some(to_u64(self.family.sid_ndim())),
            num_links: Some(logical),
            num_physical_records: Some(physical),
            ..LinksFamily::new(0, width, self.family.is_directed(), store)
        };
        let path = frame.path("links/0");
        let segments = frame.build.names_below(&path)?;
        let list = LinksFamily::segment_list(segments.iter().map(String::as_str), Some(physical));
        family.extras.insert(LinksFamily::SEGMENTS.to_owned(), list);
        frame.build.group(&path, &GroupDoc::new(family.to_attributes())).await?;
        for attribute in self.columns {
            let family = LinkColumnAttrs::family(&attribute.name, 0, Some(logical));
            let path = frame.path(&format!("link_attributes/{}/0", path_segment(&attribute.name)));
            frame.build.group(&path, &GroupDoc::new(family.to_attributes())).await?;
        }
        Ok(())
    }

    /// Opens the arrays of one segment.
    pub(crate) fn segment(
        &self,
        frame: &Frame<'_>,
        offsets: &Offsets,
        with_columns: bool,
    ) -> Result<Segment> {
        let steps: Vec<Vec<i64>> = offsets.iter().map(<[i64]>::to_vec).collect();
        let width = to_u64(self.family.link_width());
        let has_perm = self.family.has_perm(offsets.are_zero());
        let attributes = SegmentAttrs::new(steps, has_perm, width, 0, Vec::new());
        let links = frame.numbers(&format!("links/0/{offsets}"), attributes.to_attributes())?;
        let mut segment = Segment { links, columns: Vec::new() };
        if with_columns {
            self.add_columns(frame, offsets, &mut segment)?;
        }
        Ok(segment)
    }

    /// Opens the arrays of the attributes of the links of one segment, unless it has them.
    pub(crate) fn add_columns(
        &self,
        frame: &Frame<'_>,
        offsets: &Offsets,
        segment: &mut Segment,
    ) -> Result<()> {
        if !segment.columns.is_empty() {
            return Ok(());
        }
        let steps: Vec<Vec<i64>> = offsets.iter().map(<[i64]>::to_vec).collect();
        for attribute in self.columns {
            let encoding = attribute.encoding();
            let shape = (attribute.width != 1).then(|| attribute.width.into()).into_iter();
            let shape = shape.collect();
            let (name, steps) = (&attribute.name, steps.clone());
            let mut array =
                LinkColumnAttrs::segment(name, encoding.dtype, steps, 0, shape, Vec::new());
            if let Some(dictionary) = &encoding.dictionary {
                let dictionary_encoding = zvf_metadata::Token::from(CellEncoding::Dictionary);
                array.extras.insert("encoding".to_owned(), dictionary_encoding.as_str().into());
                array.extras.insert("categories".to_owned(), dictionary.categories.clone().into());
                if let Some(missing) = dictionary.missing {
                    array.extras.insert("_FillValue".to_owned(), missing.into());
                }
            }
            let says = [("unit", &attribute.unit), ("description", &attribute.description)];
            for (key, text) in says {
                if let Some(text) = text {
                    array.extras.insert(key.to_owned(), text.as_str().into());
                }
            }
            let path = format!("link_attributes/{}/0/{offsets}", path_segment(name));
            segment.columns.push((frame.cells(&path, array.to_attributes())?, encoding));
        }
        Ok(())
    }
}

/// The arrays of one segment that are being written.
pub(crate) struct Segment {
    pub(crate) links: CellSink,
    pub(crate) columns: Vec<(CellSink, ColumnEncoding)>,
}

impl Segment {
    /// Returns the arrays.
    pub(crate) fn sinks(&self) -> impl Iterator<Item = &CellSink> {
        std::iter::once(&self.links).chain(self.columns.iter().map(|(sink, _)| sink))
    }

    /// Returns the arrays, to be finished one by one.
    pub(crate) fn into_sinks(self) -> impl Iterator<Item = CellSink> {
        std::iter::once(self.links).chain(self.columns.into_iter().map(|(sink, _)| sink))
    }
}
