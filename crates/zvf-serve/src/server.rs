//! A server from its first connection to its last.
//!
//! It runs on its own runtime: reading local files blocks, and a program that embeds a server should not need to know
//! that. Each connection is a task; stopping lets requests in progress end within a timeout, then drops them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use zvf::OpenOptions;

use crate::access::Access;
use crate::answer::{hold_while_sent, raw_answer};
use crate::connection::{ConnectionTable, CountedConnection, InProgress};
use crate::data::Bytestore;
use crate::files::LocalRoot;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::precomputed::view_address;
use crate::refusal::Refusal;
use crate::service::answer_request;
use crate::state::{AccessLog, AppState};
use crate::stores::{ServedStore, list_stores, name_stores};
use crate::stream::TimedStream;

/// The configuration of a server.
///
/// ```
/// # fn main() -> Result<(), zvf_serve::ServeError> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// use zvf_serve::{Config, Server};
///
/// let server = Server::start(Config::new([path], "127.0.0.1:0".parse().unwrap()))?;
/// assert_eq!(server.store_names(), ["three"]);
/// assert!(server.address().port() > 0);
/// server.stop();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Config {
    /// The stores: paths and URLs. A folder that is not a store stands for the stores in it.
    pub addresses: Vec<String>,
    /// The address to listen on; port 0 chooses a free one.
    pub bind: SocketAddr,
    /// How stores are opened.
    pub options: OpenOptions,
    /// The limits.
    pub limits: Limits,
    /// The access control.
    pub access: Access,
    /// Whether a server on other addresses than loopback may have no token.
    pub is_public: bool,
    /// The receiver of access records.
    pub log: Option<AccessLog>,
    /// Whether stores are also served in Neuroglancer's precomputed formats.
    pub has_precomputed: bool,
    /// The folder of a Neuroglancer client, served with them.
    pub neuroglancer: Option<PathBuf>,
}

