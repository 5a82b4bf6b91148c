//! The part that packs golden stores into one `.tet` file each and compares the same facts: once
//! uncompressed and in memory, once compressed and read by ranges.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::{ObjectStoreExt as _, PutPayload};
use zvf_store::{OpenOptions, RangedFile, Store};
use zvf_tensor::{Compression, PackOptions, pack};

use crate::corpus;
use crate::golden_part;
use crate::report::Run;

/// Tests every golden store of `folder`.
pub(crate) fn run(folder: &Path, run: &mut Run<'_>) -> anyhow::Result<()> {
    for (far, how) in [(false, "packed/"), (true, "packed, by ranges/")] {
        run.goldens(folder, how, async |report, golden, path| {
            let store = corpus::open(path).await?;
            let level = if far { Compression::Zstd(3) } else { Compression::None };
            let options = PackOptions::default().with_compression(level);
            let (packed, _) = pack(&store, Cursor::new(Vec::new()), &options, |_| ()).await?;
            let store = open_pack(packed.into_inner(), far).await?;
            golden_part::check_facts(report, &golden, &store, true).await;
            Ok(())
        })?;
    }
    Ok(())
}

async fn open_pack(bytes: Vec<u8>, far: bool) -> anyhow::Result<Store> {
    let options = OpenOptions::default();
    if !far {
        return Ok(Store::open_pack(RangedFile::from_bytes(bytes.into()), options).await?);
    }
    let memory = Arc::new(InMemory::new());
    memory.put(&"a/pack.tet".into(), PutPayload::from(bytes)).await?;
    Ok(Store::from_object_store(memory, &"a/pack.tet".into(), options).await?)
}
