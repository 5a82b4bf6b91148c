//! Editing a packed store: it is unpacked next to itself, edited there, and packed into a new file that replaces the
//! old one in one step, unless that changed since. It has no history.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use zvf::Timeouts;
use zvf::publish::{Disk, ScratchDir};
use zvf::store::BuildOptions;
use zvf::tensor::{AtomicTensorFile, PackOptions};

use crate::commands::is_remote_url;
use crate::commands::pack::{write_pack, write_unpacked};
use crate::outcome::refuse;
use crate::session::Session;

/// A packed store and the folder in which it is edited, which is removed on drop.
pub(crate) struct PackedStore {
    file: PathBuf,
    new: AtomicTensorFile,
    scratch: ScratchDir,
}

impl PackedStore {
    /// Unpacks the store, where `address` is a packed file on this machine.
    pub(crate) async fn unpack(address: &str, session: &Session) -> anyhow::Result<Option<Self>> {
        let file = Path::new(address.strip_prefix("file://").unwrap_or(address));
        if file.extension().is_none_or(|extension| extension != "tet") || file.is_dir() {
            return Ok(None);
        }
        if is_remote_url(address) {
            return refuse(
                "packed stores are edited on this machine; copy the file here, and the result back",
            );
        }
        let failed = || format!("cannot unpack {address}");
        // Begun before the file is read: from now on a change of the file is noticed.
        let new = AtomicTensorFile::create_gated(file, true, session.interrupt().gate());
        let new = new.with_context(failed)?;
        let scratch = ScratchDir::create_next_to(&Disk::default(), file).with_context(failed)?;
        let packed = Self { file: file.to_owned(), new, scratch };
        let store = session.batch_store(address).await?;
        let options = BuildOptions {
            sync: false,
            store: session.options(Timeouts::BATCH),
            ..BuildOptions::default()
        };
        let unpacked = write_unpacked(session, &store, &packed.folder(), options).await;
        unpacked.with_context(failed)?;
        session.check_maps()?;
        Ok(Some(packed))
    }

    /// Returns the folder in which the store is edited.
    pub(crate) fn folder(&self) -> String {
        self.scratch.path().join("store.zarrvectors").to_string_lossy().into_owned()
    }

    /// Replaces the file by the edited store.
    pub(crate) async fn pack(mut self, session: &Session) -> anyhow::Result<()> {
        let store = session.batch_store(&self.folder()).await?;
        let target = (&mut self.new, self.file.as_path());
        write_pack(session, &store, target, &PackOptions::default()).await?;
        self.new.publish().with_context(|| format!("cannot write {}", self.file.display()))
    }
}