impl Config {
    /// Creates a configuration for the stores at `addresses` on `bind`, with the default limits and without a token.
    pub fn new(addresses: impl IntoIterator<Item = impl Into<String>>, bind: SocketAddr) -> Self {
        Self {
            addresses: addresses.into_iter().map(Into::into).collect(),
            bind,
            options: OpenOptions::default(),
            limits: Limits::default(),
            access: Access::default(),
            is_public: false,
            log: None,
            has_precomputed: false,
            neuroglancer: None,
        }
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// It would be accessible to other machines, which was not requested.
    #[error(
        "{0} is reachable from other machines, and no token is set; give one, or make the server \
         public"
    )]
    Open(SocketAddr),
    /// There is no store.
    #[error("no store is given; name at least one")]
    NoStore,
    /// A store cannot be opened.
    #[error("cannot open {address}")]
    Store {
        /// The store.
        address: String,
        /// Why.
        source: zvf::Error,
    },
    /// The folder of the Neuroglancer client cannot be opened.
    #[error("cannot open {folder}, the folder of the Neuroglancer client")]
    Client {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The address cannot be bound, or threads cannot be started.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// A running server, which stops on drop.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    state: Arc<AppState>,
    views: Vec<Option<String>>, // of the Neuroglancer client, store by store
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Opens the stores, listens, and answers on a separate thread.
    ///
    /// # Errors
    ///
    /// When a store cannot be opened, the address cannot be bound, or the server would be open to others without a
    /// request.
    pub fn start(mut config: Config) -> Result<Self, ServeError> {
        let listed = config.addresses.into_iter().map(|address| {
            list_stores(&address).map_err(|error| ServeError::Store {
                address,
                source: zvf::Error::io("list", error),
            })
        });
        config.addresses = listed.collect::<Result<Vec<_>, _>>()?.concat();
        if config.addresses.is_empty() {
            return Err(ServeError::NoStore);
        }
        if !config.bind.ip().is_loopback() && config.access.token.is_none() && !config.is_public {
            return Err(ServeError::Open(config.bind));
        }
        let listen = |source| ServeError::Listen { address: config.bind, source };
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(WORKERS).enable_all().build().map_err(listen)?;
        let (stores, listener) = runtime.block_on(async {
            let stores = open_stores(&config).await?;
            let listener = TcpListener::bind(config.bind).await.map_err(listen)?;
            Ok::<_, ServeError>((stores, listener))
        })?;
        let address = listener.local_addr().map_err(listen)?;
        let has_client = config.neuroglancer.is_some();
        let client = config.neuroglancer.map(open_client).transpose()?;
        // A link to a page that may not read this server would not work.
        let has_viewer = has_client || config.access.allows_public_client();
        let views = if config.has_precomputed && has_viewer {
            runtime.block_on(find_views(&stores, shown(address), has_client))
        } else {
            Vec::new()
        };
        let state = Arc::new(AppState {
            stores,
            has_precomputed: config.has_precomputed,
            client,
            access: config.access,
            bound: address.ip(),
            metrics: Arc::new(Metrics::default()),
            clients: Arc::default(),
            queries: Arc::new(Semaphore::new(config.limits.max_queries)),
            limits: config.limits,
            log: config.log,
        });
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("zvf-serve".to_owned()).spawn(move || {
            runtime.block_on(accept(listener, shared, stopped));
            runtime.shutdown_background();
        });
        let thread = Some(thread.map_err(|source| ServeError::Listen { address, source })?);
        Ok(Self { address, state, views, stop, thread })
    }

    /// Returns the bound address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address for a browser on this machine, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", shown(self.address))
    }

    /// Returns the names of the stores.
    pub fn store_names(&self) -> Vec<&str> {
        self.state.stores.iter().map(|store| store.name.as_str()).collect()
    }

    /// Returns the document that the command prints with `--json` once the server listens: its address and those of the
    /// stores.
    pub fn describe(&self) -> serde_json::Value {
        let mut stores: Vec<_> =
            self.state.stores.iter().map(|store| crate::api::describe(store)).collect();
        if self.state.has_precomputed {
            for (store, name) in stores.iter_mut().zip(self.store_names()) {
                store["precomputed"] = format!("/precomputed/{name}/").into();
            }
        }
        for (store, view) in stores.iter_mut().zip(&self.views) {
            store["neuroglancer"] = view.clone().into();
        }
        let mut description =
            serde_json::json!({"url": format!("{}/", self.url()), "stores": stores});
        if self.state.stores.len() > 1 {
            description["page"] = crate::api::joint_page_address(&self.state.stores).into();
        }
        description
    }

    /// Stops: new connections are refused, and requests in progress get [`Limits::stop_timeout`].
    pub fn stop(mut self) {
        self.stop_and_join();
    }

    fn stop_and_join(&mut self) {
        // Without a receiver the server has already ended.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by the thread.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_and_join();
    }
}

