//! Object servers on loopback: how each is installed, started and addressed.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use archives::http::request;
use archives::peers::Process;

use crate::peers;

/// A running server, with a place for stores.
pub(crate) struct Service {
    base: String,
    /// The options of a client, by their user-visible names.
    pub(crate) options: Vec<(String, String)>,
    /// The folder of the files, if the server serves one.
    pub(crate) root: Option<PathBuf>,
    /// Whether clients can list objects.
    pub(crate) lists: bool,
    _server: Process,
}

impl Service {
    /// Returns a server that lists what it has.
    fn new(base: &str, options: Vec<(String, String)>, server: Process) -> Self {
        Self { base: base.to_owned(), options, root: None, lists: true, _server: server }
    }

    /// Returns the address of `prefix`.
    pub(crate) fn address(&self, prefix: &str) -> String {
        format!("{}/{prefix}", self.base)
    }
}

/// The folder of a server, and whether a missing one may be built.
#[derive(Clone, Copy)]
pub(crate) struct ServerFolder<'a> {
    pub(crate) scratch: &'a Path,
    pub(crate) build: bool,
}

type Start = fn(ServerFolder<'_>) -> anyhow::Result<Service>;

/// Every server, by its name in reports.
pub(crate) const ALL: [(&str, Start); 5] = [
    ("http", start_http),
    ("s3", start_s3),
    ("gcs", start_gcs),
    ("azure", start_azure),
    ("garage", start_garage),
];

/// Starts a server of plain files with ranges.
fn start_http(ServerFolder { scratch, .. }: ServerFolder<'_>) -> anyhow::Result<Service> {
    let port = peers::find_free_port()?;
    let root = scratch.join("files");
    fs::create_dir(&root)?;
    let at = |name: &str| scratch.join(name).display().to_string();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {};\n", at(kind)))
        .concat();
    let config = format!(
        "daemon off;\nmaster_process off;\npid {};\nerror_log {};\nevents {{}}\nhttp {{\n\
         access_log {};\n{temporary}server {{ listen 127.0.0.1:{port}; root {}; }}\n}}\n",
        at("pid"),
        at("error.log"),
        at("access.log"),
        root.display()
    );
    fs::write(scratch.join("nginx.conf"), config)?;
    let program = peers::find_debian_program("nginx", "usr/sbin/nginx")?;
    let words = ["-c", &at("nginx.conf"), "-p", &at("")];
    let server = peers::start_server(program, port, words)?;
    let service = Service::new(&format!("http://127.0.0.1:{port}"), Vec::new(), server);
    Ok(Service { root: Some(root), lists: false, ..service })
}

/// Starts moto, the most common emulator of S3.
fn start_s3(_place: ServerFolder<'_>) -> anyhow::Result<Service> {
    let python = peers::install_python("moto", &["moto[server]"])?;
    let port = peers::find_free_port()?;
    let program = python.with_file_name("moto_server");
    let server = peers::start_server(program, port, ["-H", "127.0.0.1", "-p", &port.to_string()])?;
    make_bucket(port)?;
    Ok(Service::new("s3://zvf", s3_options(port, "us-east-1", "key", "secret"), server))
}

/// Creates a bucket without credentials.
fn make_bucket(port: u16) -> anyhow::Result<()> {
    let reply = request((Ipv4Addr::LOCALHOST, port).into(), "PUT", "zvf")?;
    let reply = String::from_utf8_lossy(&reply);
    let status = reply.lines().next().unwrap_or_default();
    ensure!(status.contains(" 200 "), "no bucket: {status}");
    Ok(())
}

fn s3_options(port: u16, region: &str, key: &str, secret: &str) -> Vec<(String, String)> {
    to_owned_pairs([
        ("aws_endpoint", &*format!("http://127.0.0.1:{port}")),
        ("aws_allow_http", "true"),
        ("aws_access_key_id", key),
        ("aws_secret_access_key", secret),
        ("aws_region", region),
    ])
}

/// Starts an emulator of Google Cloud Storage from this workspace, since the packaged ones
/// implement another of its interfaces.
fn start_gcs(ServerFolder { scratch, .. }: ServerFolder<'_>) -> anyhow::Result<Service> {
    let port = peers::find_free_port()?;
    let script = peers::script_path("cloud_double.py").display().to_string();
    let server = peers::start_server("python3", port, [script, port.to_string()])?;
    let account = scratch.join("account.json");
    let account_json = serde_json::json!({
        "gcs_base_url": format!("http://127.0.0.1:{port}"),
        "disable_oauth": true,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    });
    fs::write(&account, account_json.to_string())?;
    let account = account.display().to_string();
    let options =
        to_owned_pairs([("google_service_account", account.as_str()), ("allow_http", "true")]);
    Ok(Service::new("gs://zvf", options, server))
}

/// Starts the vendor's emulator of Azure Blob Storage.
fn start_azure(ServerFolder { scratch, .. }: ServerFolder<'_>) -> anyhow::Result<Service> {
    let commands = peers::install_node_package("azurite")?;
    let location = scratch.display().to_string();
    let number = peers::find_free_port()?;
    let port = number.to_string();
    let words =
        ["--silent", "--skipApiVersionCheck", "--disableTelemetry", "--blobHost", "127.0.0.1"];
    let words = words.into_iter().chain(["--blobPort", &port, "--location", &location]);
    let server = peers::start_server(commands.join("azurite-blob"), number, words)?;
    let script = peers::script_path("azure_container.py");
    let words = [&port, AZURE_ACCOUNT, AZURE_KEY, "zvf"];
    peers::run_command(Command::new("python3").arg(script).args(words))?;
    let options = to_owned_pairs([
        ("azure_storage_endpoint", &*format!("http://127.0.0.1:{port}/{AZURE_ACCOUNT}")),
        ("azure_storage_account_name", AZURE_ACCOUNT),
        ("azure_storage_account_key", AZURE_KEY),
        ("azure_allow_http", "true"),
    ]);
    Ok(Service::new("az://zvf", options, server))
}

/// Starts a production server with the interface of S3.
fn start_garage(ServerFolder { scratch, build }: ServerFolder<'_>) -> anyhow::Result<Service> {
    let program = match peers::find_on_path("garage") {
        Some(program) => program,
        None => {
            let package = ["garage", "2.5.0", "bundled-libs,sqlite", "garage"];
            peers::build_with_cargo(package, build)?
        }
    };
    let (port, inner, admin) =
        (peers::find_free_port()?, peers::find_free_port()?, peers::find_free_port()?);
    let at = |name: &str| scratch.join(name).display().to_string();
    let config = format!(
        "metadata_dir = \"{}\"\ndata_dir = \"{}\"\ndb_engine = \"sqlite\"\nreplication_factor = 1\n\
         rpc_bind_addr = \"127.0.0.1:{inner}\"\nrpc_public_addr = \"127.0.0.1:{inner}\"\n\
         rpc_secret = \"{}\"\n[s3_api]\ns3_region = \"garage\"\napi_bind_addr = \"127.0.0.1:{port}\"\n\
         [admin]\napi_bind_addr = \"127.0.0.1:{admin}\"\n",
        at("meta"),
        at("data"),
        "5a".repeat(32)
    );
    let file = at("garage.toml");
    fs::write(&file, config)?;
    let server = peers::start_server(&program, port, ["-c", &file, "server"])?;
    let command =
        |words: &[&str]| peers::run_command(Command::new(&program).args(["-c", &file]).args(words));
    let node = command(&["node", "id", "-q"])?;
    let node = node.trim().split('@').next().context("a node without an id")?.to_owned();
    command(&["layout", "assign", "-z", "here", "-c", "1G", &node])?;
    command(&["layout", "apply", "--version", "1"])?;
    let (key, secret) = (format!("GK{}", "1f".repeat(12)), "2e".repeat(32));
    command(&["key", "import", "--yes", "-n", "zvf", &key, &secret])?;
    command(&["bucket", "create", "zvf"])?;
    command(&["bucket", "allow", "--read", "--write", "--owner", "zvf", "--key", &key])?;
    Ok(Service::new("s3://zvf", s3_options(port, "garage", &key, &secret), server))
}

fn to_owned_pairs<const N: usize>(options: [(&str, &str); N]) -> Vec<(String, String)> {
    options.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

// The well-known account of the emulator; it is public.
const AZURE_ACCOUNT: &str = "devstoreaccount1";
const AZURE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
