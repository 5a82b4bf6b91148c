//! Queries of both stores.

use zvf_model::{Batch, Bounds, Field, Kind, LevelId, LevelReader, ObjectId};
use zvf_query::{Columns, Mode, Query, Reader};
use zvf_store::Store;

/// Runs all queries on both stores and compares the answers.
pub(crate) async fn same(id: &str, old: &Store, new: &Store) {
    assert_eq!(old.list_levels().await.unwrap(), new.list_levels().await.unwrap(), "{id}");
    let readers = [Reader::new(old.clone()), Reader::new(new.clone())];
    for number in old.list_levels().await.unwrap() {
        let level = LevelReader::open(old, LevelId(number)).await.unwrap();
        for (query, has_cuts) in queries_of(&level).await {
            let mut answers = Vec::new();
            for reader in &readers {
                let answer = reader.run(&query).await;
                answers.push(match answer {
                    Ok(answer) => (true, facts(&answer.batch, has_cuts), answer.complete),
                    Err(error) => (false, vec![error.to_string()], false),
                });
            }
            assert!(answers[0].0, "{id}: {query:?}: {answers:?}");
            assert_eq!(answers[0], answers[1], "{id}: {query:?}");
        }
    }
}

/// Returns the queries of a level, each with a flag that the answer may have new vertices, which
/// are in the order of the cut elements.
async fn queries_of(level: &LevelReader) -> Vec<(Query, bool)> {
    let kind = level.kinds().first().copied().unwrap_or(Kind::PointCloud);
    let all = || Query::all().at_level(level.level()).of_kind(kind).columns(Columns::All);
    let mut queries = vec![all().with_owners(), all().increment_only()];
    if let Some(index) = level.objects().await.unwrap() {
        let ids = index.ids(0..index.slots()).await.unwrap();
        queries.push(all().of_objects(ids.clone()));
        queries.extend(ids.iter().step_by(3).map(|id| all().of_objects([*id])));
        queries
            .push(all().of_objects(ids.iter().rev().take(4).copied().collect::<Vec<ObjectId>>()));
    }
    if let Some(groups) = level.groups().await.unwrap() {
        queries.extend((0..groups.len()).map(|group| all().in_groups([group])));
    }
    let mut queries: Vec<(Query, bool)> = queries.into_iter().map(|query| (query, false)).collect();
    let [low, high] = &level.store().root().zarr_vectors.bounds;
    let axes: Vec<(f64, f64)> = low.iter().copied().zip(high.iter().copied()).collect();
    for step in 0..12_u32 {
        // Boxes of many sizes and positions, deterministic.
        let part = |axis: usize| f64::from((step * 7 + axis as u32 * 5) % 12) / 12.0;
        let size = 0.05 + f64::from(step % 4) * 0.2;
        let from = |(axis, (low, high)): (usize, &(f64, f64))| low + part(axis) * (high - low);
        let corner: Vec<f64> = axes.iter().enumerate().map(from).collect();
        let opposite: Vec<f64> =
            corner.iter().zip(&axes).map(|(x, (low, high))| x + size * (high - low)).collect();
        let bounds = Bounds::new(&corner, &opposite).unwrap();
        let boxed = Query::all().in_region(bounds).at_level(level.level()).of_kind(kind);
        let boxed = boxed.columns(Columns::All);
        let is_clipped = step % 3 == 0;
        let boxed = if is_clipped { boxed.mode(Mode::Clip) } else { boxed };
        queries.push((boxed, is_clipped && kind.has_links()));
    }
    queries
}

/// Formats an answer, one line for each part. Elements are sorted, because versions differ in their
/// order. So are the vertices of answers with cuts, whose elements then refer to them by position.
fn facts(batch: &Batch, has_cuts: bool) -> Vec<String> {
    let values = |field: &Field| {
        let column = &field.column;
        let texts = (0..column.len()).map(|row| {
            let row = (0..column.width() as usize).map(|c| format!("{:?}", field.value(row, c)));
            row.collect::<Vec<_>>().join(" ")
        });
        texts.collect::<Vec<_>>()
    };
    let mut facts = vec![
        format!("positions {:?} {:?}", batch.positions().dtype(), batch.positions().bytes()),
        format!("owners {:?}", batch.vertex_objects()),
        format!("parts {:?} {:?}", batch.parts().offsets(), batch.parts().objects()),
    ];
    for field in batch.fields() {
        let (name, unit) = (&field.name, &field.unit);
        facts.push(format!("{name} {:?} {unit:?} {:?}", field.column.dtype(), values(field)));
    }
    let vertices: Vec<String> = (0..batch.len())
        .map(|row| {
            let fields = batch.fields().iter().map(|field| format!("{:?}", field.value(row, 0)));
            let fields: Vec<String> = fields.collect();
            if has_cuts {
                format!("{:?} {fields:?}", batch.positions().row(row))
            } else {
                row.to_string()
            }
        })
        .collect();
    if has_cuts {
        facts.clear();
        facts.extend(vertices.iter().cloned());
        facts.sort();
    }
    if let Some(elements) = batch.elements() {
        let fields: Vec<Vec<String>> = elements.fields().iter().map(values).collect();
        let mut rows: Vec<String> = elements
            .iter()
            .enumerate()
            .map(|(i, rows)| {
                let values: Vec<&String> = fields.iter().map(|values| &values[i]).collect();
                let ends: Vec<&String> = rows.iter().map(|row| &vertices[*row]).collect();
                format!("element {ends:?} {values:?}")
            })
            .collect();
        rows.sort();
        facts.extend(rows);
    }
    facts
}
