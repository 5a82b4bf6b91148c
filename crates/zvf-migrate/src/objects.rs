//! Object indexes: any layout becomes manifests by row, with a column of ids.

use zvf_error::{Locate as _, Result};
use zvf_format::num::to_u64;
use zvf_metadata::arrays::{ArrayAttributes as _, IndexAttrs};
use zvf_metadata::{Dtype, GroupDoc};
use zvf_store::{DensePlan, RowPlan};

use crate::cells::Target;
use crate::rows::batches;

/// Writes the object index of a level. To old readers an empty row means an object without
/// fragments, to new ones it is an error: it becomes an empty manifest.
pub(crate) async fn write(target: &mut Target<'_>) -> Result<()> {
    let Some(index) = target.reader.objects().await? else { return Ok(()) };
    let build = target.build;
    let mut manifests = build.rows(&target.path("object_index/manifests"), RowPlan::manifests())?;
    let mut column =
        build.dense(&target.path("object_index/object_ids"), DensePlan::new(Dtype::INT64))?;
    let mut present = 0_u64;
    let (mut last, mut sorted) = (None, true);
    for range in batches(index.slots(), BATCH) {
        let rows: Vec<u64> = range.clone().collect();
        for manifest in index.manifests(&rows).await? {
            present += u64::from(!manifest.is_absent());
            manifests.push(manifest.blob())?;
        }
        for id in index.ids(range).await? {
            sorted &= last.is_none_or(|last| last < id.0);
            last = Some(id.0);
            column.push(&id.0.to_le_bytes())?;
        }
    }
    manifests.finish(|_| ()).await?;
    column.finish(|_| ()).await?;
    // Without a document there are no further members to keep.
    let group = target.reader.node().group("object_index").await?.unwrap_or_default();
    let old = IndexAttrs::parse(group.attributes).at_key(index.path())?;
    let rank = to_u64(target.reader.key_rank());
    let attributes =
        IndexAttrs { extras: old.extras, ..IndexAttrs::new(index.slots(), present, rank, sorted) };
    build.group(&target.path("object_index"), &GroupDoc::new(attributes.to_attributes())).await?;
    target.progress.done.objects += index.slots();
    Ok(())
}

/// The number of rows that are read at once.
const BATCH: u64 = 16_384;
