//! HTTP clients that the handles of a process share.
//!
//! Creating a client loads the system's certificates, and its connection pool is empty: both take
//! longer than a small read. So handles with the same connection settings share one client, and
//! reuse its open connections. The settings are the same if they agree in all of this:
//!
//! ```text
//! options        of the connection: timeouts, proxies, headers, certificates, versions of HTTP
//! environment    what a client looks up when it is made: proxies, and where certificates are
//! runtime        the one of tokio in which its connections run
//! ```
//!
//! The runtime matters because a connection is a task of the runtime in which it was opened. When
//! that runtime ends, so does the connection; and while nobody waits in a single-threaded runtime,
//! its connections make no progress although they look open. So a client is used in one runtime
//! only, and a handle that is used in another runtime gets another client. A blocking API that
//! creates a runtime per handle shares nothing.
//!
//! Credentials are sent with each request; a client keeps none.
//!
//! Not here: which responses are refusals ([`super::refusal`]).

use std::ffi::OsString;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use tokio::runtime::{Handle, Id};

use super::refusal::Refusal;
use crate::clock::Instant;
use crate::sync::lock;

/// Connects as `object_store` does, with clients that other handles may share.
#[derive(Debug, Default)]
pub(in crate::source) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client_key = ClientKey::new(options);
        let client = get_client(options, &client_key)?;
        let current = Mutex::new((client_key.runtime, client));
        Ok(HttpClient::new(SharedClient { options: options.clone(), current }))
    }
}

/// The settings in which two connections must agree to share a client.
#[derive(Clone, PartialEq)]
struct ClientKey {
    options: String,
    environment: Vec<Option<OsString>>,
    runtime: Option<Id>,
}

impl ClientKey {
    fn new(options: &ClientOptions) -> Self {
        Self {
            // Derived, so that no field is missing. Settings that it does not show cannot be set
            // through storage options: certificates, sensitive headers and name resolvers.
            options: format!("{options:?}"),
            environment: ENVIRONMENT.iter().map(std::env::var_os).collect(),
            runtime: current_runtime(),
        }
    }
}

fn current_runtime() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

/// The client of one handle: always that of the current runtime.
struct SharedClient {
    options: ClientOptions,
    current: Mutex<(Option<Id>, HttpClient)>,
}

impl SharedClient {
    fn client(&self) -> object_store::Result<HttpClient> {
        let runtime = current_runtime();
        {
            let current = lock(&self.current);
            if current.0 == runtime {
                return Ok(current.1.clone());
            }
        }
        let client = get_client(&self.options, &ClientKey::new(&self.options))?;
        *lock(&self.current) = (runtime, client.clone());
        Ok(client)
    }
}

// Options may contain the password of a proxy.
impl fmt::Debug for SharedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedClient").finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl HttpService for SharedClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let client =
            self.client().map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let response = client.execute(request).await?;
        match Refusal::from_response(response.status().as_u16(), response.headers()) {
            Some(refusal) => Err(HttpError::new(HttpErrorKind::Unknown, refusal)),
            None => Ok(response),
        }
    }
}

/// A client of the pool, with its creation time.
struct PooledClient {
    client_key: ClientKey,
    client: HttpClient,
    made: Instant,
}

/// The pool of clients, in the order of their last use.
struct Clients(Vec<PooledClient>);

static CLIENTS: Mutex<Clients> = Mutex::new(Clients(Vec::new()));

fn get_client(options: &ClientOptions, client_key: &ClientKey) -> object_store::Result<HttpClient> {
    let clients = || lock(&CLIENTS);
    if let Some(client) = clients().find(client_key, Instant::now()) {
        return Ok(client);
    }
    // Without holding the lock, so that others need not wait for certificates.
    let client = ReqwestConnector::default().connect(options)?;
    Ok(clients().keep(client_key, client, Instant::now()))
}

impl Clients {
    fn find(&mut self, client_key: &ClientKey, now: Instant) -> Option<HttpClient> {
        self.0.retain(|pooled| now.duration_since(pooled.made) < MAX_AGE);
        let at = self.0.iter().position(|pooled| pooled.client_key == *client_key)?;
        let pooled = self.0.remove(at);
        let client = pooled.client.clone();
        self.0.push(pooled);
        Some(client)
    }

    /// Adds `client` to the pool, unless another one was added meanwhile: then returns that one.
    fn keep(&mut self, client_key: &ClientKey, client: HttpClient, now: Instant) -> HttpClient {
        if let Some(pooled) = self.find(client_key, now) {
            return pooled;
        }
        if self.0.len() >= MAX_CLIENTS {
            self.0.remove(0);
        }
        self.0.push(PooledClient {
            client_key: client_key.clone(),
            client: client.clone(),
            made: now,
        });
        client
    }
}

