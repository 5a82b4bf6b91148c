//! `zvf serve`.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use zvf::Timeouts;
use zvf_serve::{Access, AccessLog, AccessRecord, AccessToken, Config, Limits, Server};

use crate::outcome::{CommandResult, Outcome, Usage, refuse};
use crate::session::Session;

/// Serve stores over HTTP, read only: their files, queries, and a page that lists them.
///
/// The server runs until Ctrl-C. It listens on this machine only, unless --bind names another address, which requires
/// --auth or --public. Put a reverse proxy in front for TLS.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf serve brain.zarrvectors
  zvf serve stores/*.zarrvectors --bind 127.0.0.1:9000 --access-log
  zvf serve brain.zarrvectors --json | jq .url
  zvf serve s3://bucket/brain.zarrvectors --cors https://viewer.example.org
  zvf serve brain.zarrvectors --precomputed --cors https://neuroglancer-demo.appspot.com
  zvf serve brain.zarrvectors --bind 0.0.0.0:8080 --auth token.txt")]
pub(crate) struct Serve {
    /// The stores: folders, packs or URLs.
    #[arg(required = true)]
    stores: Vec<String>,
    /// The address to listen on; port 0 chooses a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080")]
    bind: SocketAddr,
    /// The file with the token that requests must carry as "Authorization: Bearer TOKEN"; ZVF_TOKEN is read without it.
    #[arg(long, value_name = "FILE", conflicts_with = "public", help_heading = "Access")]
    auth: Option<std::path::PathBuf>,
    /// Serve without a token, also to other machines.
    #[arg(long, help_heading = "Access")]
    public: bool,
    /// Allow pages of this origin to read answers (CORS); may be repeated.
    #[arg(long, value_name = "ORIGIN", help_heading = "Access")]
    cors: Vec<String>,
    /// The address of a reverse proxy: limits and the access log take its clients from
    /// X-Forwarded-For; may be repeated.
    #[arg(long, value_name = "ADDR", help_heading = "Access")]
    trusted_proxy: Vec<std::net::IpAddr>,
    /// Also serve the stores in Neuroglancer's precomputed formats, generated on request.
    #[arg(long)]
    precomputed: bool,
    /// The folder of a Neuroglancer client, served with the stores at /v/zvf/: no other origin needs access to this
    /// machine.
    #[arg(long, value_name = "FOLDER", requires = "precomputed")]
    neuroglancer: Option<std::path::PathBuf>,
    /// Print a line of JSON on standard error for each answer.
    #[arg(long)]
    access_log: bool,
    /// Open the page in the browser.
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    limits: Limits,
}

impl Serve {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let config = self.config(session)?;
        serve_until_interrupt(config, self.open, session).await
    }

    fn config(&self, session: &Session) -> anyhow::Result<Config> {
        let mut config = Config::new(self.stores.clone(), self.bind);
        config.options = session.options(Timeouts::INTERACTIVE);
        config.limits = self.limits.clone();
        if let Some(wrong) = self.cors.iter().find(|origin| !is_origin(origin)) {
            let expected = "an origin, as in https://viewer.example.org";
            return refuse(format!("--cors: expected {expected}, found {wrong:?}"));
        }
        config.access = Access {
            token: self.token()?,
            origins: self.cors.clone(),
            proxies: self.trusted_proxy.clone(),
        };
        config.is_public = self.public;
        config.has_precomputed = self.precomputed;
        config.neuroglancer.clone_from(&self.neuroglancer);
        config.log = self.access_log.then(|| AccessLog::new(print_record));
        Ok(config)
    }

    /// Returns the token of the file or of the environment.
    fn token(&self) -> anyhow::Result<Option<AccessToken>> {
        let text = match (&self.auth, std::env::var("ZVF_TOKEN")) {
            (Some(path), _) => std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?,
            (None, Ok(text)) if !self.public => text,
            (None, _) => return Ok(None),
        };
        let token =
            text.parse().map_err(|error: zvf_serve::WeakToken| Usage::new(error.to_string()))?;
        Ok(Some(token))
    }
}

/// Returns whether this is a scheme and a host without a path, as browsers write an origin: no other text can match.
fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_part =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-:[]".contains(&byte);
    host.is_some_and(|host| !host.is_empty() && host.bytes().all(is_part))
}

/// Serves until Ctrl-C; `opens` shows the page in the browser once the server listens.
pub(crate) async fn serve_until_interrupt(
    config: Config,
    opens: bool,
    session: &Session,
) -> CommandResult {
    let has_precomputed = config.has_precomputed;
    let started = tokio::task::spawn_blocking(|| Server::start(config)).await?;
    let server = started.map_err(explain)?;
    // The first signal stops the server gracefully, also while its address is printed; a second
    // one ends it at once.
    let flag = session.ask_first();
    let described = server.describe();
    let root = server.url();
    let stores = described["stores"].as_array().map_or(&[][..], Vec::as_slice);
    // The name of each store, and one of its addresses.
    let list = |key: &'static str| {
        stores.iter().filter_map(move |store| Some((store["name"].as_str()?, store[key].as_str()?)))
    };
    let pages: Vec<String> = list("page").map(|(_, page)| format!("{root}{page}")).collect();
    if session.json() {
        writeln!(session.out(), "{described}")?;
    } else {
        writeln!(session.out(), "{root}/")?;
        for ((name, _), page) in list("page").zip(&pages) {
            writeln!(session.out(), "  {name}  {page}")?;
        }
        if let Some(page) = described["page"].as_str() {
            writeln!(session.out(), "  all of them  {root}{page}")?;
        }
        for (name, view) in list("neuroglancer") {
            writeln!(session.out(), "  {name}  {view}")?;
        }
        let is_closed = has_precomputed && described["stores"][0]["neuroglancer"].is_null();
        session.print_notices(is_closed.then(|| NO_CLIENT.to_owned()))?;
        let is_everywhere = server.address().ip().is_unspecified();
        session.print_notices(is_everywhere.then(|| EVERYWHERE.to_owned()))?;
        session.print_notices(Some("Ctrl-C stops the server".to_owned()))?;
    }
    session.out().flush()?;
    if opens {
        let page = if let [page] = &pages[..] { page.clone() } else { format!("{root}/") };
        if let Err(error) = open_browser(&page) {
            session.print_notices(Some(format!(
                "no browser could be started ({error}): open {page}"
            )))?;
        }
    }
    let interrupt = session.interrupt();
    while !flag.load(std::sync::atomic::Ordering::Relaxed) && !interrupt.is_stopped() {
        tokio::time::sleep(POLL).await;
    }
    tokio::task::spawn_blocking(move || server.stop()).await?;
    Ok(Outcome::Clean)
}

/// Opens an address in the browser of the user; `BROWSER` names another program.
fn open_browser(address: &str) -> std::io::Result<()> {
    let usual = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let program = std::env::var("BROWSER").unwrap_or_else(|_unset| usual.to_owned());
    let mut command = std::process::Command::new(program);
    command.arg(address).stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.spawn().map(drop)
}

/// Explains an error of the server: a server open to others is a usage error; a store that cannot be opened has its own.
#[expect(clippy::wildcard_enum_match_arm, reason = "others are said as they are")]
fn explain(error: zvf_serve::ServeError) -> anyhow::Error {
    match error {
        zvf_serve::ServeError::Open(address) => Usage::new(format!(
            "{address} is reachable from other machines; give --auth FILE, or --public"
        ))
        .into(),
        zvf_serve::ServeError::Store { address, source } => {
            anyhow::Error::from(source).context(format!("cannot open {address}"))
        }
        other => other.into(),
    }
}

fn print_record(record: &AccessRecord) {
    let time =
        record.time.duration_since(std::time::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    let line = json!({
        "time": time, "peer": record.peer.to_string(), "method": record.method, "path": record.path,
        "status": record.status, "bytes": record.bytes, "seconds": record.seconds,
    });
    // A record that standard error does not take has no other place.
    drop(writeln!(std::io::stderr().lock(), "{line}"));
}

const EVERYWHERE: &str = "all addresses of this machine are served: elsewhere, put its name in \
                          the place of the one above";
/// Why no links to Neuroglancer are printed.
const NO_CLIENT: &str = "no page of Neuroglancer may read this server: give --cors https://neuroglancer-demo.appspot.com, or \
     --neuroglancer FOLDER";
/// The interval at which the server checks for a signal.
const POLL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_origins_as_browsers_write_them() {
        for origin in ["https://viewer.example.org", "http://127.0.0.1:9000", "http://[::1]:80"] {
            assert!(is_origin(origin), "{origin}");
        }
        for text in
            ["*", "null", "viewer.example.org", "https://", "https://a/b", "https://A.example"]
        {
            assert!(!is_origin(text), "{text}");
        }
    }
}
