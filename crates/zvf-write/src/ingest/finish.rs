//! The end of taking in: everything is written, cells first and what is said of them last.

use std::path::PathBuf;

use rayon::prelude::*;
use zvf_format::num::{saturating_i64, saturating_u32_from_usize, saturating_usize, to_u64};
use zvf_metadata::{Dtype, GeometryType, LevelDoc, LinksConvention, Vocabulary};
use zvf_model::Kind;
use zvf_store::Build;

use super::{Columns, Grouping, Ingest};
use crate::at::At;
use crate::cells::{self, Frame, Layout, Meaning, UNOWNED};
use crate::chunks::Order;
use crate::columns::Attribute;
use crate::elements::{Elements, Places};
use crate::extent::union;
use crate::kinds::Ids;
use crate::link::{Counts, LinkColumn, Links};
use crate::objects::Entry;
use crate::report::{Notice, Report};
use crate::run::Group;
use crate::schema::Schema;
use crate::stages::{KWayMerge, Known, PLACE, Stages, number_u32, number_u64, row_bytes};
use crate::stop::StopFlag;
use crate::types::{chain, tree};
use crate::{Outside, WriteError};

/// What the root says of a level that was written.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) schema: Schema,
    pub(crate) bounds: [Vec<f64>; 2],
    pub(crate) grouped: bool,
    pub(crate) explicit: bool,
    pub(crate) report: Report,
    /// The ids of all objects.
    pub(crate) ids: Ids,
    /// Where vertices went, where it was asked.
    pub(crate) placed: Option<Placed>,
}

/// Where vertices went, by their running numbers.
#[derive(Debug)]
pub(crate) enum Placed {
    /// With the places of chunks among all, in numeric order.
    Held(Places, Order),
    /// In files, with chunks numbered so.
    Files(Vec<PathBuf>),
}

impl Placed {
    /// Calls `each` with the number of each vertex, ascending, its chunk and its row.
    pub(crate) fn for_each(
        &self,
        given: u64,
        stop: &StopFlag,
        each: &mut dyn FnMut(u64, u32, u32) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        match self {
            Self::Held(places, order) => {
                let placed = (0..given).filter_map(|number| Some((number, places.locate(number)?)));
                for (number, (chunk, row)) in placed {
                    each(
                        number,
                        order.rank(chunk),
                        saturating_u32_from_usize(saturating_usize(row)), // rows have 32 bits
                    )?;
                }
            }
            Self::Files(files) => {
                let mut places = KWayMerge::open(files, PLACE, stop)?;
                while let Some(place) = places.head() {
                    each(number_u64(place), number_u32(place, 8), number_u32(place, 12))?;
                    places.advance()?;
                }
            }
        }
        Ok(())
    }
}

