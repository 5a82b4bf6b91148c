//! From batches to a level: each batch is checked, routed and kept; at the end everything is written,
//! cells first and what is said of them last.
//!
//! Not here: the store's root and who may see it (`writer`), and how rows become cells (`cells`).

use rayon::prelude::*;
use zvf_format::metadata::{Dtype, DtypeKind, GeometryType, Level, LinksConvention, Vocabulary};
use zvf_model::{Batch, Column, Field, Kind, ObjectId, Part, Value};
use zvf_store::Build;

use crate::buffer::Buffer;
use crate::cells::{self, Frame, Layout, Meaning, OWNER, UNOWNED, group_of};
use crate::chunks::{ChunkTable, Order};
use crate::columns::Attribute;
use crate::elements::{Elements, Places, taken};
use crate::extent::Extent;
use crate::link::{Counts, LinkColumn, Links};
use crate::num::{place, to_i64, to_u32, to_u64};
use crate::objects::{Entry, Objects};
use crate::report::{Notice, Report};
use crate::route;
use crate::run::{Group, Numbers, Run, only};
use crate::schema::Schema;
use crate::spill::Scratch;
use crate::types::chain::{self, Chains};
use crate::types::tree;
use crate::{Outside, WriteError, WriteOptions};

/// One kind of geometry on its way into a level.
#[derive(Debug)]
pub(crate) struct Ingest {
    pub(crate) schema: Schema,
    compat: bool,
    outside: Outside,
    table: ChunkTable,
    buffer: Buffer,
    columns: Option<Columns>,
    chains: Chains,
    pub(crate) objects: Objects,
    pub(crate) elements: Elements,
    rooted: Vec<i64>, // the object of each root of a skeleton
    trees: i64,       // trees without objects so far
    pub(crate) given: u64,
    left_out: u64,
    extent: Extent,
}

/// What the first batch says of all.
#[derive(Debug)]
struct Columns {
    positions: Dtype,
    vertex: Vec<Attribute>,
    fragment: Vec<Attribute>,
    grouping: Grouping,
}

/// What fragments are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grouping {
    Bins,
    Objects,
    Runs,
}

/// A batch while it is taken in.
struct Taken {
    positions: Column,
    fields: Vec<Column>,
    groups: Vec<u64>,        // of objects; empty otherwise
    leading: Vec<i64>,       // bins of the attribute, where chunks have them
    parts: Vec<Part>,        // of chains
    order: Option<Vec<u32>>, // rows of a skeleton, depth first
}

impl Ingest {
    pub(crate) fn new(schema: Schema, options: &WriteOptions) -> Self {
        let scratch = Scratch::new(options.scratch.clone());
        Self {
            table: ChunkTable::new(schema.key_rank()),
            extent: Extent::new(schema.axes.len()),
            schema,
            compat: options.compat,
            outside: options.outside,
            buffer: Buffer::new(options.memory, scratch),
            columns: None,
            chains: Chains::default(),
            objects: Objects::default(),
            elements: Elements::default(),
            rooted: Vec::new(),
            trees: 0,
            given: 0,
            left_out: 0,
        }
    }

