//! A plan applied behind a backend: each object replaced only if it is the version that was compared.

use object_store::path::Path;
use object_store::{
    Error, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, UpdateVersion,
};
use zvf_format::metadata::Node;

use crate::error::RepairError;
use crate::plan::{Change, Plan};

/// Applies `plan` to the store below `prefix`. The old objects are kept below `kept`, which must lie
/// outside the store.
///
/// # Errors
///
/// [`RepairError::Changed`] when an object is not what the plan was made from;
/// [`RepairError::NoConditionalPut`] when the backend does not replace conditionally, before anything is
/// replaced; [`RepairError::Backend`] when it fails.
pub async fn apply_remote(
    store: &dyn ObjectStore,
    prefix: &Path,
    kept: &Path,
    plan: &Plan,
) -> Result<(), RepairError> {
    for change in &plan.changes {
        let place = below(prefix, &change.path);
        let mode = match &change.before {
            None => PutMode::Create,
            Some(before) => PutMode::Update(version(store, &place, kept, change, before).await?),
        };
        let options = PutOptions { mode, ..PutOptions::default() };
        let put = store.put_opts(&place, PutPayload::from(change.after.clone()), options).await;
        put.map_err(|source| refused(change, source))?;
    }
    Ok(())
}

/// The version of the object, once it was compared and kept.
async fn version(
    store: &dyn ObjectStore,
    place: &Path,
    kept: &Path,
    change: &Change,
    before: &Node,
) -> Result<UpdateVersion, RepairError> {
    let got = store.get(place).await.map_err(|source| refused(change, source))?;
    let version =
        UpdateVersion { e_tag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
    let bytes = got.bytes().await.map_err(|source| refused(change, source))?;
    if Node::parse(&bytes).as_ref() != Ok(before) {
        return Err(RepairError::Changed { path: change.path.clone() });
    }
    if version.e_tag.is_none() && version.version.is_none() {
        return Err(RepairError::NoConditionalPut { path: change.path.clone() });
    }
    let copy = store.put(&below(kept, &change.path), bytes.into()).await;
    copy.map_err(|source| refused(change, source))?;
    Ok(version)
}

fn below(prefix: &Path, path: &str) -> Path {
    path.split('/').fold(prefix.clone(), |place, part| place.join(part))
}

fn refused(change: &Change, source: Error) -> RepairError {
    let path = change.path.clone();
    let changed = matches!(
        source,
        Error::Precondition { .. } | Error::AlreadyExists { .. } | Error::NotFound { .. }
    );
    if changed {
        RepairError::Changed { path }
    } else if matches!(source, Error::NotImplemented { .. } | Error::NotSupported { .. }) {
        RepairError::NoConditionalPut { path }
    } else {
        RepairError::Backend { path, source }
    }
}