impl Ingest {
    /// Writes everything at `at`; `edit_level` may change the document there.
    pub(crate) async fn finish(
        mut self,
        build: &Build,
        at: At,
        edit_level: impl FnOnce(&mut LevelDoc),
    ) -> Result<Outcome, WriteError> {
        if self.lost {
            return Err(WriteError::Task {
                task: "rows that were put aside".to_owned(),
                expected: "all that were pushed".to_owned(),
                found: "a push that failed: write the store anew".to_owned(),
            });
        }
        if !self.slices.is_empty() {
            return self.finish_slices(build, at, edit_level).await;
        }
        self.rooted.par_sort_unstable();
        let runs = std::mem::take(&mut self.chains.entries);
        tree::check_once(&self.rooted)?;
        let bounds = bounds(&self.schema, self.options.outside, self.extent.corners());
        self.buffer.seal(&self.table);
        let grid = cells::extent(&self.table, &bounds, &self.schema)?;
        if self.options.compat {
            self.schema.shard = None;
        }
        self.fit_shard(&grid[0]);
        let order = self.table.order(&grid[0], self.schema.shard.as_deref());
        let stop = self.options.stop_flag();
        let frame =
            Frame::new(build, &self.table, &order, &grid, &self.schema, self.options.compat, stop);
        let frame = frame.placed(at);
        let linked = self.schema.kind.has_links();
        let places = (linked || self.tells_places).then(|| Places::new(self.given));
        let summary = self.write_vertices(&frame, places.as_ref()).await?;
        let entries = self.entries(runs, &summary.groups, &order);
        if self.schema.kind == Kind::Line {
            chain::check_once(&entries)?;
        }
        let mut elements = self.elements;
        let explicit = self.schema.explicit
            || (self.schema.kind == Kind::Skeleton
                && !elements.attributes.is_empty()
                && !self.options.compat);
        let (links, grouped) = match places.as_ref().filter(|_| linked) {
            Some(places) => {
                let implied = (self.schema.kind == Kind::Skeleton && !explicit)
                    .then_some(&summary.groups[..]);
                let schema = &self.schema;
                write_elements(&frame, schema, &mut elements, places, &summary.groups, implied)
                    .await?
            }
            None => (write_bridges(&frame, &self.schema, &entries).await?, false),
        };
        let ids = self.objects.ids(&entries);
        let bins = self.columns.as_ref().is_none_or(|c| c.grouping == Grouping::Bins);
        let indexed = !(bins && self.schema.kind == Kind::PointCloud && ids.is_empty());
        if indexed {
            self.objects.write(&frame, self.schema.kind, &ids, &entries).await?;
        }
        let said = Said {
            schema: &self.schema,
            columns: self.columns.as_ref(),
            vertices: self.given.saturating_sub(self.left_out), // they were among those given
            indexed,
            owners: !bins && !self.options.compat,
            links: linked || links.links > 0,
            grouped,
            explicit,
        };
        said.write(build, at, edit_level).await?;
        let dense = to_u64(ids.len());
        let sparse = self.schema.kind.is_chain() && (0_i64..).zip(&ids).any(|(row, id)| row != *id);
        let report = Report {
            vertices: said.vertices,
            left_out: self.left_out,
            chunks: to_u64(self.table.len()),
            fragments: summary.groups.iter().map(|g| to_u64(g.len())).sum::<u64>(),
            objects: if indexed { dense } else { 0 },
            links: links.links,
            link_rows: links.rows,
            link_segments: links.segments,
            cell_bytes: summary.bytes,
            spilled_bytes: 0,
            notices: sparse.then_some(Notice::SparseIds).into_iter().collect(),
            kinds: Vec::new(),
        };
        let placed = places.filter(|_| self.tells_places).map(|places| Placed::Held(places, order));
        let (schema, ids) = (self.schema, Ids::Held(ids));
        Ok(Outcome { schema, bounds, grouped, explicit, report, ids, placed })
    }

    async fn write_vertices(
        &self,
        frame: &Frame<'_>,
        places: Option<&Places>,
    ) -> Result<cells::Summary, WriteError> {
        let owners = |chunk| self.chains.owners(chunk);
        let (layout, grouping) = match &self.columns {
            Some(columns) => {
                let (vertex, fragment) = (&columns.vertex[..], &columns.fragment[..]);
                (Layout { positions: columns.positions, vertex, fragment }, columns.grouping)
            }
            None => {
                let (positions, none) = (Dtype::FLOAT32, &[][..]);
                (Layout { positions, vertex: none, fragment: none }, Grouping::Bins)
            }
        };
        let meaning = match grouping {
            Grouping::Bins => Meaning::Bins(self.schema.bins.count()),
            Grouping::Objects => Meaning::Objects,
            Grouping::Runs => Meaning::Runs(&owners),
        };
        cells::write(frame, &self.buffer, layout, meaning, places).await
    }

