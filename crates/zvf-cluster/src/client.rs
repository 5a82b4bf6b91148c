//! The client: a session whose statements run on a cluster.

use std::sync::Arc;

use ballista::prelude::{SessionConfigExt as _, SessionContextExt as _};
use datafusion::error::Result;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::codec::{LogicalCodec, PhysicalCodec};
use crate::statement::StatementPlanner;

/// Returns a session whose statements run on the cluster with the scheduler at `url`: `HOST:PORT`, optionally with a scheme.
/// Tables are those of the session. The session connects with the first statement.
///
/// # Errors
///
/// When `url` is invalid.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let context = zvf_cluster::connect("127.0.0.1:50050").await?;
/// zvf_datafusion::register(&context, zvf_datafusion::OpenOptions::default());
/// assert!(zvf_cluster::connect("http://").await.is_err());
/// # Ok(())
/// # }
/// ```
pub async fn connect(url: &str) -> Result<SessionContext> {
    let with_scheme = if url.contains("://") { url.to_owned() } else { format!("df://{url}") };
    let context = SessionContext::remote_with_state(&with_scheme, state(config())?).await?;
    let ballista = Arc::clone(context.state().query_planner());
    let planner = StatementPlanner { ballista, scheduler: url.to_owned() };
    let id = context.session_id();
    let builder = context.into_state_builder().with_session_id(id);
    Ok(SessionContext::from(builder.with_query_planner(Arc::new(planner)).build()))
}

/// Returns the configuration that all processes of a cluster share.
pub(crate) fn config() -> SessionConfig {
    SessionConfig::new_with_ballista()
        .with_ballista_logical_extension_codec(Arc::new(LogicalCodec::default()))
        .with_ballista_physical_extension_codec(Arc::new(PhysicalCodec::default()))
        // A machine that vanishes closes no connection.
        .set_str("ballista.client.grpc_http2_keepalive_interval_seconds", "5")
        .set_str("ballista.client.io_retry_wait_time_ms", "300")
}

/// Returns a session state with the functions of zvf.
pub(crate) fn state(config: SessionConfig) -> Result<SessionState> {
    let state = SessionStateBuilder::new().with_config(config).with_default_features().build();
    let context = SessionContext::new_with_state(state);
    zvf_datafusion::register(&context, zvf_datafusion::OpenOptions::default());
    Ok(context.state())
}