/// Returns an address that a browser can open: that of all interfaces is none.
fn shown(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

async fn open_stores(config: &Config) -> Result<Vec<Arc<ServedStore>>, ServeError> {
    let names = name_stores(&config.addresses);
    let mut stores = Vec::with_capacity(names.len());
    for (address, name) in config.addresses.iter().zip(names) {
        let opened = ServedStore::open(address, name, &config.options, &config.limits).await;
        let opened =
            opened.map_err(|source| ServeError::Store { address: address.clone(), source })?;
        stores.push(Arc::new(opened));
    }
    Ok(stores)
}

/// Returns the address at which the client shows each store, if possible.
async fn find_views(
    stores: &[Arc<ServedStore>],
    address: SocketAddr,
    has_client: bool,
) -> Vec<Option<String>> {
    let root = format!("http://{address}");
    let mut views = Vec::with_capacity(stores.len());
    for store in stores {
        let source = format!("{root}/precomputed/{}", store.name);
        // A store that cannot be shown returns its error on request.
        let view = match store.precomputed_store().await {
            Ok(served) => served.view_state(&source).await.ok(),
            Err(_refusal) => None,
        };
        views.push(view.map(|view| view_address(&root, has_client, &view)));
    }
    views
}

fn open_client(folder: PathBuf) -> Result<Arc<Bytestore>, ServeError> {
    match LocalRoot::new(&folder) {
        Ok(root) => Ok(Arc::new(Bytestore::Local(root))),
        Err(source) => Err(ServeError::Client { folder, source }),
    }
}

async fn accept(listener: TcpListener, state: Arc<AppState>, mut stopped: watch::Receiver<bool>) {
    let table = Arc::new(ConnectionTable::default());
    let refusals = Arc::new(Semaphore::new(MAX_REFUSALS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => break,
            Some(_ended) = connections.join_next() => {
                state.metrics.set_connections(table.len());
                continue;
            }
        };
        let Ok((stream, peer)) = accepted else {
            // Out of descriptors, or the client disconnected: only waiting helps.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let limits = &state.limits;
        // A proxy has the connections of many clients; one on this machine need not be named.
        let is_proxy = peer.ip().to_canonical().is_loopback() || state.access.is_proxy(peer.ip());
        let most = if is_proxy { usize::MAX } else { limits.max_connections_per_peer };
        match table.admit(peer.ip(), limits.max_connections, most) {
            None => {
                state.metrics.record_refused_connection();
                // Connections that arrive while many are being refused are closed without an answer.
                if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
                    connections.spawn(async move {
                        refuse_connection(stream).await;
                        drop(permit);
                    });
                }
            }
            Some(counted) => {
                state.metrics.set_connections(table.len());
                connections.spawn(serve_connection(
                    stream,
                    peer,
                    counted,
                    Arc::clone(&state),
                    stopped.clone(),
                ));
            }
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    // Tasks that have not ended by then are dropped with the runtime.
    let _ = tokio::time::timeout(state.limits.stop_timeout, ended).await;
}

/// Answers 503 without reading the request.
async fn refuse_connection(mut stream: TcpStream) {
    let answer = raw_answer(&Refusal::service_unavailable("too many connections; try again"));
    let refused = async {
        stream.write_all(&answer).await?;
        stream.shutdown().await?;
        // Unread bytes of a request would turn the answer into a reset.
        let mut piece = [0; 4096];
        while stream.read(&mut piece).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    // The client may be gone, or not read it: both end here.
    let _ = tokio::time::timeout(REFUSAL_TIMEOUT, refused).await;
}

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    _counted: CountedConnection,
    state: Arc<AppState>,
    mut stopped: watch::Receiver<bool>,
) {
    // Small answers are sent without delay.
    let _ = stream.set_nodelay(true);
    let limits = &state.limits;
    let in_progress = InProgress::default();
    let stream = TimedStream::new(stream, limits.clone(), in_progress.clone());
    let service = service_fn(|request| {
        let (state, running) = (Arc::clone(&state), in_progress.begin());
        async move {
            let answer = answer_request(state, peer.ip(), request).await;
            // Until the end of the body: between two pieces of an answer a connection is not idle.
            Ok::<_, std::convert::Infallible>(answer.map(|body| hold_while_sent(body, running)))
        }
    });
    // The stream has the timeouts; a client that closed its sending side still gets its answer.
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .half_close(true)
        .max_headers(limits.max_headers)
        .max_buf_size(
            (limits.max_request_line_bytes + limits.max_header_bytes + HEAD_END_BYTES)
                .max(MIN_HYPER_BUFFER_BYTES),
        )
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // An error of one connection (a disconnected client, a timeout) does not affect others.
    tokio::select! {
        _ended = connection.as_mut() => {}
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// The number of connections beyond the limit that are answered at the same time.
const MAX_REFUSALS: usize = 256;
const REFUSAL_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
/// Threads that drive connections; work on stores has others.
const WORKERS: usize = 2;
/// Line ends and the empty line, beyond what the limits count.
const HEAD_END_BYTES: usize = 16;
/// The minimum of hyper.
const MIN_HYPER_BUFFER_BYTES: usize = 8192;