    /// Takes a batch; `of_parts` are attributes of fragments, one row for each part.
    pub(crate) fn push(&mut self, batch: &Batch, of_parts: &[Field]) -> Result<(), WriteError> {
        self.check(batch)?;
        let first = self.given;
        let grouping = self.first_batch(batch, of_parts)?;
        let taken = self.take(batch, of_parts, grouping)?;
        let (taken, kept) = self.within_bounds(taken)?;
        let by_bin = grouping == Grouping::Bins;
        let routes = route::route(&taken.positions, &self.schema.bins, by_bin)?;
        let keys = with_leading(routes.chunks, &taken.leading, self.schema.axes.len());
        let numbers = route::number(&keys, &mut self.table)?;
        let groups = match grouping {
            Grouping::Bins if self.schema.bins.count() == 1 => Vec::new(),
            Grouping::Bins => routes.bins,
            Grouping::Objects => taken.groups,
            Grouping::Runs => self.chains.cut(taken.parts.into_iter(), &numbers, self.table.len()),
        };
        let (rows, segments) = match taken.order {
            Some(order) => route::sorted(&numbers, order.iter().copied(), self.table.len()),
            None => route::sorted(&numbers, 0..kept, self.table.len()),
        };
        let numbers = Numbers::From(first);
        let Taken { positions, fields, .. } = taken;
        self.extent.add(&positions);
        self.buffer
            .push(Run { positions, fields, groups, numbers, rows, segments }, &self.table)?;
        if let Some(elements) = batch.elements() {
            let vertices = elements.rows().iter().map(|row| first.saturating_add(to_u64(*row)));
            let fields = elements.fields();
            self.elements.push(&self.schema, elements.width(), vertices, fields)?;
        }
        self.given = first.saturating_add(to_u64(batch.len()));
        Ok(())
    }

    fn check(&self, batch: &Batch) -> Result<(), WriteError> {
        let kind = self.schema.kind;
        if batch.kind() != kind {
            return Err(WriteError::unfit(kind, "its kind", kind, batch.kind()));
        }
        let (dtype, axes) = (batch.positions().dtype(), self.schema.axes.len());
        if place(batch.positions().width()) != axes {
            let found = batch.positions().width();
            return Err(WriteError::unfit(
                kind,
                "a position",
                format!("{axes} coordinates"),
                found,
            ));
        }
        if matches!(dtype.kind, DtypeKind::Bool | DtypeKind::Text) {
            return Err(WriteError::unfit(kind, "a coordinate", "a number", dtype));
        }
        route::check_rows(batch.len())
    }

    /// Learns from the first batch what there is, and checks that another has the same.
    fn first_batch(&mut self, batch: &Batch, of_parts: &[Field]) -> Result<Grouping, WriteError> {
        let (kind, dtype) = (self.schema.kind, batch.positions().dtype());
        if let Some(columns) = &self.columns {
            if dtype != columns.positions {
                return Err(WriteError::unfit(kind, "a coordinate", columns.positions, dtype));
            }
            return Ok(columns.grouping);
        }
        let binned = self.schema.by_attribute.as_ref().map(|(name, _)| name.as_str());
        let owned = !batch.parts().is_empty() || batch.vertex_objects().is_some();
        let grouping = match kind {
            Kind::PointCloud if !owned && !self.objects.any() && binned.is_none() => Grouping::Bins,
            _ if kind.is_chain() => Grouping::Runs,
            _ => Grouping::Objects,
        };
        let schema = &self.schema;
        let vertex = batch.fields().iter().filter(|field| binned != Some(&*field.name));
        let vertex =
            vertex.map(|f| Attribute::new(f, schema.spec("vertex", &f.name), true)).collect();
        let fragment =
            of_parts.iter().map(|f| Attribute::new(f, schema.spec("fragment", &f.name), true));
        let fragment: Vec<Attribute> = fragment.collect();
        if let Some(own) = fragment.iter().find(|a| *a.name == *OWNER && !self.compat) {
            let what = format!("the fragment attribute {:?}", &*own.name);
            return Err(WriteError::unfit(kind, what, "under another name", "that of the owners"));
        }
        self.columns = Some(Columns { positions: dtype, vertex, fragment, grouping });
        Ok(grouping)
    }

