//! The part that compares stores on servers: S3, Azure, Google Cloud Storage, plain HTTP.
//!
//! Each server is installed into its own folder, started on loopback and ended with this program. Every golden store is
//! uploaded, and the facts of the golden part are compared again, through the address that a user would type. Where a
//! server supports writes, several builders build stores concurrently. Then requests are counted.
//!
//! A server that cannot be installed is reported as skipped, with the reason.

mod builds;
mod counts;
mod edits;
mod services;

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use object_store::path::Path as Key;
use object_store::{ObjectStoreExt as _, PutPayload};
use tokio::runtime::Runtime;
use zvf_store::{OpenOptions, Store};

use crate::corpus::{self, Golden};
use crate::golden_part;
use crate::report::Report;
use crate::tally::Tally;
use services::{Place, Service};

/// Tests every available server, or those with `servers` in their names, with every store of `folder`, or those with
/// `stores` in theirs. A server that takes minutes to build is built only where `build` allows it.
pub(crate) fn run(
    folder: &Path,
    servers: Option<&str>,
    stores: Option<&str>,
    build: bool,
    runtime: &Runtime,
    tally: &mut Tally<impl Write>,
) -> anyhow::Result<()> {
    let goldens = corpus::list_goldens(folder, stores)?;
    for (name, start) in services::ALL {
        if servers.is_some_and(|text| !name.contains(text)) {
            continue;
        }
        let scratch = archives::scratch();
        let service = match start(Place { scratch: scratch.path(), build }) {
            Ok(service) => service,
            Err(error) => {
                tally.skip_because(format!("{name} cannot be had here: {error:#}"));
                continue;
            }
        };
        if service.root.is_none() {
            tally.add(builds::check_builds(name, &service, runtime)?)?;
        }
        for golden in &goldens {
            let report = check_upload(name, golden, &service, runtime);
            tally.add(report.with_context(|| format!("{name}, {}", golden.id))?)?;
        }
        if service.lists {
            tally.add(edits::check_edits(name, &service, runtime)?)?;
        } else {
            tally.add(counts::check_request_counts(&service, runtime)?)?;
        }
    }
    Ok(())
}

/// Uploads one golden store to a server and compares its facts.
fn check_upload(
    name: &str,
    golden: &Golden,
    service: &Service,
    runtime: &Runtime,
) -> anyhow::Result<Report> {
    let files = corpus::read_archive(&golden.archive)?;
    let mut report = Report::new(format!("{name}/{}", golden.id));
    runtime.block_on(async {
        upload_files(service, &golden.id, &files).await?;
        let store = Store::open(&service.address(&golden.id), open_options(service)).await;
        if let Some(store) = report.ok_or_report("open", store) {
            golden_part::check_facts(&mut report, golden, &store, service.lists).await;
        }
        Ok(report)
    })
}

/// Uploads files to a server, below a prefix.
async fn upload_files(
    service: &Service,
    prefix: &str,
    files: &[(String, Vec<u8>)],
) -> anyhow::Result<()> {
    if let Some(root) = &service.root {
        for (path, bytes) in files {
            let path = root.join(prefix).join(path);
            std::fs::create_dir_all(path.parent().context("a file without a folder")?)?;
            std::fs::write(path, bytes)?;
        }
        return Ok(());
    }
    let url = service.address(prefix).parse()?;
    let (backend, top) = object_store::parse_url_opts(&url, service.options.clone())?;
    let puts = files.iter().map(|(path, bytes)| {
        let (backend, key) = (&backend, Key::parse(format!("{top}/{path}")));
        async move { Ok(backend.put(&key?, PutPayload::from(bytes.clone())).await.map(drop)?) }
    });
    stream::iter(puts).buffer_unordered(MAX_IN_FLIGHT).try_collect().await
}

fn open_options(service: &Service) -> OpenOptions {
    service.options.iter().fold(OpenOptions::default(), |options, (name, value)| {
        options.with_storage_option(name, value)
    })
}

/// The largest number of concurrent uploads.
const MAX_IN_FLIGHT: usize = 16;
