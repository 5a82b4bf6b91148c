//! Editing a packed store: it is unpacked next to itself, edited there, and packed into a new file that replaces the
//! old one in one step, unless that changed since. It has no history.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use zvf::Timeouts;
use zvf::publish::{Disk, ScratchDir};
use zvf::store::{Build, BuildOptions};
use zvf::tensor::{AtomicTensorFile, PackOptions};

use crate::commands::is_remote_url;
use crate::outcome::refuse;
use crate::session::Session;

/// A packed store and the folder in which it is edited, which is removed on drop.
#[derive(Debug)]
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
        let build = Build::begin(&packed.folder(), options).await;
        let unpacked = zvf::tensor::unpack(&store, build.with_context(failed)?, |_done| ());
        session.during("unpacking", unpacked).await.with_context(failed)?;
        session.check_maps()?;
        Ok(Some(packed))
    }

    /// Returns the folder in which the store is edited.
    pub(crate) fn folder(&self) -> String {
        self.scratch.path().join("store.zarrvectors").to_string_lossy().into_owned()
    }

    /// Replaces the file by the edited store.
    pub(crate) async fn pack(mut self, session: &Session) -> anyhow::Result<()> {
        let file = self.file.clone();
        let failed = || format!("cannot write {}", file.display());
        let store = session.batch_store(&self.folder()).await?;
        let progress = session.progress("packing");
        let buffered = BufWriter::with_capacity(BUFFER, self.new.file());
        let packed = zvf::tensor::pack(&store, buffered, &PackOptions::default(), |_done| ()).await;
        let (mut buffered, _) = packed.with_context(failed)?;
        buffered.flush()?;
        drop(buffered);
        drop(progress);
        self.new.publish().with_context(failed)
    }
}

/// The size of the write buffer in bytes.
const BUFFER: usize = 1 << 20;