/// Limit of the pool; handles keep their clients as long as they live.
const MAX_CLIENTS: usize = 16;
/// Maximum age of a client for new handles, because certificates and proxies of the system change
/// now and then.
const MAX_AGE: Duration = Duration::from_secs(600);
/// Environment variables that a client reads when it is created.
const ENVIRONMENT: [&str; 11] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "REQUEST_METHOD", // of a CGI program, which must not believe HTTP_PROXY
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

#[cfg(all(test, feature = "http"))]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::runtime::{Builder, Runtime};

    use super::*;
    use crate::budget::Budget;
    use crate::key::Key;
    use crate::options::{OpenOptions, Timeouts};
    use crate::source::{Get, Origin};

    /// Returns a server that keeps connections open, and counts them.
    fn server() -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/store", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || answer(&stream.unwrap()));
            }
        });
        (address, connections)
    }

    fn answer(mut stream: &TcpStream) {
        let mut lines = BufReader::new(stream).lines();
        while let Some(Ok(line)) = lines.next() {
            if line.is_empty() {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
            }
        }
    }

    fn open(address: &str, options: &OpenOptions) -> Origin {
        Origin::open(address, &Budget::new(options), options).unwrap()
    }

    async fn read(source: &Origin) {
        let get = Get::object(Key::root().child("a").unwrap());
        let got = source.read_many(&[get]).await.pop().unwrap().unwrap().unwrap();
        assert_eq!(got.bytes, "ok");
        // Until the connection is back in its pool.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn handles_share_connections_unless_their_options_differ() {
        let (address, connections) = server();
        let usual = OpenOptions::default();
        let patient = OpenOptions { timeouts: Timeouts::BATCH, ..usual.clone() };
        let hasty = usual.clone().with_storage_option("connect_timeout", "3s");
        let named = usual.clone().with_storage_option("user_agent", "somebody");
        let rerouted = named.clone().with_storage_option("proxy_excludes", "127.0.0.1");
        let table = [
            (&usual, 1),
            (&usual, 1),
            (&patient, 1), // which differs in nothing that a client knows
            (&hasty, 2),
            (&named, 3),
            (&rerouted, 4),
            (&named, 4),
            (&usual, 4),
        ];
        runtime().block_on(async {
            for (row, (options, expected)) in table.into_iter().enumerate() {
                read(&open(&address, options)).await;
                assert_eq!(connections.load(Ordering::SeqCst), expected, "row {row}");
            }
            let (first, second) = (open(&address, &usual), open(&address, &usual));
            read(&first).await;
            read(&second).await;
            read(&first).await;
        });
        assert_eq!(connections.load(Ordering::SeqCst), 4);
    }

    #[test]
    fn runtimes_that_end_or_rest_disturb_nobody() {
        let (address, connections) = server();
        let options = OpenOptions::default();
        let first = runtime();
        let source = first.block_on(async {
            let source = open(&address, &options);
            read(&source).await;
            source
        });
        // The first runtime is idle: its connection is open, but nothing drives it.
        let second = runtime();
        second.block_on(read(&source));
        second.block_on(async { read(&open(&address, &options)).await });
        assert_eq!(connections.load(Ordering::SeqCst), 2);
        drop(first);
        drop(second);
        let third = runtime();
        third.block_on(read(&source));
        third.block_on(async { read(&open(&address, &options)).await });
        assert_eq!(connections.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn handles_opened_outside_of_runtimes_are_read_inside() {
        let (address, connections) = server();
        let source = open(&address, &OpenOptions::default());
        let runtime = runtime();
        runtime.block_on(read(&source));
        runtime.block_on(read(&source));
        assert_eq!(connections.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn few_clients_are_kept_and_none_for_long() {
        let client_key =
            |n: usize| ClientKey { options: n.to_string(), environment: Vec::new(), runtime: None };
        crate::source::cloud::choose_tls_provider();
        let client = ReqwestConnector::default().connect(&ClientOptions::new()).unwrap();
        let (mut clients, now) = (Clients(Vec::new()), Instant::now());
        for n in 0..MAX_CLIENTS {
            clients.keep(&client_key(n), client.clone(), now);
        }
        assert!(clients.find(&client_key(0), now).is_some()); // and was used last, then
        clients.keep(&client_key(MAX_CLIENTS), client.clone(), now);
        let found_clients = |clients: &mut Clients, now| -> Vec<usize> {
            (0..=MAX_CLIENTS).filter(|n| clients.find(&client_key(*n), now).is_some()).collect()
        };
        let expected: Vec<usize> = (0..=MAX_CLIENTS).filter(|n| *n != 1).collect();
        assert_eq!(found_clients(&mut clients, now), expected);
        clients.0.truncate(2);
        let later = now + MAX_AGE / 2;
        clients.keep(&client_key(1), client, later);
        assert_eq!(found_clients(&mut clients, later), [0, 1, 2]);
        assert_eq!(found_clients(&mut clients, now + MAX_AGE), [1]);
    }
}
