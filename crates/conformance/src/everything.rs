//! Reads all there is in a store, one way or another, and says what was found as lines of text.
//!
//! Two stores that hold the same give the same lines; a fault anywhere is the first error.

use std::fmt;

use zvf_format::Class;
use zvf_format::key::Delta;
use zvf_model::{Kind, Level, LevelReader, ModelError};
use zvf_query::{Query, QueryError, Reader};
use zvf_store::{Caching, Store, StoreError};

use crate::facts::{self, Rows};
use crate::whole::Whole;

/// Why not everything could be read: an error of the library, by its class.
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

/// Every fact found in `store`.
pub(crate) async fn everything(store: &Store) -> Result<Vec<String>, Refusal> {
    let mut lines = Vec::new();
    let reader = Reader::new(store.clone());
    for number in store.level_numbers() {
        let level = LevelReader::open(store, Level(number)).await?;
        let mut say = |what: &str, digest: String| lines.push(format!("{number}/{what} {digest}"));
        let whole = Whole::read(level.clone()).await?;
        say("vertices", whole.positions().sha256());
        let mut names = level.attribute_names().await?.names;
        names.sort_unstable();
        for name in &names {
            let Some(of) = level.attribute(name).await? else {
                return Err(vanished(name));
            };
            let values = whole.values(&of).await?;
            for column in &values {
                let field = of.field(column.clone());
                for row in 0..column.len() {
                    field.value(row, 0).map_err(|error| Refusal {
                        class: Class::OutOfBounds,
                        text: error.to_string(),
                    })?;
                }
            }
            say(name, whole.in_order(&values.iter().collect::<Vec<_>>()).sha256());
        }
        if let Some(index) = level.objects().await? {
            let rows: Vec<u64> = (0..index.slots()).collect();
            let followed = level.follow(&index, &rows).await?;
            let runs = followed.objects.iter().flat_map(|object| {
                object.runs.iter().map(|run| [object.id.0, run.chunk as i64, run.fragment as i64])
            });
            say("objects", Rows::of_ints(runs).sha256());
        }
        for name in level.object_attribute_names().await?.names {
            let Some(of) = level.object_attribute(&name).await? else {
                return Err(vanished(&name));
            };
            let values = of.range(0..of.len()).await?;
            say(&name, facts::digest(values.column().rows()));
        }
        if let Some(groups) = level.groups().await? {
            let members = groups.members(&(0..groups.len()).collect::<Vec<_>>()).await?;
            say("groups", facts::digest(members.iter().map(|of| format!("{of:?}"))));
        }
        let deltas = level.node().children("links").await?.names;
        let between = level.node().children("cross_chunk_links").await?.names;
        for delta in deltas.iter().chain(&between) {
            let delta = Delta::parse(delta).map_err(ModelError::from)?;
            let Some(family) = level.links(delta).await? else { continue };
            let mut ends = Vec::new();
            for segment in family.segments() {
                let places = segment.cells().await?.in_order();
                for records in segment.read(&places, Caching::Once).await {
                    let records = records?;
                    for i in 0..records.len() {
                        ends.extend(
                            records.endpoints(i).map(|(chunk, row)| format!("{chunk} {row}")),
                        );
                    }
                }
            }
            say(&format!("links {delta}"), facts::digest(ends.iter()));
        }
        let kind = level.kinds().first().copied().unwrap_or(Kind::PointCloud);
        let answer = reader.run(&Query::all().of_kind(kind).at_level(Level(number))).await?;
        say("answer", facts::digest(answer.batch.positions().rows()));
        for field in answer.batch.fields() {
            say(&format!("answer/{}", field.name), facts::digest(field.column.rows()));
        }
        let elements = answer.batch.elements().map(|elements| elements.rows().to_vec());
        if let Some(elements) = elements {
            let ends = elements.iter().map(|&row| [row as i64]);
            say("answer/elements", Rows::of_ints(ends).sha256());
        }
    }
    Ok(lines)
}

/// A name that was listed, and has nothing behind it.
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
