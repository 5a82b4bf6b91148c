//! `zvf view`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use zvf::Timeouts;
use zvf::format::num::to_u64;
use zvf_serve::Config;

use crate::commands::serve::serve_until_interrupt;
use crate::outcome::{CommandResult, refuse};
use crate::session::Session;
use crate::table;
use crate::target::check_overwrite;

/// View a store in the browser: fly through it, pick, filter and colour.
///
/// Serves the store on this machine until Ctrl-C and opens the page; a store of any size is read level by level, as the
/// view needs it. The same as `zvf serve --open` for one store.
///
/// With --write-page, the page is written as files for static hosting instead: viewing stores then needs no zvf server.
/// It reads stores over HTTP ranges, from beside it or from any host that lets pages of this origin read (CORS). The store
/// is named after the address of the page: index.html#!{"store":"brain.zarrvectors/"}.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf view brain.zarrvectors
  zvf view s3://bucket/brain.zarrvectors
  zvf view brain.tet --no-open
  zvf view --write-page public
  cp -r brain.zarrvectors public/ && rsync -a public/ host:/var/www/")]
pub(crate) struct View {
    /// The store: a folder, a pack or a URL.
    #[arg(required_unless_present = "write_page")]
    store: Option<String>,
    /// The address to listen on; port 0 chooses a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    bind: SocketAddr,
    /// Print the address and start no browser.
    #[arg(long)]
    no_open: bool,
    /// Write the page to this folder, which is created if it does not exist, and serve nothing.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["store", "bind", "no_open"])]
    write_page: Option<PathBuf>,
    /// Replace files of the same names.
    #[arg(long, requires = "write_page")]
    overwrite: bool,
}

impl View {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        if !self.bind.ip().is_loopback() {
            return refuse(format!(
                "{} is not an address of this machine only; use zvf serve with --auth or --public",
                self.bind
            ));
        }
        if let Some(folder) = &self.write_page {
            return write_page(folder, self.overwrite, session);
        }
        let mut config = Config::new(self.store, self.bind);
        config.options = session.options(Timeouts::INTERACTIVE);
        serve_until_interrupt(config, !self.no_open, session).await
    }
}

/// Writes the page as files for static hosting.
fn write_page(folder: &Path, overwrite: bool, session: &Session) -> CommandResult {
    let context = || format!("cannot write the viewer to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(context)?;
    let files = zvf_serve::static_viewer_files().with_context(context)?;
    for (name, _) in &files {
        check_overwrite(&folder.join(name), overwrite)?;
    }
    let mut bytes = 0;
    for (name, contents) in &files {
        std::fs::write(folder.join(name), contents).with_context(context)?;
        bytes += contents.len();
    }
    let names: Vec<_> = files.iter().map(|(name, _)| name).collect();
    let folder = folder.display().to_string();
    session.print(&json!({"folder": folder, "files": names, "bytes": bytes}), |out| {
        let count = table::format_count(files.len(), "file");
        let bytes = table::bytes(to_u64(bytes));
        writeln!(out, "{count}, {bytes} in {folder}")?;
        writeln!(
            out,
            "put a store next to them and open index.html#!{{\"store\":\"NAME.zarrvectors/\"}}"
        )?;
        Ok(())
    })
}
