//! Attributes of objects and groups: one row for each, with the declared type.

use zvf_error::{Error, Result};
use zvf_metadata::DtypeKind;
use zvf_metadata::arrays::{ArrayAttributes as _, Rows};
use zvf_store::DenseArray;

use crate::array::check_orphan_folders;
use crate::finding::Finding;
use crate::level::LevelState;
use crate::rules::{C, M, S};
use crate::validation::Validation;
use zvf_format::Class;
use zvf_metadata::validate_attribute_name;

/// Checks C23, C2, M19: every array below `group`, for `rows` rows.
pub(crate) async fn check(
    run: &mut Validation,
    level: &LevelState,
    group: &str,
    rows: Option<u64>,
) -> Result<()> {
    for name in run.names(C[23], &level.path(group)).await? {
        let path = level.path(&format!("{group}/{name}"));
        if let Some(error) = validate_attribute_name(&name) {
            run.add(Finding::from_metadata(M[19], &path, &error));
        }
        column(run, level, &format!("{group}/{name}"), &path, rows).await?;
    }
    Ok(())
}

async fn column(
    run: &mut Validation,
    level: &LevelState,
    name: &str,
    path: &str,
    rows: Option<u64>,
) -> Result<()> {
    let array = level.node.dense(name).await;
    let class = array.as_ref().err().map(Error::class);
    let rule = if class == Some(Class::Unsupported) { S[17] } else { M[20] };
    let Some(array) = run.take(rule, path, array)? else { return Ok(()) };
    let Some(array) = array else { return check_orphan_folders(run, path).await };
    let stated = Rows::parse(array.attributes().clone())
        .and_then(|doc| doc.dtype.is_some().then(|| doc.dtype()).transpose());
    let found = array.dtype();
    if let Some(stated) = run.parsed(path, stated).flatten()
        && (stated.kind, stated.size) != (found.kind, found.size)
    {
        run.add(C[23].at(path).expects("dtype", stated, found));
    }
    if let Some(rows) = rows.filter(|rows| *rows > array.len()) {
        run.add(C[23].at(path).expects("rows", format!("at least {rows}"), array.len()));
    }
    run.take(C[2], path, array.present_mask().await)?;
    run.read_rows(path, &array).await
}

/// Opens the column with the number of vertices of each object, where a level has it in the usual
/// type.
pub(crate) async fn open_vertex_counts(level: &LevelState) -> Option<DenseArray> {
    // A column that cannot be opened is another finding.
    let array = level.node.dense(VERTEX_COUNT).await.ok().flatten()?;
    let is_usual = array.shape().len() == 1
        && (array.dtype().kind, array.dtype().size) == (DtypeKind::UInt, 4);
    is_usual.then_some(array)
}

/// The column of objects that follows from the manifests.
pub(super) const VERTEX_COUNT: &str = "object_attributes/vertex_count";