    /// The columns of a batch, its objects and its parts.
    fn take(
        &mut self,
        batch: &Batch,
        of_parts: &[Field],
        grouping: Grouping,
    ) -> Result<Taken, WriteError> {
        let (kind, rows) = (self.schema.kind, batch.len());
        let leading = self.leading(batch)?;
        let binned = self.schema.by_attribute.as_ref().map(|(name, _)| name.as_str());
        let fields: Vec<Field> =
            batch.fields().iter().filter(|f| binned != Some(&*f.name)).cloned().collect();
        let (mut columns, mut repeated) = (Vec::new(), Vec::new());
        if let Some(known) = &mut self.columns {
            columns = taken(kind, &mut known.vertex, &fields, rows, "a vertex attribute")?;
            let parts = batch.parts();
            let what = "a fragment attribute";
            repeated = taken(kind, &mut known.fragment, of_parts, parts.len(), what)?;
        }
        if !repeated.is_empty() {
            let parts = batch.parts().iter().zip(0_u32..);
            let of_row = parts.flat_map(|(part, at)| std::iter::repeat_n(at, part.rows.len()));
            let of_row: Vec<u32> = of_row.collect();
            for column in repeated {
                columns.push(only(&column, &of_row)?);
            }
        }
        let mut taken = Taken {
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
                return Err(WriteError::unfit(kind, "the vertices", expected, "some"));
            }
            Grouping::Runs => taken.parts = self.parts(batch)?,
            Grouping::Objects => self.objects_of(batch, &mut taken)?,
        }
        // An object without vertices is one nevertheless.
        let empty = batch.parts().iter().filter(|part| part.rows.is_empty());
        self.objects.declare(empty.map(|part| part.object.0));
        Ok(taken)
    }

    /// The bin of the attribute that each row is in, where chunks are binned by one.
    fn leading(&self, batch: &Batch) -> Result<Vec<i64>, WriteError> {
        let Some((name, values)) = &self.schema.by_attribute else { return Ok(Vec::new()) };
        let kind = self.schema.kind;
        let what = || format!("the attribute {name:?}, by which chunks are binned,");
        let Some(field) = batch.field(name) else {
            return Err(WriteError::unfit(kind, what(), "in every batch", "nothing"));
        };
        let bin = |row| {
            let code = |source| WriteError::Code { name: name.clone(), source };
            let value = field.value(row, 0).map_err(code)?;
            let same = |known: &Value| {
                *known == value || known.compare(&value) == Some(std::cmp::Ordering::Equal)
            };
            let bin = values.iter().position(same);
            bin.map(|bin| to_i64(to_u64(bin))).ok_or_else(|| {
                WriteError::unfit(kind, what(), "one of the values of the schema", value)
            })
        };
        (0..batch.len()).into_par_iter().map(bin).collect()
    }

    /// The chains of a batch.
    fn parts(&mut self, batch: &Batch) -> Result<Vec<Part>, WriteError> {
        let kind = self.schema.kind;
        let parts: Vec<Part> = match batch.vertex_objects() {
            _ if !batch.parts().is_empty() => batch.parts().iter().collect(),
            Some(objects) => {
                let mut start = 0_usize;
                let runs = objects.chunk_by(|a, b| a == b).map(|run| {
                    let rows = start..start.saturating_add(run.len());
                    start = rows.end;
                    run.first().copied().flatten().map(|object| Part { rows, object })
                });
                runs.collect::<Option<_>>().ok_or_else(|| {
                    WriteError::unfit(kind, "every vertex", "in an object", "one that is in none")
                })?
            }
            None if batch.is_empty() => Vec::new(),
            None if kind == Kind::Line => chain::pairs(batch.len(), self.chains.lines)?,
            None => {
                let expected = "divided into parts, one for each chain";
                return Err(WriteError::unfit(kind, "the vertices", expected, "no parts"));
            }
        };
        if kind == Kind::Line {
            chain::check_lines(parts.iter().filter(|part| !part.rows.is_empty()))?;
            self.chains.lines = self.chains.lines.saturating_add(to_i64(to_u64(parts.len())));
        }
        Ok(parts)
    }

    /// The object of each vertex, and the order of a skeleton's.
    fn objects_of(&mut self, batch: &Batch, taken: &mut Taken) -> Result<(), WriteError> {
        let (kind, rows) = (self.schema.kind, batch.len());
        let edges = batch.elements().map_or(&[][..], |elements| elements.rows());
        let trees = match kind {
            Kind::Skeleton => {
                tree::check_width(batch.elements().map_or(2, zvf_model::Elements::width))?;
                Some(tree::trees(to_u32(rows), edges, self.given)?)
            }
            _ => None,
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
            None => self.unsaid(rows, trees.as_ref()),
        };
        if taken.groups.is_empty() {
            taken.groups = objects.iter().copied().map(group_of).collect();
        }
        if taken.groups.contains(&UNOWNED)
            && (kind != Kind::PointCloud || objects.contains(&i64::MIN))
        {
            let found = "one that is in none";
            return Err(WriteError::unfit(kind, "every vertex", "in an object", found));
        }
        if let Some(trees) = trees {
            self.rooted.extend(trees.objects(&objects, edges, self.given)?);
            taken.order = Some(trees.order);
        }
        Ok(())
    }

    /// The objects of vertices of which nothing is said.
    fn unsaid(&mut self, rows: usize, trees: Option<&tree::Trees>) -> Vec<i64> {
        if let Some(trees) = trees {
            let first = self.trees;
            self.trees = first.saturating_add(to_i64(to_u64(trees.roots.len())));
            return trees.tree.iter().map(|tree| first.saturating_add((*tree).into())).collect();
        }
        if self.schema.kind == Kind::PointCloud || self.schema.by_attribute.is_some() {
            let first = to_i64(self.given);
            return (first..).take(rows).collect();
        }
        vec![0; rows]
    }

    /// Refuses or leaves out what lies outside the declared bounds, and counts the rest.
    fn within_bounds(&mut self, mut taken: Taken) -> Result<(Taken, u32), WriteError> {
        let rows = to_u32(taken.positions.len());
        let Some(bounds) = self.schema.bounds.filter(|_| self.outside != Outside::Expand) else {
            return Ok((taken, rows));
        };
        let inside = crate::extent::inside(&taken.positions, &bounds);
        let Some(stray) = inside.iter().position(|inside| !inside) else {
            return Ok((taken, rows));
        };
        let strays = to_u64(inside.iter().filter(|inside| !**inside).count());
        if self.outside == Outside::Raise {
            let axes = place(taken.positions.width());
            let at = (0..axes).map(|c| taken.positions.float(stray, c).unwrap_or(f64::NAN));
            return Err(WriteError::Outside {
                points: strays,
                of: rows.into(),
                first: self.given.saturating_add(to_u64(stray)),
                at: at.collect(),
            });
        }
        let keep: Vec<u32> =
            (0..rows).zip(&inside).filter(|(_, in_)| **in_).map(|(r, _)| r).collect();
        taken.positions = only(&taken.positions, &keep)?;
        for field in &mut taken.fields {
            *field = only(field, &keep)?;
        }
        let kept = |at: &u32| inside.get(place(*at)).copied().unwrap_or(false);
        let mut at = 0..rows;
        taken.groups.retain(|_| at.next().as_ref().is_some_and(kept));
        let mut at = 0..rows;
        taken.leading.retain(|_| at.next().as_ref().is_some_and(kept));
        self.left_out = self.left_out.saturating_add(strays);
        Ok((taken, to_u32(keep.len())))
    }
}

