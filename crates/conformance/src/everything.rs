//! Reads everything in a store by one of several ways, and prints the facts as lines of text.
//!
//! Two stores with the same contents give the same lines; a fault anywhere is the first error.

use std::fmt;

use zvf_format::Class;
use zvf_format::key::Delta;
use zvf_model::{Bounds, Kind, LevelId, LevelReader, ModelError, Parametric};
use zvf_query::region::Region;
use zvf_query::{Query, QueryError, Reader};
use zvf_store::{Caching, Store, StoreError};

use crate::contents::LevelContents;
use crate::facts::{self, Rows};

/// Why reading failed: an error of the library, with its class.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) class: Class,
    text: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.text)
    }
}

/// Returns every fact of `store`.
pub(crate) async fn everything(store: &Store) -> Result<Vec<String>, Refusal> {
    let reader = Reader::new(store.clone());
    let mut found = Vec::new();
    for number in store.level_numbers() {
        let level = LevelReader::open(store, LevelId(number)).await?;
        let mut lines = Lines { number, lines: Vec::new() };
        vertices(&level, &mut lines).await?;
        objects(&level, &mut lines).await?;
        links(&level, &mut lines).await?;
        answers(&reader, &level, &mut lines).await?;
        found.append(&mut lines.lines);
    }
    parametric(store, &mut found).await?;
    Ok(found)
}

/// Adds parametric objects, their groups and their attributes.
async fn parametric(store: &Store, found: &mut Vec<String>) -> Result<(), Refusal> {
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
            let attribute = attribute.ok_or_else(|| vanished(&name))?;
            let values = attribute.range(0..attribute.len()).await?;
            found.push(format!("parametric {name} {}", facts::digest(values.column().rows())));
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
    fn say(&mut self, what: &str, digest: impl fmt::Display) {
        self.lines.push(format!("{}/{what} {digest}", self.number));
    }
}

/// Adds cells, and the columns of their vertices.
async fn vertices(level: &LevelReader, lines: &mut Lines) -> Result<(), Refusal> {
    let contents = LevelContents::read(level.clone()).await?;
    lines.say("vertices", contents.positions().sha256());
    let mut names = level.attribute_names().await?.names;
    names.sort_unstable();
    for name in &names {
        let attribute = level.attribute(name).await?.ok_or_else(|| vanished(name))?;
        let values = contents.values(&attribute).await?;
        for column in &values {
            let field = attribute.field(column.clone());
            for row in 0..column.len() {
                field.value(row, 0).map_err(|error| Refusal {
                    class: Class::OutOfBounds,
                    text: error.to_string(),
                })?;
            }
        }
        lines.say(name, contents.in_order(&values.iter().collect::<Vec<_>>()).sha256());
    }
    Ok(())
}

/// Adds objects and groups, and their attributes.
async fn objects(level: &LevelReader, lines: &mut Lines) -> Result<(), Refusal> {
    if let Some(index) = level.objects().await? {
        let rows: Vec<u64> = (0..index.slots()).collect();
        let followed = level.follow(&index, &rows).await?;
        let runs = followed.objects.iter().flat_map(|object| {
            object.runs.iter().map(|run| [object.id.0, run.chunk as i64, run.fragment as i64])
        });
        lines.say("objects", Rows::of_ints(runs).sha256());
    }
    for name in level.object_attribute_names().await?.names {
        let attribute = level.object_attribute(&name).await?.ok_or_else(|| vanished(&name))?;
        let values = attribute.range(0..attribute.len()).await?;
        lines.say(&name, facts::digest(values.column().rows()));
    }
    if let Some(groups) = level.groups().await? {
        let members = groups.members(&(0..groups.len()).collect::<Vec<_>>()).await?;
        lines.say("groups", facts::digest(members.iter().map(|group| format!("{group:?}"))));
    }
    Ok(())
}

/// Adds every record of every family.
async fn links(level: &LevelReader, lines: &mut Lines) -> Result<(), Refusal> {
    let deltas = level.node().children("links").await?.names;
    let between = level.node().children("cross_chunk_links").await?.names;
    for delta in deltas.iter().chain(&between) {
        let delta = delta.parse::<Delta>().map_err(ModelError::from)?;
        let Some(family) = level.links(delta).await? else { continue };
        let mut ends = Vec::new();
        for segment in family.segments() {
            let places = segment.cells().await?.in_order();
            for records in segment.read(&places, Caching::Once).await {
                let records = records?;
                for i in 0..records.len() {
                    let here = records.endpoints(i);
                    ends.extend(here.map(|(chunk, row)| format!("{chunk} {row}")));
                }
            }
        }
        lines.say(&format!("links {delta}"), facts::digest(ends.iter()));
    }
    Ok(())
}

/// Adds the level as one answer, and the contents of the lower half of its box on each axis.
async fn answers(reader: &Reader, level: &LevelReader, lines: &mut Lines) -> Result<(), Refusal> {
    let kind = level.kinds().first().copied().unwrap_or(Kind::PointCloud);
    let all = Query::all().of_kind(kind).at_level(level.level());
    answer(reader, &all, "all", lines).await?;
    let [low, high] = &reader.store().root().zarr_vectors.bounds;
    let middle: Vec<f64> = low.iter().zip(high).map(|(low, high)| low.midpoint(*high)).collect();
    if let Ok(bounds) = Bounds::new(low, &middle) {
        answer(reader, &all.in_region(Region::from(bounds)), "box", lines).await?;
    }
    Ok(())
}

async fn answer(
    reader: &Reader,
    query: &Query,
    what: &str,
    lines: &mut Lines,
) -> Result<(), Refusal> {
    let batch = reader.run(query).await?.batch;
    lines.say(what, facts::digest(batch.positions().rows()));
    for field in batch.fields() {
        lines.say(&format!("{what}/{}", field.name), facts::digest(field.column.rows()));
    }
    if let Some(elements) = batch.elements() {
        let ends = elements.rows().iter().map(|&row| [row as i64]);
        lines.say(&format!("{what}/elements"), Rows::of_ints(ends).sha256());
    }
    Ok(())
}

/// Returns the error for a name that was listed and does not exist.
fn vanished(name: &str) -> Refusal {
    Refusal { class: Class::NotFound, text: format!("{name} was listed, and is not there") }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self { class: error.class(), text: error.to_string() }
    }
}

impl From<ModelError> for Refusal {
    fn from(error: ModelError) -> Self {
        Self { class: error.class(), text: error.to_string() }
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        Self { class: error.class(), text: error.to_string() }
    }
}
