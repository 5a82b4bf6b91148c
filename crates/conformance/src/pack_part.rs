//! The part that packs golden stores into one `.tet` file each and compares the same facts: once uncompressed and in
//! memory, once compressed and read by ranges.

use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::Arc;

use archives::Unpacked;
use object_store::memory::InMemory;
use object_store::{ObjectStoreExt as _, PutPayload};
use tokio::runtime::Runtime;
use zvf_store::{OpenOptions, RangedFile, Store};
use zvf_tensor::{Compression, PackOptions, pack};

use crate::corpus::{self, Golden};
use crate::golden_part;
use crate::report::Report;
use crate::tally::Tally;

/// Tests every golden store of `folder`.
pub(crate) fn run(
    folder: &Path,
    only: Option<&str>,
    runtime: &Runtime,
    tally: &mut Tally<impl Write>,
) -> anyhow::Result<()> {
    for golden in corpus::list_goldens(folder, only)? {
        let unpacked = Unpacked::from_files(&corpus::read_archive(&golden.archive)?);
        for far in [false, true] {
            let how = if far { "packed, by ranges" } else { "packed" };
            let mut report = Report::new(format!("{} {how}", golden.id));
            runtime.block_on(check_pack(&mut report, &golden, unpacked.path(), far));
            tally.add(report)?;
        }
    }
    Ok(())
}

async fn check_pack(report: &mut Report, golden: &Golden, path: &Path, far: bool) {
    let store = Store::open(&path.to_string_lossy(), OpenOptions::default()).await;
    let Some(store) = report.ok_or_report("open", store) else { return };
    let level = if far { Compression::Zstd(3) } else { Compression::None };
    let options = PackOptions::default().with_compression(level);
    let packed = pack(&store, Cursor::new(Vec::new()), &options, |_| ()).await;
    let Some((packed, _)) = report.ok_or_report("pack", packed) else { return };
    let opened = open_pack(packed.into_inner(), far).await;
    if let Some(store) = report.ok_or_report("open packed", opened) {
        golden_part::check_facts(report, golden, &store, true).await;
    }
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