    /// The fragments of each object, by object, in the order of its manifest.
    fn entries(&self, mut runs: Vec<Entry>, groups: &[Vec<Group>], order: &Order) -> Vec<Entry> {
        let objects = self.columns.as_ref().is_some_and(|c| c.grouping == Grouping::Objects);
        if !objects {
            runs.par_sort_by_key(|entry| entry.object);
            return runs;
        }
        let chunks = (0_u32..).zip(groups);
        let mut entries: Vec<Entry> = chunks
            .flat_map(|(chunk, groups)| {
                let owned = (0_u32..).zip(groups).filter(|(_, group)| group.group != UNOWNED);
                owned.map(move |(fragment, group)| {
                    let object = cells::object_of(group.group);
                    Entry { object, chunk, fragment, first: 0, last: 0 }
                })
            })
            .collect();
        entries.par_sort_unstable_by_key(|e| (e.object, order.rank(e.chunk), e.fragment));
        entries
    }

    /// Has fewer cells in a shard where those of one would take too much memory.
    fn fit_shard(&mut self, origin: &[i64]) {
        let (Some(shard), Some(most)) = (self.schema.shard.clone(), self.schema.shard_bytes) else {
            return;
        };
        let said = self.elements.attributes.iter().map(Attribute::stride).sum();
        let elements = (to_u64(self.elements.len()), self.elements.width, said);
        let row = row_bytes(self.columns.as_ref(), self.given, elements);
        let rows = |chunk: u32| -> u64 {
            self.buffer.chunk(chunk).iter().map(|piece| to_u64(piece.rows.len())).sum()
        };
        self.schema.shard =
            self.table.fitting_shard(origin, shard, |chunk| rows(chunk) * row, most);
    }

    /// Writes what was put aside, and what is still held.
    async fn finish_slices(
        mut self,
        build: &Build,
        at: At,
        edit_level: impl FnOnce(&mut LevelDoc),
    ) -> Result<Outcome, WriteError> {
        let stem = self.scratch.stem("slice", self.slices.len())?;
        let last = self.spill(&stem)?;
        let mut slices = std::mem::take(&mut self.slices);
        slices.push(last);
        let known = Known::from_slices(&self.schema, &self.options, slices)?.placed(at);
        let known = known.with_locations(self.tells_places);
        let folder = self.scratch.folder()?;
        let stages = Stages::run(&known, build, &folder)?;
        let outcome = stages.finish(&known, build, &self.objects, &folder, edit_level).await?;
        Ok(Outcome { ids: outcome.ids.with_scratch(self.scratch), ..outcome })
    }
}

/// The bounds that the store will say, given the corners of the box around its vertices.
pub(crate) fn bounds(
    schema: &Schema,
    outside: Outside,
    found: Option<[Vec<f64>; 2]>,
) -> [Vec<f64>; 2] {
    match (&schema.bounds, found) {
        (None, Some(found)) => found,
        (None, None) => {
            let high = schema.bins.chunk_shape().sizes().to_vec();
            [vec![0.0; high.len()], high]
        }
        (Some(declared), found) => {
            let corners = [declared.low().to_vec(), declared.high().to_vec()];
            match found.filter(|_| outside == Outside::Expand) {
                Some(found) => union(corners, found),
                None => corners,
            }
        }
    }
}

/// Writes edges or faces, and says how many links there are and whether they are grouped.
async fn write_elements(
    frame: &Frame<'_>,
    schema: &Schema,
    elements: &mut Elements,
    places: &Places,
    groups: &[Vec<Group>],
    implied: Option<&[Vec<Group>]>,
) -> Result<(Counts, bool), WriteError> {
    let columns = elements.finish_columns();
    let attributes = std::mem::take(&mut elements.attributes);
    let columns: Vec<LinkColumn> = attributes
        .into_iter()
        .zip(columns)
        .map(|(attribute, values)| LinkColumn { attribute, values })
        .collect();
    let resolved = elements.resolve(places, implied)?;
    let width = match elements.width {
        0 if schema.kind == Kind::Mesh => 3,
        0 => 2,
        width => width,
    };
    let mut links = Links::new(width, frame.table.rank(), schema.directed, schema.links)?;
    for element in &resolved.between {
        let ends = elements.vertices(*element).iter().map(|vertex| {
            let (chunk, row) = places.locate(*vertex).unwrap_or((0, 0));
            Ok((chunk, frame.table.key(chunk)?, row))
        });
        links.add(&ends.collect::<Result<Vec<_>, WriteError>>()?, *element)?;
    }
    let inside = &resolved.inside;
    let grouped = links.write_inside(frame, inside, elements, places, groups, &columns).await?;
    Ok((links.write(frame, &columns).await?, grouped && !frame.compat))
}

