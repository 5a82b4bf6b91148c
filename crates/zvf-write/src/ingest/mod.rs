//! From batches to a level: each batch is checked, routed and kept until the end (`finish`).
//!
//! Not here: the root document and publishing (`writer`), and assembling cells (`cells`).

mod finish;
mod flush;

use rayon::prelude::*;
use zvf_error::Result;
use zvf_format::num::{index_u32, saturating_i64, to_u64, usize_from_u32};
use zvf_metadata::DtypeKind;
use zvf_model::{Batch, BatchPart, Column, Extent, Field, Kind, Value};

use crate::buffer::Buffer;
use crate::cells::{OWNER, UNOWNED, group_of};
use crate::chunks::ChunkTable;
use crate::columns::Attribute;
use crate::elements::{self, Elements, take_columns};
use crate::error::{code_error, outside_error, unfit_error};
use crate::level_columns::{Columns, Grouping};
use crate::objects::Objects;
use crate::route;
use crate::routed::{Numbers, RoutedBatch, select_rows};
use crate::schema::Schema;
use crate::spill_folder::SpillFolder;
use crate::stages::{Slice, Target};
use crate::stop::StopFlag;
use crate::types::chain::{self, Chains, ids_from};
use crate::types::tree;
use crate::{Outside, WriteOptions};

/// The ingest of one kind of geometry into a level.
#[derive(Debug)]
pub(crate) struct Ingest {
    pub(crate) schema: Schema,
    pub(crate) options: WriteOptions,
    /// The scratch folder, which exists as long as a clone of it.
    pub(crate) scratch: SpillFolder,
    slices: Vec<Slice>, // what was put aside
    table: ChunkTable,
    buffer: Buffer,
    columns: Option<Columns>,
    chains: Chains,
    pub(crate) objects: Objects,
    pub(crate) elements: Elements,
    rooted: Vec<i64>,             // the object of each root of a skeleton
    trees: i64,                   // trees without objects so far
    pub(crate) next: Option<i64>, // the next id that nobody gave, where other kinds have ids too
    whole: Option<i64>,           // the object of vertices without one
    pub(crate) given: u64,
    since: u64, // of those, since rows were last put aside
    left_out: u64,
    lost: bool, // rows, by a spill that failed
    extent: Extent,
    /// Whether the locations of vertices are reported at the end.
    pub(crate) records_locations: bool,
}

/// The columns of a batch during its ingest.
struct IngestBatch {
    positions: Column,
    fields: Vec<Column>,
    groups: Vec<u64>,              // of objects; empty otherwise
    leading: Vec<i64>,             // bins of the attribute, where chunks have them
    parts: Vec<(BatchPart, bool)>, // of chains, and whether each starts a line
    order: Option<Vec<u32>>,       // rows of a skeleton, depth first
}

impl Ingest {
    pub(crate) fn new(schema: Schema, options: &WriteOptions) -> Self {
        let scratch = SpillFolder::new(options.scratch.clone(), options.memory);
        Self {
            table: ChunkTable::new(schema.key_rank()),
            extent: Extent::new(schema.axes.len()),
            schema,
            options: options.clone(),
            scratch,
            slices: Vec::new(),
            buffer: Buffer::default(),
            columns: None,
            chains: Chains::default(),
            objects: Objects::default(),
            elements: Elements::default(),
            rooted: Vec::new(),
            trees: 0,
            next: None,
            whole: None,
            given: 0,
            since: 0,
            left_out: 0,
            lost: false,
            records_locations: false,
        }
    }

    /// Returns the caller's stop flag.
    pub(crate) fn stop_flag(&self) -> StopFlag {
        self.options.stop_flag()
    }

    /// Processes a batch; `of_parts` are attributes of fragments, one row per part.
    pub(crate) fn push(&mut self, batch: &Batch, of_parts: &[Field]) -> Result<()> {
        let stop = self.stop_flag();
        stop.check()?;
        self.check(batch)?;
        let first = self.given;
        let grouping = self.first_batch(batch, of_parts)?;
        let taken = self.take(batch, of_parts, grouping)?;
        stop.check()?;
        let (taken, row_count) = self.restrict_to_bounds(taken)?;
        stop.check()?;
        let bins = &self.schema.bins;
        // A single bin in a chunk is the chunk.
        let by_bin = grouping == Grouping::Bins && bins.bin_shape() != bins.chunk_shape().sizes();
        let (positions, leading) = (&taken.positions, &taken.leading);
        let routes = route::route(positions, leading, bins, by_bin, &mut self.table)?;
        let numbers = routes.numbers;
        let groups = match grouping {
            Grouping::Bins if bins.count() == 1 => Vec::new(),
            Grouping::Bins => routes.bins,
            Grouping::Objects => taken.groups,
            Grouping::Runs => self.chains.cut(taken.parts.into_iter(), &numbers, self.table.len()),
        };
        stop.check()?;
        let (rows, segments) = match taken.order {
            Some(order) => route::counting_sort(&numbers, order.iter().copied(), self.table.len()),
            None => route::counting_sort(&numbers, 0..row_count, self.table.len()),
        };
        let numbers = Numbers::From(first);
        let IngestBatch { positions, fields, .. } = taken;
        self.extent.add(&positions);
        self.buffer.push(RoutedBatch { positions, fields, groups, numbers, rows, segments });
        if let Some(elements) = batch.elements() {
            let vertices = elements.rows().iter().map(|row| first + to_u64(*row));
            let fields = elements.fields();
            self.elements.push(&self.schema, elements.width(), vertices, fields)?;
        }
        self.given = first + to_u64(batch.len());
        self.since += to_u64(batch.len());
        self.relieve()
    }

