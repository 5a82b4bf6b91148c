//! Attributes of objects and groups: a row for each, of the type that is declared.

use zvf_metadata::arrays::Rows;

use crate::array::check_orphan_folders;
use crate::finding::Finding;
use crate::level::LevelState;
use crate::rules::consistency::{C2, C23};
use crate::rules::metadata::{M19, M20};
use crate::rules::structure::S17;
use crate::stop::Stop;
use crate::validation::Validation;
use zvf_format::Class;
use zvf_metadata::validate_attribute_name;

/// Checks C23, C2, M19: every array below `group`, for `rows` rows.
pub(crate) async fn check(
    run: &mut Validation,
    level: &LevelState,
    group: &str,
    rows: Option<u64>,
) -> Result<(), Stop> {
    for name in run.names(&C23, &level.path(group)).await? {
        let path = level.path(&format!("{group}/{name}"));
        if let Some(error) = validate_attribute_name(&name) {
            run.add(Finding::from_metadata(&M19, &path, &error));
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
) -> Result<(), Stop> {
    let array = match level.node.dense(name).await {
        Ok(Some(array)) => array,
        Ok(None) => return check_orphan_folders(run, path).await,
        Err(error) => {
            let rule = if error.class() == Class::Unsupported { &S17 } else { &M20 };
            return run.add_store_error(rule, path, &error);
        }
    };
    match Rows::parse(array.attributes().clone())
        .and_then(|doc| doc.dtype.is_some().then(|| doc.dtype()).transpose())
    {
        Ok(Some(stated))
            if stated.kind != array.dtype().kind || stated.size != array.dtype().size =>
        {
            run.add(Finding::new(&C23, path).with_details("dtype", stated, array.dtype()));
        }
        Ok(_) => {}
        Err(error) => run.add(Finding::from_metadata(&M20, path, &error)),
    }
    if let Some(rows) = rows.filter(|rows| *rows > array.len()) {
        run.add(Finding::new(&C23, path).with_details(
            "rows",
            format!("at least {rows}"),
            array.len(),
        ));
    }
    if let Err(error) = array.present_mask().await {
        run.add_store_error(&C2, path, &error)?;
    }
    let mut at = 0_u64;
    while at < array.len() {
        run.step(path, at, array.len())?;
        let end = at.saturating_add(BATCH_ROWS).min(array.len()); // at most the rows
        if let Err(error) = array.rows(at..end).await {
            return run.add_store_error(&C2, path, &error);
        }
        at = end;
    }
    Ok(())
}

/// Rows that are read at once: the chunk that writers make.
const BATCH_ROWS: u64 = 1 << 16;