/// The chunk keys of rows with the attribute's bin in front, where there is one.
fn with_leading(chunks: Vec<i64>, leading: &[i64], axes: usize) -> Vec<i64> {
    if leading.is_empty() {
        return chunks;
    }
    let keys = leading.iter().zip(chunks.chunks_exact(axes));
    keys.flat_map(|(bin, chunk)| [bin].into_iter().chain(chunk)).copied().collect()
}

/// What the root says of a level that was written.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) schema: Schema,
    pub(crate) bounds: [Vec<f64>; 2],
    pub(crate) grouped: bool,
    pub(crate) explicit: bool,
    pub(crate) report: Report,
}

impl Ingest {
    /// Writes everything.
    pub(crate) async fn finish(mut self, build: &Build) -> Result<Outcome, WriteError> {
        self.rooted.par_sort_unstable();
        let runs = std::mem::take(&mut self.chains.entries);
        tree::check_once(&self.rooted)?;
        let bounds = self.bounds();
        self.buffer.seal(&self.table)?;
        let grid = cells::extent(&self.table, &bounds, &self.schema)?;
        let order = self.table.order(&grid[0], self.schema.shard.as_deref());
        let frame = Frame::new(build, &self.table, &order, &grid, &self.schema, self.compat);
        let places = self.schema.kind.has_links().then(|| Places::new(self.given));
        let summary = self.write_vertices(&frame, places.as_ref()).await?;
        let entries = self.entries(runs, &summary.groups, &order);
        let mut elements = self.elements;
        let explicit = self.schema.explicit
            || (self.schema.kind == Kind::Skeleton
                && !elements.attributes.is_empty()
                && !self.compat);
        let (links, grouped) = match &places {
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
        let written = Written {
            schema: &self.schema,
            columns: self.columns.as_ref(),
            vertices: self.given.saturating_sub(self.left_out),
            indexed,
            owners: !bins && !self.compat,
            links: places.is_some() || links.links > 0,
            grouped,
        };
        build.group("0", &written.level().to_group()).await?;
        let dense = to_u64(ids.len());
        let sparse = self.schema.kind.is_chain() && (0_i64..).zip(&ids).any(|(row, id)| row != *id);
        let report = Report {
            vertices: written.vertices,
            left_out: self.left_out,
            chunks: to_u64(self.table.len()),
            fragments: summary.groups.iter().map(|g| to_u64(g.len())).fold(0, u64::saturating_add),
            objects: if indexed { dense } else { 0 },
            links: links.links,
            link_rows: links.rows,
            link_segments: links.segments,
            cell_bytes: summary.bytes,
            spilled_bytes: self.buffer.spilled(),
            notices: sparse.then_some(Notice::SparseIds).into_iter().collect(),
        };
        Ok(Outcome { schema: self.schema, bounds, grouped, explicit, report })
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

    /// The bounds that the store will say.
    fn bounds(&self) -> [Vec<f64>; 2] {
        let found = self.extent.corners();
        match (&self.schema.bounds, found) {
            (None, Some(found)) => found,
            (None, None) => {
                let high = self.schema.bins.chunk_shape().sizes().to_vec();
                [vec![0.0; high.len()], high]
            }
            (Some(declared), found) => {
                let mut corners = [declared.low().to_vec(), declared.high().to_vec()];
                if let Some([low, high]) = found.filter(|_| self.outside == Outside::Expand) {
                    let [first, last] = &mut corners;
                    first.iter_mut().zip(low).for_each(|(to, x)| *to = to.min(x));
                    last.iter_mut().zip(high).for_each(|(to, x)| *to = to.max(x));
                }
                corners
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
            let (chunk, row) = places.of(*vertex).unwrap_or((0, 0));
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
struct Written<'a> {
    schema: &'a Schema,
    columns: Option<&'a Columns>,
    vertices: u64,
    indexed: bool,
    owners: bool,
    links: bool,
    grouped: bool,
}

impl Written<'_> {
    fn level(&self) -> Level {
        let mut level = Level::new(0);
        level.vertex_count = to_i64(self.vertices);
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
    match kind {
        Kind::Graph | Kind::Mesh => LinksConvention::Explicit,
        Kind::Skeleton if explicit => LinksConvention::Explicit,
        Kind::Skeleton => LinksConvention::ImplicitSequentialWithBranches,
        _ => LinksConvention::ImplicitSequential,
    }
}

/// Object ids in the order of the format.
pub(crate) fn numbers_of(ids: &[ObjectId]) -> impl Iterator<Item = i64> {
    ids.iter().map(|id| id.0)
}