    /// Processes elements with running vertex numbers.
    pub(crate) fn push_elements(&mut self, vertices: &Column, fields: &[Field]) -> Result<()> {
        let kind = self.schema.kind;
        if kind == Kind::Skeleton {
            let expected = "in the batch of its vertices";
            let error = unfit_error(kind, "an edge", expected, "one of its own");
            return Err(error.with_hint("convert a file of edges to SWC first"));
        }
        let numbers = elements::numbers(kind, vertices)?;
        self.elements.push(
            &self.schema,
            usize_from_u32(vertices.width()),
            numbers.into_iter(),
            fields,
        )?;
        self.relieve()
    }

    /// Starts from the state after an earlier part of the input: the numbers of the first vertex,
    /// the first tree and the first line.
    pub(crate) fn begin_at(&mut self, vertex: u64, tree: u64, line: u64) {
        self.given = vertex;
        // `ids_from` refuses an id without a successor.
        self.trees = saturating_i64(tree);
        self.chains.lines = saturating_i64(line);
    }

    /// Spills if the data in memory exceeds the limit.
    pub(crate) fn relieve(&mut self) -> Result<()> {
        if self.held_bytes() <= self.options.memory / 2 {
            return Ok(());
        }
        let stem = self.scratch.next_path("slice")?;
        self.lost = true; // what a spill has taken is nowhere else
        let slice = self.take_slice(&Target::Files(stem))?;
        self.lost = false;
        self.slices.push(slice);
        Ok(())
    }

    fn check(&self, batch: &Batch) -> Result<()> {
        let kind = self.schema.kind;
        if batch.kind() != kind {
            return Err(unfit_error(kind, "its kind", kind, batch.kind()));
        }
        let (dtype, axes) = (batch.positions().dtype(), self.schema.axes.len());
        if usize_from_u32(batch.positions().width()) != axes {
            let found = batch.positions().width();
            return Err(unfit_error(kind, "a position", format!("{axes} coordinates"), found));
        }
        if matches!(dtype.kind, DtypeKind::Bool | DtypeKind::Text) {
            return Err(unfit_error(kind, "a coordinate", "a number", dtype));
        }
        route::check_rows(batch.len())
    }

    /// Takes the columns from the first batch, and checks that others have the same.
    fn first_batch(&mut self, batch: &Batch, of_parts: &[Field]) -> Result<Grouping> {
        let (kind, dtype) = (self.schema.kind, batch.positions().dtype());
        if let Some(columns) = &self.columns {
            if dtype != columns.positions {
                return Err(unfit_error(kind, "a coordinate", columns.positions, dtype));
            }
            return Ok(columns.grouping);
        }
        let binned = self.schema.by_attribute.as_ref().map(|(name, _)| name.as_str());
        let owned = !batch.parts().is_empty() || batch.vertex_objects().is_some();
        let loose = !owned && !self.objects.needs_index() && binned.is_none();
        let grouping = if kind.is_chain() {
            Grouping::Runs
        } else if kind == Kind::PointCloud && loose {
            Grouping::Bins
        } else {
            Grouping::Objects
        };
        let schema = &self.schema;
        let vertex = batch.fields().iter().filter(|field| binned != Some(&*field.name));
        let vertex =
            vertex.map(|f| Attribute::new(f, schema.spec("vertex", &f.name), true)).collect();
        let fragment =
            of_parts.iter().map(|f| Attribute::new(f, schema.spec("fragment", &f.name), true));
        let fragment: Vec<Attribute> = fragment.collect();
        if let Some(reserved) = fragment.iter().find(|a| *a.name == *OWNER && !self.options.compat)
        {
            let what = format!("the fragment attribute {:?}", &*reserved.name);
            return Err(unfit_error(kind, what, "under another name", "that of the owners"));
        }
        let width = batch.positions().width();
        self.columns = Some(Columns { positions: dtype, width, vertex, fragment, grouping });
        Ok(grouping)
    }

