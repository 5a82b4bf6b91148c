//! A store that becomes the first version of a new repository: created in a folder first, or
//! copied.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use zvf::format::Class;
use zvf::store::{CommitNote, Versions};
use zvf::{Error, Store, Timeouts};

use crate::session::Session;

/// A repository that does not exist yet.
#[derive(Debug)]
pub(crate) struct NewRepository {
    address: String,
    versions: Arc<dyn Versions>,
    folder: tempfile::TempDir,
}

impl NewRepository {
    /// Prepares the repository that `address` names; returns `None` for other addresses. An existing repository is
    /// refused.
    pub(crate) async fn begin(
        address: &str,
        scratch: Option<PathBuf>,
        session: &Session,
    ) -> anyhow::Result<Option<Self>> {
        let versions = Store::versions(address, &session.options(Timeouts::BATCH));
        let Some(versions) = versions? else { return Ok(None) };
        match versions.latest_version().await {
            Err(error) if error.class() == Class::NotFound => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                let text = format!(
                    "the repository {address} already exists; change its store with \"zvf edit\", \
                     or give another address: --overwrite does not replace repositories"
                );
                let error = Error::custom(Class::AlreadyExists, text);
                return Err(error.into());
            }
        }
        let place = scratch.unwrap_or_else(std::env::temp_dir);
        let folder = tempfile::Builder::new().prefix(".zvf-new-").tempdir_in(place)?;
        Ok(Some(Self { address: address.to_owned(), versions, folder }))
    }

    /// Returns the folder where the store is created.
    pub(crate) fn store(&self) -> String {
        self.folder.path().join("store.zarrvectors").to_string_lossy().into_owned()
    }

    /// Creates the repository from the created store.
    pub(crate) async fn publish(self, session: &Session) -> anyhow::Result<()> {
        let store = session.batch_store(&self.store()).await?;
        self.publish_store(&store, "created with zvf", session).await
    }

    /// Creates the repository from `store`.
    pub(crate) async fn publish_store(
        self,
        store: &Store,
        message: &str,
        session: &Session,
    ) -> anyhow::Result<()> {
        let progress = session.progress("committing");
        let note = CommitNote { message: message.to_owned(), ..CommitNote::default() };
        let objects = store.nodes().stream_objects().await?;
        let made = self.versions.create(objects, note).await;
        drop(progress);
        made.with_context(|| format!("cannot create {}", self.address)).map(drop)
    }
}
