//! Reads everything in a store in one of several ways, and prints the facts as lines of text.
//!
//! Two stores with the same contents give the same lines. The first fault anywhere is returned as
//! the error.

use anyhow::Context as _;
use serde_json::{Value, json};
use zvf_model::{Bounds, Kind, LevelId, LevelReader, Parametric};
use zvf_query::region::Region;
use zvf_query::{Query, Reader};
use zvf_store::Store;

use crate::contents::LevelContents;
use crate::facts::{self, Rows};
use crate::golden_part::objects::Objects;
use crate::golden_part::{cells, links, tables};

/// Returns every fact of `store`.
pub(crate) async fn read_facts(store: &Store) -> anyhow::Result<Vec<String>> {
    let reader = Reader::new(store.clone());
    let mut lines = Vec::new();
    for number in store.level_numbers() {
        let level = LevelReader::open(store, LevelId(number)).await?;
        let mut found = read_level(&level).await?;
        add_answers(&reader, &level, &mut found).await?;
        push_lines(&number.to_string(), &found, &mut lines);
    }
    if let Some(parametric) = Parametric::open(store).await? {
        push_lines("parametric", &read_parametric(&parametric).await?, &mut lines);
    }
    Ok(lines)
}

/// Adds a line for each fact.
fn push_lines(at: &str, found: &Value, lines: &mut Vec<String>) {
    match found {
        Value::Object(all) => {
            all.iter().for_each(|(name, fact)| push_lines(&format!("{at}/{name}"), fact, lines));
        }
        fact => lines.push(format!("{at} {fact}")),
    }
}

/// Returns parametric objects, their groups and their attributes.
async fn read_parametric(parametric: &Parametric) -> anyhow::Result<Value> {
    let mut found = json!({"shapes": format!("{:?}", parametric.shapes().await?)});
    if let Some(groups) = parametric.groups().await? {
        let members = groups.members(&(0..groups.len()).collect::<Vec<_>>()).await?;
        found["groups"] = format!("{members:?}").into();
    }
    let [objects, groups] = parametric.attribute_names().await?;
    for (names, of_groups) in [(objects.names, false), (groups.names, true)] {
        for name in names {
            let attribute = match of_groups {
                true => parametric.group_attribute(&name).await?,
                false => parametric.object_attribute(&name).await?,
            };
            let attribute = attribute.context("no such attribute")?;
            found[name] = tables::describe_values(&attribute, &Value::Null).await?;
        }
    }
    Ok(found)
}

/// Returns the vertices, objects, groups and links of a level, and the attributes of each.
async fn read_level(level: &LevelReader) -> anyhow::Result<Value> {
    let contents = LevelContents::read(level.clone()).await?;
    let mut found = json!({"vertices": contents.positions().sha256()});
    for name in level.attribute_names().await?.names {
        found["columns"][&name] = cells::describe_column(&contents, &name, &Value::Null).await?;
    }
    if let Some(index) = level.objects().await? {
        // The library refuses broken references before they are resolved here.
        let followed = level.follow(&index, &(0..index.slots()).collect::<Vec<_>>()).await?;
        let runs = followed.objects.iter().flat_map(|object| {
            object.runs.iter().map(|run| [object.id.0, run.chunk as i64, run.fragment as i64])
        });
        found["runs"] = Rows::from_ints(runs).sha256().into();
        found["objects"] = Objects::read(&index, &contents).await?.describe(&Value::Null);
    }
    for name in level.object_attribute_names().await?.names {
        let attribute = level.object_attribute(&name).await?.context("no such attribute")?;
        let values = tables::describe_values(&attribute, &Value::Null).await?;
        found["object_attributes"][&name] = values;
    }
    if let Some(groups) = level.groups().await? {
        let members = groups.members(&(0..groups.len()).collect::<Vec<_>>()).await?;
        found["groups"] = format!("{members:?}").into();
    }
    let mut deltas = level.node().children("links").await?.names;
    deltas.extend(level.node().children("cross_chunk_links").await?.names);
    for delta in deltas {
        if level.links(delta.parse()?).await?.is_some() {
            let family = links::describe_family(&contents, &delta, &Value::Null).await?;
            found["links"][&delta] = family;
        }
    }
    Ok(found)
}

/// Adds the level as one answer, and the contents of the lower half of its box on each axis.
async fn add_answers(
    reader: &Reader,
    level: &LevelReader,
    found: &mut Value,
) -> anyhow::Result<()> {
    let kind = level.kinds().first().copied().unwrap_or(Kind::PointCloud);
    let all = Query::all().of_kind(kind).at_level(level.level());
    let mut queries = vec![("all", all.clone())];
    let [low, high] = &reader.store().root().zarr_vectors.bounds;
    let middle: Vec<f64> = low.iter().zip(high).map(|(low, high)| low.midpoint(*high)).collect();
    if let Ok(bounds) = Bounds::new(low, &middle) {
        queries.push(("box", all.in_region(Region::from(bounds))));
    }
    for (what, query) in queries {
        let batch = reader.run(&query).await?.batch;
        let answer = &mut found[what];
        answer["positions"] = facts::digest(batch.positions().rows()).into();
        for field in batch.fields() {
            answer["fields"][&*field.name] = facts::digest(field.column.rows()).into();
        }
        if let Some(elements) = batch.elements() {
            let ends = elements.rows().iter().map(|&row| [row as i64]);
            answer["elements"] = Rows::from_ints(ends).sha256().into();
        }
    }
    Ok(())
}