    /// Returns the columns of a batch, its objects and its parts.
    fn take(
        &mut self,
        batch: &Batch,
        of_parts: &[Field],
        grouping: Grouping,
    ) -> Result<IngestBatch> {
        let (kind, rows) = (self.schema.kind, batch.len());
        let leading = self.leading(batch)?;
        let binned = self.schema.by_attribute.as_ref().map(|(name, _)| name.as_str());
        let fields: Vec<Field> =
            batch.fields().iter().filter(|f| binned != Some(&*f.name)).cloned().collect();
        let (mut columns, mut repeated) = (Vec::new(), Vec::new());
        if let Some(declared) = &mut self.columns {
            columns =
                take_columns(kind, &mut declared.vertex, &fields, rows, "a vertex attribute")?;
            let parts = batch.parts();
            let what = "a fragment attribute";
            repeated = take_columns(kind, &mut declared.fragment, of_parts, parts.len(), what)?;
        }
        if !repeated.is_empty() {
            let parts = batch.parts().iter().zip(0_u32..);
            let of_row = parts.flat_map(|(part, at)| std::iter::repeat_n(at, part.rows.len()));
            let of_row: Vec<u32> = of_row.collect();
            for column in repeated {
                columns.push(select_rows(&column, &of_row)?);
            }
        }
        let mut taken = IngestBatch {
            positions: batch.positions().clone(),
            fields: columns,
            groups: Vec::new(),
            leading,
            parts: Vec::new(),
            order: None,
        };
        match grouping {
            Grouping::Bins if batch.parts().is_empty() && batch.vertex_objects().is_none() => {}
            Grouping::Bins => {
                let expected = "without objects, as in the first batch";
                return Err(unfit_error(kind, "the vertices", expected, "some"));
            }
            Grouping::Runs => taken.parts = self.parts(batch)?,
            Grouping::Objects => self.assign_objects(batch, &mut taken)?,
        }
        // An object without vertices also exists.
        let empty = batch.parts().iter().filter(|part| part.rows.is_empty());
        self.objects.declare(empty.map(|part| part.object.0));
        Ok(taken)
    }

    /// Returns the attribute bin of each row, if chunks are binned by an attribute.
    fn leading(&self, batch: &Batch) -> Result<Vec<i64>> {
        let Some((name, values)) = &self.schema.by_attribute else { return Ok(Vec::new()) };
        let kind = self.schema.kind;
        let what = || format!("the attribute {name:?}, by which chunks are binned,");
        let Some(field) = batch.field(name) else {
            return Err(unfit_error(kind, what(), "in every batch", "nothing"));
        };
        let bin = |row| {
            let bad_code = |code| code_error(name, code);
            let value = field.value(row, 0).map_err(bad_code)?;
            let same = |listed: &Value| {
                *listed == value || listed.compare(&value) == Some(std::cmp::Ordering::Equal)
            };
            let bin = (0_i64..).zip(values).find(|(_, listed)| same(listed));
            bin.map(|(bin, _)| bin)
                .ok_or_else(|| unfit_error(kind, what(), "one of the values of the schema", value))
        };
        (0..batch.len()).into_par_iter().map(bin).collect()
    }

    /// Returns the chains of a batch, and whether each starts a line.
    fn parts(&mut self, batch: &Batch) -> Result<Vec<(BatchPart, bool)>> {
        let kind = self.schema.kind;
        let parts: Vec<(BatchPart, bool)> = match batch.vertex_objects() {
            _ if !batch.parts().is_empty() => {
                let parts = batch.parts().iter().enumerate();
                parts.map(|(at, part)| (part, batch.parts().starts_line(at))).collect()
            }
            Some(objects) => {
                let mut start = 0_usize;
                let runs = objects.chunk_by(|a, b| a == b).map(|run| {
                    let rows = start..start + run.len();
                    start = rows.end;
                    run.first().copied().flatten().map(|object| (BatchPart { rows, object }, false))
                });
                runs.collect::<Option<_>>().ok_or_else(|| {
                    unfit_error(kind, "every vertex", "in an object", "one that is in none")
                })?
            }
            None if batch.is_empty() => Vec::new(),
            None if kind == Kind::Line => {
                let first = self.next.unwrap_or(self.chains.lines);
                let pairs = chain::pairs(batch.len(), first)?;
                // `pairs` has found ids for all.
                self.next = self.next.map(|next| next + saturating_i64(to_u64(pairs.len())));
                pairs.into_iter().map(|pair| (pair, true)).collect()
            }
            None => {
                let expected = "divided into parts, one for each chain";
                return Err(unfit_error(kind, "the vertices", expected, "no parts"));
            }
        };
        if kind == Kind::Line {
            let lines = parts.iter().map(|(part, _)| part);
            chain::check_lines(lines.filter(|part| !part.rows.is_empty()))?;
            // Past all ids, `ids_from` refuses the next.
            self.chains.lines =
                self.chains.lines.saturating_add(saturating_i64(to_u64(parts.len())));
        }
        Ok(parts)
    }

