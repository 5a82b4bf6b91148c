//! Reads everything in a store in one of several ways, and prints the facts as lines of text.
//!
//! Two stores with the same contents give the same lines. The first fault anywhere is returned as
//! the error.

use std::fmt;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::key::Delta;
use zvf_model::{BadCode, Bounds, Kind, LevelId, LevelReader, Parametric, RowAttribute};
use zvf_query::region::Region;
use zvf_query::{Query, Reader};
use zvf_store::{Caching, Store};

use crate::contents::LevelContents;
use crate::facts::{self, Rows};

/// Returns every fact of `store`.
pub(crate) async fn read_facts(store: &Store) -> Result<Vec<String>> {
    let reader = Reader::new(store.clone());
    let mut found = Vec::new();
    for number in store.level_numbers() {
        let level = LevelReader::open(store, LevelId(number)).await?;
        let mut lines = Lines { number, lines: Vec::new() };
        add_vertices(&level, &mut lines).await?;
        add_objects(&level, &mut lines).await?;
        add_links(&level, &mut lines).await?;
        add_answers(&reader, &level, &mut lines).await?;
        found.append(&mut lines.lines);
    }
    add_parametric(store, &mut found).await?;
    Ok(found)
}

/// Adds parametric objects, their groups and their attributes.
async fn add_parametric(store: &Store, found: &mut Vec<String>) -> Result<()> {
    let Some(parametric) = Parametric::open(store).await? else { return Ok(()) };
    found.extend(parametric.shapes().await?.iter().map(|shape| format!("parametric {shape:?}")));
    if let Some(groups) = parametric.groups().await? {
        let members = groups.members(&(0..groups.len()).collect::<Vec<_>>()).await?;
        found.push(format!("parametric groups {members:?}"));
    }
    let [objects, groups] = parametric.attribute_names().await?;
    for (names, of_groups) in [(objects.names, false), (groups.names, true)] {
        for name in names {
            let attribute = match of_groups {
                true => parametric.group_attribute(&name).await?,
                false => parametric.object_attribute(&name).await?,
            };
            found.push(format!("parametric {name} {}", digest_values(&name, attribute).await?));
        }
    }
    Ok(())
}

/// The facts of one level.
struct Lines {
    number: u32,
    lines: Vec<String>,
}

impl Lines {
    fn push_fact(&mut self, what: &str, digest: impl fmt::Display) {
        self.lines.push(format!("{}/{what} {digest}", self.number));
    }
}

/// Adds cells, and the columns of their vertices.
async fn add_vertices(level: &LevelReader, lines: &mut Lines) -> Result<()> {
    let contents = LevelContents::read(level.clone()).await?;
    lines.push_fact("vertices", contents.positions().sha256());
    let mut names = level.attribute_names().await?.names;
    names.sort_unstable();
    for name in &names {
        let attribute = level.attribute(name).await?.ok_or_else(|| vanished_error(name))?;
        let values = contents.read_values(&attribute).await?;
        for column in &values {
            let field = attribute.field(column.clone());
            for row in 0..column.len() {
                let bad_code = |e: BadCode| Error::custom(Class::OutOfBounds, e.to_string());
                field.value(row, 0).map_err(bad_code)?;
            }
        }
        lines.push_fact(name, contents.rows_in_order(&values.iter().collect::<Vec<_>>()).sha256());
    }
    Ok(())
}

/// Adds objects and groups, and their attributes.
async fn add_objects(level: &LevelReader, lines: &mut Lines) -> Result<()> {
    if let Some(index) = level.objects().await? {
        let rows: Vec<u64> = (0..index.slots()).collect();
        let followed = level.follow(&index, &rows).await?;
        let runs = followed.objects.iter().flat_map(|object| {
            object.runs.iter().map(|run| [object.id.0, run.chunk as i64, run.fragment as i64])
        });
        lines.push_fact("objects", Rows::from_ints(runs).sha256());
    }
    for name in level.object_attribute_names().await?.names {
        let attribute = level.object_attribute(&name).await?;
        lines.push_fact(&name, digest_values(&name, attribute).await?);
    }
    if let Some(groups) = level.groups().await? {
        let members = groups.members(&(0..groups.len()).collect::<Vec<_>>()).await?;
        lines.push_fact("groups", facts::digest(members.iter().map(|group| format!("{group:?}"))));
    }
    Ok(())
}

async fn digest_values(name: &str, attribute: Option<RowAttribute>) -> Result<String> {
    let attribute = attribute.ok_or_else(|| vanished_error(name))?;
    let values = attribute.range(0..attribute.len()).await?;
    Ok(facts::digest(values.column().rows()))
}

/// Adds every record of every family.
async fn add_links(level: &LevelReader, lines: &mut Lines) -> Result<()> {
    let deltas = level.node().children("links").await?.names;
    let between = level.node().children("cross_chunk_links").await?.names;
    for delta in deltas.iter().chain(&between) {
        let delta = delta.parse::<Delta>().map_err(Error::from)?;
        let Some(family) = level.links(delta).await? else { continue };
        let mut ends = Vec::new();
        for segment in family.segments() {
            let places = segment.cells().await?.cell_order();
            for records in segment.read(&places, Caching::Once).await {
                let records = records?;
                for i in 0..records.len() {
                    let endpoints = records.endpoints(i);
                    ends.extend(endpoints.map(|(chunk, row)| format!("{chunk} {row}")));
                }
            }
        }
        lines.push_fact(&format!("links {delta}"), facts::digest(ends.iter()));
    }
    Ok(())
}

/// Adds the level as one answer, and the contents of the lower half of its box on each axis.
async fn add_answers(reader: &Reader, level: &LevelReader, lines: &mut Lines) -> Result<()> {
    let kind = level.kinds().first().copied().unwrap_or(Kind::PointCloud);
    let all = Query::all().of_kind(kind).at_level(level.level());
    add_answer(reader, &all, "all", lines).await?;
    let [low, high] = &reader.store().root().zarr_vectors.bounds;
    let middle: Vec<f64> = low.iter().zip(high).map(|(low, high)| low.midpoint(*high)).collect();
    if let Ok(bounds) = Bounds::new(low, &middle) {
        add_answer(reader, &all.in_region(Region::from(bounds)), "box", lines).await?;
    }
    Ok(())
}

async fn add_answer(reader: &Reader, query: &Query, what: &str, lines: &mut Lines) -> Result<()> {
    let batch = reader.run(query).await?.batch;
    lines.push_fact(what, facts::digest(batch.positions().rows()));
    for field in batch.fields() {
        lines.push_fact(&format!("{what}/{}", field.name), facts::digest(field.column.rows()));
    }
    if let Some(elements) = batch.elements() {
        let ends = elements.rows().iter().map(|&row| [row as i64]);
        lines.push_fact(&format!("{what}/elements"), Rows::from_ints(ends).sha256());
    }
    Ok(())
}

/// Returns the error for a name that was listed and does not exist.
fn vanished_error(name: &str) -> Error {
    Error::missing(name, "it was listed")
}
