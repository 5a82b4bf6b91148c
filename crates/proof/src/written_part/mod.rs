//! The part that writes stores and has other software read them.
//!
//! ```text
//! cases   every kind with every option: the reference opens each, validates it at level 5, answers boxes,
//!         objects and groups as brute force does; zarr-python opens every array and every cell
//! twins   the inputs of new stores of the reference, written by us with `compat`: each
//!         cell, fragment index, manifest and link cell is the same, byte for byte
//! ```

pub(crate) mod cases;

use std::path::Path;

use anyhow::Context;
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Dtype, Node};
use zvf_model::{Batch, Column, Elements, Field, Kind, LevelReader, ObjectId, Parts};
use zvf_write::{Schema, WriteOptions, Writer};

use crate::input::Input;
use crate::pyramid_part::comparison::{compare_array, list_nodes};
use crate::report::{Report, Run};
use crate::{corpus, peers};

/// Writes every case, and has it read.
pub(crate) fn run(run: &mut Run<'_>) -> anyhow::Result<()> {
    let folder = archives::scratch();
    let mut written = 0_usize;
    for (name, case) in cases::list_cases() {
        if run.is_wanted(&name) {
            run.runtime.block_on(case.write(folder.path(), &name));
            written += 1;
        }
    }
    let mut reader = peers::reference_script("read_stores.py")?;
    let output = peers::run_command(reader.arg(folder.path()))?;
    let (read, facts) = run.verdicts("written", &output, async |_, _| Ok(()))?;
    anyhow::ensure!(read == written, "{read} of {written} stores were read");
    run.print_line(&format!("written: {written} stores, {facts} facts that the reference reads"))
}

/// Rewrites the stores of `folder`, which the reference wrote.
pub(crate) fn check_twins(
    folder: &Path,
    inputs: &[Input],
    run: &mut Run<'_>,
) -> anyhow::Result<()> {
    // What Draco makes of the same mesh is up to each encoder.
    for input in inputs.iter().filter(|input| !input.is_draco()) {
        run.case(format!("twin/{}", input.id), async |report| {
            compare_twin(report, &folder.join(&input.id), input).await
        })?;
    }
    Ok(())
}

/// Writes the store, and compares it cell by cell and manifest by manifest.
async fn compare_twin(report: &mut Report, folder: &Path, input: &Input) -> anyhow::Result<()> {
    let theirs = corpus::open(&folder.join("store.zarrvectors")).await?;
    let level = LevelReader::open(&theirs, zvf_model::LevelId(0)).await?;
    let kind = level.kinds().first().copied().context("a store of no kind")?;
    let twin = folder.join("twin.zarrvectors");
    let build = corpus::unsynced_options();
    let options = WriteOptions { compat: true, build, ..WriteOptions::default() };
    let schema = copy_schema(&level, kind)?;
    let mut writer = Writer::create(&twin.to_string_lossy(), schema, options).await?;
    writer.push(&read_batch(input, level.dtype(), kind)?)?;
    writer.finish().await?;
    let stores = [&theirs, &corpus::open(&twin).await?];
    for node in list_nodes(&folder.join("store.zarrvectors")) {
        // Links to other levels are not part of the input.
        let is_of_level = node
            .strip_prefix("0/")
            .is_some_and(|below| !below.starts_with("links/") || below.starts_with("links/0/"));
        let Some(Node::Array(doc)) = theirs.nodes().node(&node).await?.as_deref().cloned() else {
            continue;
        };
        let is_compared = doc.nonempty_chunks.is_some() || node == "0/object_index/manifests";
        if is_of_level && is_compared {
            // zarr-vectors stores fragment numbers instead of rows.
            match kind == Kind::Line && node.starts_with("0/links") {
                true => report.skip("links of lines: those of the reference name fragments"),
                false => compare_array(report, stores, &node, &doc).await?,
            }
        }
    }
    Ok(())
}

/// Returns the schema of the zarr-vectors store.
fn copy_schema(level: &LevelReader, kind: Kind) -> anyhow::Result<Schema> {
    let root = level.store().root();
    let chunk = ChunkShape::new(&root.zarr_vectors.chunk_shape)?;
    let mut schema = Schema::new(kind, root.axes().to_vec(), chunk)?;
    if let Some(bins) = &root.zarr_vectors.base_bin_shape {
        schema = schema.with_bins(bins)?;
    }
    if let Some((name, values)) = level.bin_attribute() {
        schema = schema.with_bin_attribute(name, values)?;
    }
    Ok(schema)
}

/// Returns the input as one batch.
fn read_batch(input: &Input, dtype: Dtype, kind: Kind) -> anyhow::Result<Batch> {
    let axes = input.positions[0].len();
    let positions = column_of_type(&input.positions.concat(), dtype, axes)?;
    let mut batch = Batch::new(kind, positions);
    for (name, values) in &input.columns {
        // This is the name of integers in all stores of the peer.
        let dtype = (if name == "n" { "int32" } else { "float32" }).parse::<Dtype>()?;
        batch = batch.with_field(Field::new(name.as_str(), column_of_type(values, dtype, 1)?))?;
    }
    if let Some(owners) = &input.objects {
        let owners = owners.iter().map(|id| Some(ObjectId(*id)));
        batch = batch.with_vertex_objects(owners.collect())?;
    }
    if let Some(offsets) = &input.parts {
        let ids = (0..offsets.len() as i64 - 1).map(ObjectId).collect();
        batch = batch.with_parts(Parts::new(offsets.clone(), ids)?)?;
    }
    if let Some(ends) = &input.ends {
        batch = batch.with_elements(Elements::new(ends[0].len(), ends.concat())?)?;
    }
    Ok(batch)
}

/// Returns numbers in the type of the input.
fn column_of_type(values: &[f64], dtype: Dtype, width: usize) -> anyhow::Result<Column> {
    let bytes: Vec<u8> = match dtype.to_string().as_str() {
        "float64" => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        "float32" => values.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
        "int32" => values.iter().flat_map(|x| (*x as i32).to_le_bytes()).collect(),
        dtype => anyhow::bail!("no numbers of type {dtype} are written"),
    };
    Ok(Column::new(dtype, width as u32, bytes.into())?)
}
