//! The state shared by all requests, and the record of answers.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::Semaphore;

use crate::access::Access;
use crate::connection::ConnectionTable;
use crate::data::Bytestore;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::stores::ServedStore;

/// The state shared by all requests.
#[derive(Debug)]
pub(crate) struct AppState {
    pub(crate) stores: Vec<Arc<ServedStore>>,
    pub(crate) limits: Limits,
    pub(crate) access: Access,
    pub(crate) bound: IpAddr,
    pub(crate) metrics: Arc<Metrics>,
    /// The requests in progress of the clients of proxies.
    pub(crate) clients: Arc<ConnectionTable>,
    pub(crate) queries: Arc<Semaphore>,
    pub(crate) log: Option<AccessLog>,
    /// Whether stores are also served as precomputed objects.
    pub(crate) has_precomputed: bool,
    /// The folder of the Neuroglancer client.
    pub(crate) client: Option<Arc<Bytestore>>,
}

/// The receiver of access records.
#[derive(Clone)]
pub struct AccessLog(pub(crate) Arc<dyn Fn(&AccessRecord) + Send + Sync>);

impl AccessLog {
    /// Calls `record` for every answer.
    pub fn new(record: impl Fn(&AccessRecord) + Send + Sync + 'static) -> Self {
        Self(Arc::new(record))
    }
}

impl std::fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AccessLog(..)")
    }
}

/// One answer, for the access log. Query strings and headers are left out, because they may contain
/// secrets.
#[derive(Clone, Debug)]
pub struct AccessRecord {
    /// The time of the request.
    pub time: SystemTime,
    /// The address of the client.
    pub peer: IpAddr,
    /// The method.
    pub method: String,
    /// The path as sent.
    pub path: String,
    /// The status of the answer.
    pub status: u16,
    /// Bytes of the body that were sent.
    pub bytes: u64,
    /// Seconds until the answer began.
    pub seconds: f64,
}
