//! Adds to a full level the parts that zarr-vectors does not write: attributes of vertices, edges
//! and faces, and groups.
//!
//! ```text
//! attributes     of all that refers to a vertex, as its position is: the mean of floats, of others the most frequent value
//! edges, faces   those of level 0 between the bins of their ends (`elements`)
//! groups         those of level 0, with the members that the level has
//! ```
//!
//! Attributes of fragments are not here: a vertex of a coarser level is a fragment by itself, and
//! may belong to several objects.

use std::collections::HashSet;

use zvf_error::Result;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_metadata::Object;
use zvf_model::{Column, Field, Kind, LevelId, LevelReader, Members, ObjectId};
use zvf_store::{Caching, Store};
use zvf_write::GroupTable;

use super::coarsen::{NONE, ReferenceLevel};
use super::element_cells;
use super::elements::SourceElements;
use super::read::read_attributes;
use super::write::{FullReport, Target};
use crate::clusters::Clusters;
use crate::groups::{self, Group};
use crate::rule::Aggregation;

/// The state that is passed from level to level.
pub(super) struct FullContent {
    kind: Kind,
    columns: Vec<DescribedColumn>, // of the vertices of the last level
    elements: Option<SourceElements>,
    groups: Vec<Group>, // of level 0
    group_fields: Vec<Field>,
}

/// An attribute, and the metadata of its array at level 0.
pub(super) struct DescribedColumn {
    pub(super) field: Field,
    pub(super) attributes: Object,
}

impl FullContent {
    /// Reads the content of level 0.
    pub(super) async fn read(store: &Store, level: &ReferenceLevel) -> Result<Self> {
        let reader = LevelReader::open(store, LevelId(0)).await?;
        let mut columns = Vec::new();
        for name in reader.attribute_names().await?.names {
            let Some(attribute) = reader.attribute(&name).await? else { continue };
            let mut cells = Vec::with_capacity(level.keys.len());
            for keys in level.keys.chunks(READ_BATCH_CHUNKS) {
                for column in attribute.values(keys, Caching::Once).await {
                    cells.push(column?);
                }
            }
            if cells.is_empty() {
                continue;
            }
            let rows = cells.iter().map(|cell| 0..cell.len()).enumerate();
            let column = Column::pick(&cells.iter().collect::<Vec<_>>(), rows);
            let attributes = read_attributes(store, &format!("0/vertex_attributes/{name}")).await?;
            columns.push(DescribedColumn { field: attribute.field(column), attributes });
        }
        let of_store = std::slice::from_ref(&reader);
        Ok(Self {
            kind: reader.kinds().first().copied().unwrap_or(Kind::PointCloud),
            columns,
            elements: SourceElements::read(store, &reader, level).await?,
            groups: groups::read_level_groups(&reader).await?.unwrap_or_default(),
            group_fields: groups::fields(of_store).await?,
        })
    }

    /// Writes the content of a level.
    pub(super) async fn write_level(&mut self, target: &Target<'_>) -> Result<FullReport> {
        let mut report = FullReport::default();
        self.coarsen_columns(target)?;
        for column in &self.columns {
            write_column(target, column).await?;
        }
        if !self.columns.is_empty() {
            report.families.push("vertex_attributes");
        }
        if let Some(elements) = &mut self.elements {
            elements.follow(target.kept_objects, target.parents);
            let made = elements.elements_at(target.level)?;
            report.elements = to_u64(made.len());
            element_cells::write(target, elements, &made).await?;
            report.families.push("links");
        }
        self.write_groups(target).await?;
        Ok(report)
    }

    /// Computes the attributes of a level from those of the one below.
    fn coarsen_columns(&mut self, target: &Target<'_>) -> Result<()> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let references = reference_counts(target.source, target.kept_objects);
        let cluster_of_row = drop_unreferenced(target.parents, &references);
        let clusters = Clusters::new(&cluster_of_row, target.level.rows());
        for column in &mut self.columns {
            let rule = Aggregation::default_for(&column.field, true);
            if let Some(field) = clusters.field(&column.field, rule, Some(&references))? {
                column.field = field;
            }
        }
        Ok(())
    }

    /// Writes the groups, with the members that have vertices at this level.
    async fn write_groups(&self, Target { build, number, level, .. }: &Target<'_>) -> Result<()> {
        let mut table = GroupTable::default();
        // Without an index there is a single object.
        let ids = level.ids.as_deref().unwrap_or_default();
        let gone = (0..).zip(ids).filter(|(row, _)| level.object(*row).is_empty());
        let gone: HashSet<i64> = gone.map(|(_, id)| *id).collect();
        for (name, members) in &self.groups {
            table.add(name.as_deref(), remove_members(members, ids, &gone));
        }
        self.group_fields.iter().cloned().for_each(|field| table.add_field(field));
        table.write(build, self.kind, *number).await
    }
}

/// Returns the members of a group without `gone`, of the objects `ids`.
fn remove_members(members: &Members, ids: &[i64], gone: &HashSet<i64>) -> Members {
    let left = |id: &i64| !gone.contains(id);
    match members {
        Members::Ids(ids) => Members::Ids(ids.iter().copied().filter(|id| left(&id.0)).collect()),
        // A range may name more ids than there are objects.
        Members::Range { start, stop } if gone.iter().any(|id| (*start..*stop).contains(id)) => {
            let in_range =
                ids.iter().copied().filter(|id| (*start..*stop).contains(id) && left(id));
            Members::Ids(in_range.map(ObjectId).collect())
        }
        Members::Range { .. } => members.clone(),
    }
}

/// Returns how often the objects `kept_objects` refer to each row of `source`.
fn reference_counts(source: &ReferenceLevel, kept_objects: &[usize]) -> Vec<u64> {
    let mut counts = vec![0_u64; source.rows()];
    for row in kept_objects.iter().flat_map(|object| source.object(*object)) {
        counts[usize_from_u32(*row)] += 1;
    }
    counts
}

/// Returns the row of the level for each row; none for an unreferenced row.
fn drop_unreferenced(parents: &[u32], references: &[u64]) -> Vec<u32> {
    let parent = |(parent, count): (&u32, &u64)| if *count > 0 { *parent } else { NONE };
    parents.iter().zip(references).map(parent).collect()
}

async fn write_column(target: &Target<'_>, column: &DescribedColumn) -> Result<()> {
    let DescribedColumn { field, attributes } = column;
    let mut attributes = attributes.clone();
    attributes.insert("dtype".to_owned(), String::from(field.column.dtype()).into());
    let path = format!("vertex_attributes/{}", field.name);
    let cell = |rows| Ok(field.column.slice(rows).bytes().clone());
    target.write_chunks(&path, attributes, cell).await
}

/// Chunks that are read at once.
const READ_BATCH_CHUNKS: usize = 256;