/// Writes the links that join the runs of chains.
async fn write_bridges(
    frame: &Frame<'_>,
    schema: &Schema,
    entries: &[Entry],
) -> Result<Counts, WriteError> {
    let mut links = Links::new(2, frame.table.rank(), schema.directed, schema.links)?;
    if !schema.kind.is_chain() {
        return Ok(Counts::default());
    }
    for [from, to] in entries.array_windows() {
        if from.object == to.object && from.chunk != to.chunk {
            let end = |chunk, row| Ok::<_, WriteError>((chunk, frame.table.key(chunk)?, row));
            links.add(&[end(from.chunk, from.last)?, end(to.chunk, to.first)?], 0)?;
        }
    }
    if links.is_empty() { Ok(Counts::default()) } else { links.write(frame, &[]).await }
}

/// What a level says of itself.
pub(crate) struct Said<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) columns: Option<&'a Columns>,
    pub(crate) vertices: u64,
    pub(crate) indexed: bool,
    pub(crate) owners: bool,
    pub(crate) links: bool,
    pub(crate) grouped: bool,
    pub(crate) explicit: bool,
}

impl Said<'_> {
    /// Writes its document as the one at `at`; `edit_level` may change it.
    pub(crate) async fn write(
        &self,
        build: &Build,
        at: At,
        edit_level: impl FnOnce(&mut LevelDoc),
    ) -> Result<(), WriteError> {
        let mut level = LevelDoc { level: at.number().into(), ..self.level() };
        // The root has the convention of the first kind.
        let own = at.is_beside().then(|| convention(self.schema.kind, self.explicit).into());
        level.links_convention = own;
        edit_level(&mut level);
        Ok(build.group(&at.to_string(), &level.to_group()).await?)
    }

    /// Its document.
    fn level(&self) -> LevelDoc {
        let mut level = LevelDoc::new(0);
        level.vertex_count = saturating_i64(self.vertices);
        let attributes = self.columns.is_some_and(|columns| !columns.vertex.is_empty());
        let fragments = self.columns.is_some_and(|columns| !columns.fragment.is_empty());
        let families = [
            ("vertices", true),
            ("vertex_attributes", attributes),
            ("fragment_attributes", fragments || self.owners),
            ("links", self.links),
            ("object_index", self.indexed),
        ];
        let present = families.into_iter().filter(|(_, present)| *present);
        level.arrays_present = present.map(|(family, _)| family.to_owned()).collect();
        level.fragments_tile = true;
        level.fragment_link_groups = self.grouped;
        if let Some((name, values)) = &self.schema.by_attribute {
            let axes = self.schema.axes.iter().map(|axis| &axis.name);
            level.chunk_dims = Some([name].into_iter().chain(axes).cloned().collect());
            level.chunk_attribute_name = Some(name.clone());
            level.chunk_attribute_values = Some(values.iter().map(crate::columns::json).collect());
        }
        level
    }
}

/// The word of the format for a kind.
pub(crate) fn geometry_type(kind: Kind) -> Option<GeometryType> {
    let mut words = GeometryType::WORDS.iter();
    words.find(|(_, spelling)| *spelling == kind.token()).map(|(word, _)| *word)
}

/// How links inside fragments are known.
pub(crate) const fn convention(kind: Kind, explicit: bool) -> LinksConvention {
    if matches!(kind, Kind::Skeleton) && !explicit {
        LinksConvention::ImplicitSequentialWithBranches
    } else if kind.has_links() {
        LinksConvention::Explicit
    } else {
        LinksConvention::ImplicitSequential
    }
}
