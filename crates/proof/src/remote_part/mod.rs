//! The part that compares stores on servers: S3, Azure, Google Cloud Storage, plain HTTP.
//!
//! Each server is installed into its own folder, started on loopback and ended with this program.
//! Every golden store is uploaded, and the facts of the golden part are compared again, through the
//! address that a user would type. If a server supports writes, several builders build stores
//! concurrently. Then requests are counted.
//!
//! A server that cannot be installed is reported as skipped, with the reason.

mod builds;
mod counts;
mod edits;
mod services;

use std::path::Path;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use object_store::path::Path as Key;
use object_store::{ObjectStoreExt as _, PutPayload};
use zvf_store::{OpenOptions, Store};

use crate::corpus;
use crate::golden_part;
use crate::report::Run;
use services::{ServerFolder, Service};

/// Tests every available server, or those with `servers` in their names, with every store of
/// `folder`. A server that takes minutes to build is built only if `build` allows it.
pub(crate) fn run(
    folder: &Path,
    servers: Option<&str>,
    build: bool,
    run: &mut Run<'_>,
) -> anyhow::Result<()> {
    let goldens = corpus::list_goldens(folder, run.only.as_deref())?;
    for (name, start) in services::ALL {
        if servers.is_some_and(|text| !name.contains(text)) {
            continue;
        }
        let scratch = archives::scratch();
        let service = match start(ServerFolder { scratch: scratch.path(), build }) {
            Ok(service) => service,
            Err(error) => {
                run.skip_because(format!("{name} cannot be had here: {error:#}"));
                continue;
            }
        };
        if service.root.is_none() {
            run.case(format!("{name}/builds"), async |report| {
                builds::check_builds(report, &service).await
            })?;
        }
        for golden in &goldens {
            let files = corpus::read_archive(&golden.archive)?;
            run.case(format!("{name}/{}", golden.id), async |report| {
                upload_files(&service, &golden.id, &files).await?;
                let address = service.address(&golden.id);
                let store = Store::open(&address, open_options(&service)).await?;
                golden_part::check_facts(report, golden, &store, service.lists).await;
                Ok(())
            })?;
        }
        if service.lists {
            run.add(edits::check_edits(name, &service, &run.runtime)?)?;
        } else {
            run.case("requests", async |report| {
                counts::check_request_counts(report, &service).await
            })?;
        }
    }
    Ok(())
}

/// Uploads files to a server, below a prefix.
async fn upload_files(
    service: &Service,
    prefix: &str,
    files: &[(String, Vec<u8>)],
) -> anyhow::Result<()> {
    if let Some(root) = &service.root {
        archives::write(&root.join(prefix), files);
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