    /// Finds the object of each vertex, and the vertex order of a skeleton.
    fn assign_objects(&mut self, batch: &Batch, taken: &mut IngestBatch) -> Result<()> {
        let (kind, rows) = (self.schema.kind, batch.len());
        let edges = batch.elements().map_or(&[][..], |elements| elements.rows());
        let trees = if kind == Kind::Skeleton {
            tree::check_width(batch.elements().map_or(2, zvf_model::Elements::width))?;
            Some(tree::trees(index_u32(rows), edges, self.given)?)
        } else {
            None
        };
        let objects = match batch.vertex_objects() {
            Some(objects) => {
                taken.groups =
                    objects.iter().map(|o| o.map_or(UNOWNED, |o| group_of(o.0))).collect();
                objects.iter().map(|object| object.map_or(-1, |object| object.0)).collect()
            }
            None if !batch.parts().is_empty() => {
                let parts = batch.parts().iter();
                parts.flat_map(|p| std::iter::repeat_n(p.object.0, p.rows.len())).collect()
            }
            None => self.assign_default_ids(rows, trees.as_ref())?,
        };
        if taken.groups.is_empty() {
            taken.groups = objects.iter().copied().map(group_of).collect();
        }
        if taken.groups.contains(&UNOWNED)
            && (kind != Kind::PointCloud || objects.contains(&i64::MIN))
        {
            let found = "one that is in none";
            return Err(unfit_error(kind, "every vertex", "in an object", found));
        }
        if let Some(trees) = trees {
            self.rooted.extend(trees.objects(&objects, edges, self.given)?);
            taken.order = Some(trees.order);
        }
        Ok(())
    }

    /// Assigns object ids to vertices without any: to each tree, to each point, or one to all.
    /// Where other kinds have ids too, they go on after those.
    fn assign_default_ids(&mut self, rows: usize, trees: Option<&tree::Trees>) -> Result<Vec<i64>> {
        let each = self.schema.kind == Kind::PointCloud || self.schema.by_attribute.is_some();
        let (first, count) = match trees {
            Some(trees) => (self.trees, trees.roots.len()),
            None if each => (saturating_i64(self.given), rows), // as in `begin_at`
            None => (0, usize::from(self.whole.is_none())),
        };
        let ids = ids_from(self.next.unwrap_or(first), count)?;
        if self.next.is_some() {
            self.next = Some(ids.end);
        } else if trees.is_some() {
            self.trees = ids.end;
        }
        Ok(match trees {
            Some(trees) => trees.tree.iter().map(|tree| ids.start + i64::from(*tree)).collect(),
            None if each => ids.collect(),
            None => vec![*self.whole.get_or_insert(ids.start); rows],
        })
    }

    /// Refuses or drops vertices outside the declared bounds, and counts the rest.
    fn restrict_to_bounds(&mut self, mut taken: IngestBatch) -> Result<(IngestBatch, u32)> {
        let rows = index_u32(taken.positions.len());
        let Some(bounds) = self.schema.bounds.filter(|_| self.options.outside != Outside::Expand)
        else {
            return Ok((taken, rows));
        };
        let inside = crate::bounds::test_inside(&taken.positions, &bounds);
        let Some(stray) = inside.iter().position(|inside| !inside) else {
            return Ok((taken, rows));
        };
        let strays = to_u64(inside.iter().filter(|inside| !**inside).count());
        if self.options.outside == Outside::Raise || self.schema.kind != Kind::PointCloud {
            let axes = usize_from_u32(taken.positions.width());
            let at = (0..axes).map(|c| taken.positions.float(stray, c).unwrap_or(f64::NAN));
            return Err(outside_error(
                strays,
                rows.into(),
                self.given + to_u64(stray),
                &at.collect::<Vec<f64>>(),
            ));
        }
        let keep: Vec<u32> =
            (0..rows).zip(&inside).filter(|(_, in_)| **in_).map(|(r, _)| r).collect();
        taken.positions = select_rows(&taken.positions, &keep)?;
        for field in &mut taken.fields {
            *field = select_rows(field, &keep)?;
        }
        let mut rows = inside.iter();
        taken.groups.retain(|_| rows.next() == Some(&true));
        let mut rows = inside.iter();
        taken.leading.retain(|_| rows.next() == Some(&true));
        self.left_out += strays;
        Ok((taken, index_u32(keep.len())))
    }
}
