//! Parametric objects, which are stored next to the levels: their rows, names, attributes and groups.

use zvf_format::num::saturating_usize;
use zvf_metadata::LayoutFamily;
use zvf_metadata::arrays::{ParametricArray, ParametricTypes};

use crate::array::check_orphan_folders;
use crate::finding::Finding;
use crate::rules::consistency::{C2, C39, C43};
use crate::rules::metadata::M20;
use crate::rules::structure::S18;
use crate::stop::Stop;
use crate::validation::Validation;

/// Checks C39: types, and arrays of one length.
pub(crate) async fn check(run: &mut Validation) -> Result<(), Stop> {
    let types = match run.store.nodes().group(GROUP).await {
        Ok(Some(group)) => ParametricTypes::parse(group.attributes),
        Ok(None) => return Ok(()),
        Err(error) => return run.add_store_error(&S18, GROUP, &error),
    };
    let types = match types {
        Ok(types) => types,
        Err(error) => {
            run.add(Finding::from_metadata(&M20, GROUP, &error));
            return Ok(());
        }
    };
    let Some(objects) = check_objects(run, &types).await? else { return Ok(()) };
    check_names(run, objects).await?;
    for (name, rows) in [("object_attributes", Some(objects)), ("group_attributes", None)] {
        check_columns(run, name, rows).await?;
    }
    Ok(())
}

/// Checks that every row begins with a type that is registered; returns how many rows there are.
async fn check_objects(run: &mut Validation, types: &ParametricTypes) -> Result<Option<u64>, Stop> {
    let path = format!("{GROUP}/objects");
    let array = match run.store.nodes().dense(&path).await {
        Ok(Some(array)) => array,
        Ok(None) => return Ok(None),
        Err(error) => return run.add_store_error(&C2, &path, &error).map(|()| None),
    };
    match ParametricArray::parse(array.attributes().clone()) {
        Ok(doc) => {
            if let Some(stated) = doc.num_objects.filter(|stated| *stated != array.len()) {
                run.add(Finding::new(&C43, &path).with_details("num_objects", array.len(), stated));
            }
        }
        Err(error) => run.add(Finding::from_metadata(&M20, &path, &error)),
    }
    let bytes = match array.read_all().await {
        Ok(bytes) => bytes,
        Err(error) => return run.add_store_error(&C2, &path, &error).map(|()| None),
    };
    let columns = array.shape().get(1).copied().unwrap_or(1);
    // Too large: more than there is.
    let row_bytes = saturating_usize(columns.saturating_mul(array.dtype().size)).max(1);
    for (row, bytes) in (0_u64..).zip(bytes.chunks_exact(row_bytes)) {
        let number =
            bytes.first_chunk().map(|n| f64::from_le_bytes(*n)).filter(|_| array.dtype().size == 8);
        let Some(number) = number else { break };
        let finding = Finding::new(&C39, &path).in_row(row).with_offset(0);
        let id = format!("{number:.0}").parse::<i64>().ok().filter(|_| number.fract() == 0.0);
        match id {
            None => {
                let mut finding = finding.with_details("type", "a whole number", number);
                finding.severity = crate::Severity::Error;
                run.add(finding);
            }
            Some(id) if types.find(id).is_none() && !BUILT_IN.contains(&id) => {
                run.add(finding.with_details("type", "one of parametric_types", id));
            }
            Some(_) => {}
        }
    }
    Ok(Some(array.len()))
}

/// Checks that there is a name for each object, where there are names; in the older families they are one text.
async fn check_names(run: &mut Validation, objects: u64) -> Result<(), Stop> {
    let path = format!("{GROUP}/names");
    if matches!(run.store.family(), LayoutFamily::A | LayoutFamily::B0) {
        return joined_names(run, &path, objects).await;
    }
    let rows = match run.store.nodes().rows(&path).await {
        Ok(Some(rows)) => rows,
        Ok(None) => return Ok(()),
        Err(error) => return run.add_store_error(&C2, &path, &error),
    };
    let count = match rows.count().await {
        Ok(count) => count,
        Err(error) => return run.add_store_error(&C2, &path, &error),
    };
    if count != objects {
        run.add(Finding::new(&C43, &path).with_details("rows", objects, count));
    }
    match rows.range(0..count).await {
        Ok(names) => {
            for (row, name) in (0_u64..).zip(names) {
                if std::str::from_utf8(&name).is_err() {
                    let finding = Finding::new(&C39, &path).in_row(row);
                    run.add(finding.with_details("name", "text in UTF-8", "other bytes"));
                }
            }
            Ok(())
        }
        Err(error) => run.add_store_error(&C2, &path, &error),
    }
}

/// Checks the names of the older families: one text, with newlines between.
async fn joined_names(run: &mut Validation, path: &str, objects: u64) -> Result<(), Stop> {
    let path = format!("{path}/data");
    let text = match run.store.nodes().dense(&path).await {
        Ok(Some(array)) => array.read_all().await,
        Ok(None) => return Ok(()),
        Err(error) => Err(error),
    };
    match text {
        Ok(text) => {
            let newlines = text.iter().filter(|byte| **byte == b'\n').count();
            let names = zvf_format::num::to_u64(newlines) + 1;
            if names != objects && !(text.is_empty() && objects == 0) {
                run.add(Finding::new(&C43, &path).with_details("names", objects, names));
            }
            Ok(())
        }
        Err(error) => run.add_store_error(&C2, &path, &error),
    }
}

async fn check_columns(run: &mut Validation, group: &str, rows: Option<u64>) -> Result<(), Stop> {
    let group = format!("{GROUP}/{group}");
    for name in run.names(&C39, &group).await? {
        let path = format!("{group}/{name}");
        match run.store.nodes().dense(&path).await {
            Ok(Some(array)) => {
                if let Some(rows) = rows.filter(|rows| *rows != array.len()) {
                    run.add(Finding::new(&C39, &path).with_details("rows", rows, array.len()));
                }
                if let Err(error) = array.read_all().await {
                    run.add_store_error(&C2, &path, &error)?;
                }
            }
            Ok(None) => check_orphan_folders(run, &path).await?,
            Err(error) => run.add_store_error(&C2, &path, &error)?,
        }
    }
    Ok(())
}

const GROUP: &str = "parametric";
/// Plane, line and sphere need no registration.
const BUILT_IN: [i64; 3] = [0, 1, 2];
