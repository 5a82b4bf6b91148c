//! Parametric objects, which are stored next to the levels: their rows, names, attributes and groups.

use zvf_error::Result;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_metadata::LayoutFamily;
use zvf_metadata::arrays::{ArrayAttributes as _, ParametricArray, ParametricTypes};

use crate::array::check_orphan_folders;
use crate::rules::{C, S};
use crate::validation::Validation;

/// Checks C39: types, and arrays of one length.
pub(crate) async fn check(run: &mut Validation) -> Result<()> {
    let group = run.store.nodes().group(GROUP).await;
    let Some(group) = run.take(S[18], GROUP, group)?.flatten() else { return Ok(()) };
    let types = ParametricTypes::parse(group.attributes);
    let Some(types) = run.parsed(GROUP, types) else { return Ok(()) };
    let Some(objects) = check_objects(run, &types).await? else { return Ok(()) };
    check_names(run, objects).await?;
    for (name, rows) in [("object_attributes", Some(objects)), ("group_attributes", None)] {
        check_columns(run, name, rows).await?;
    }
    Ok(())
}

/// Checks that every row begins with a registered type; returns the number of rows.
async fn check_objects(run: &mut Validation, types: &ParametricTypes) -> Result<Option<u64>> {
    let path = format!("{GROUP}/objects");
    let Some(array) = run.dense(&path).await?.flatten() else { return Ok(None) };
    let doc = ParametricArray::parse(array.attributes().clone());
    let stated = run.parsed(&path, doc).and_then(|doc| doc.num_objects);
    if let Some(stated) = stated.filter(|stated| *stated != array.len()) {
        run.add(C[43].at(&path).expects("num_objects", array.len(), stated));
    }
    let Some(bytes) = run.take(C[2], &path, array.read_all().await)? else { return Ok(None) };
    let columns = array.shape().get(1).copied().unwrap_or(1);
    // If it overflows, it exceeds the data.
    let row_bytes = saturating_usize(columns.saturating_mul(array.dtype().size)).max(1);
    for (row, bytes) in (0_u64..).zip(bytes.chunks_exact(row_bytes)) {
        let number =
            bytes.first_chunk().map(|n| f64::from_le_bytes(*n)).filter(|_| array.dtype().size == 8);
        let Some(number) = number else { break };
        let finding = C[39].at(&path).in_row(row).with_offset(0);
        let id = format!("{number:.0}").parse::<i64>().ok().filter(|_| number.fract() == 0.0);
        match id {
            None => {
                let mut finding = finding.expects("type", "a whole number", number);
                finding.severity = crate::Severity::Error;
                run.add(finding);
            }
            Some(id) if types.find(id).is_none() && !BUILT_IN.contains(&id) => {
                run.add(finding.expects("type", "one of parametric_types", id));
            }
            Some(_) => {}
        }
    }
    Ok(Some(array.len()))
}

/// Checks that each object has a name, if there are names; in the older families they are one text.
async fn check_names(run: &mut Validation, objects: u64) -> Result<()> {
    let path = format!("{GROUP}/names");
    if matches!(run.store.family(), LayoutFamily::A | LayoutFamily::B0) {
        return joined_names(run, &path, objects).await;
    }
    let rows = run.store.nodes().rows(&path).await;
    let Some(rows) = run.take(C[2], &path, rows)?.flatten() else { return Ok(()) };
    let Some(count) = run.take(C[2], &path, rows.count().await)? else { return Ok(()) };
    if count != objects {
        run.add(C[43].at(&path).expects("rows", objects, count));
    }
    let names = run.take(C[2], &path, rows.range(0..count).await)?;
    for (row, name) in (0_u64..).zip(names.unwrap_or_default()) {
        if std::str::from_utf8(&name).is_err() {
            let finding = C[39].at(&path).in_row(row);
            run.add(finding.expects("name", "text in UTF-8", "other bytes"));
        }
    }
    Ok(())
}

/// Checks the names of the older families: one text, separated by newlines.
async fn joined_names(run: &mut Validation, path: &str, objects: u64) -> Result<()> {
    let path = format!("{path}/data");
    let Some(array) = run.dense(&path).await?.flatten() else { return Ok(()) };
    let Some(text) = run.take(C[2], &path, array.read_all().await)? else { return Ok(()) };
    let newlines = text.iter().filter(|byte| **byte == b'\n').count();
    let names = to_u64(newlines) + 1;
    if names != objects && !(text.is_empty() && objects == 0) {
        run.add(C[43].at(&path).expects("names", objects, names));
    }
    Ok(())
}

async fn check_columns(run: &mut Validation, group: &str, rows: Option<u64>) -> Result<()> {
    let group = format!("{GROUP}/{group}");
    for name in run.names(C[39], &group).await? {
        let path = format!("{group}/{name}");
        match run.dense(&path).await? {
            Some(Some(array)) => {
                if let Some(rows) = rows.filter(|rows| *rows != array.len()) {
                    run.add(C[39].at(&path).expects("rows", rows, array.len()));
                }
                run.take(C[2], &path, array.read_all().await)?;
            }
            Some(None) => check_orphan_folders(run, &path).await?,
            None => {}
        }
    }
    Ok(())
}

const GROUP: &str = "parametric";
/// Planes, lines and spheres need no registration.
const BUILT_IN: [i64; 3] = [0, 1, 2];
