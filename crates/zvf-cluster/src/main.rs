//! `zvf-cluster`: the scheduler and the executor of a cluster that answers SQL over stores.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use datafusion::error::Result;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use zvf_cluster::{ExecutorOptions, SchedulerOptions, run_executor, run_scheduler, serve_metrics};

/// Answer SQL over Zarr Vectors stores with many processes: one scheduler, and an executor on each machine.
///
/// Statements are asked with zvf sql --cluster HOST:PORT. Whoever reaches a port may run statements with the rights of these
/// programs: use it in a network of your own.
#[derive(Debug, Parser)]
#[command(name = "zvf-cluster", version, max_term_width = 100)]
struct Arguments {
    /// Say what is done, and not only what goes wrong.
    #[arg(long, short, global = true)]
    verbose: bool,
    /// Answer GET /metrics there, for Prometheus.
    #[arg(long, global = true, value_name = "IP:PORT")]
    metrics: Option<SocketAddr>,
    #[command(subcommand)]
    role: Role,
}

/// A logger that writes lines to standard error.
struct StderrLogger;

impl log::Log for StderrLogger {
    fn enabled(&self, _metadata: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        // There is nowhere to report that standard error is closed.
        drop(writeln!(io::stderr().lock(), "zvf-cluster: {}: {}", record.level(), record.args()));
    }

    fn flush(&self) {}
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Plan statements and divide them between executors.
    Scheduler(SchedulerOptions),
    /// Run a scheduler and executors in one process, for trying.
    Local {
        /// Where the scheduler listens; each executor takes the next two ports.
        #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:50050")]
        listen: SocketAddr,
        /// The number of executors.
        #[arg(long, value_name = "N", default_value_t = 1)]
        executors: u16,
    },
    /// Read partitions of stores for a scheduler.
    Executor(ExecutorOptions),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Fails only if a logger is already installed.
    drop(log::set_logger(&StderrLogger));
    log::set_max_level(match arguments.verbose {
        true => log::LevelFilter::Info,
        false => log::LevelFilter::Warn,
    });
    match run(arguments.role, arguments.metrics) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let line = error.to_string().replace('\n', " ");
            // There is nowhere to report that standard error is closed.
            drop(writeln!(io::stderr().lock(), "zvf-cluster: {line}"));
            ExitCode::from(5)
        }
    }
}

fn run(role: Role, metrics: Option<SocketAddr>) -> Result<()> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let Some(address) = metrics else { return serve(role).await };
        tokio::select! {
            result = serve(role) => result,
            result = serve_metrics(address) => result,
        }
    });
    runtime.shutdown_background();
    result
}

async fn serve(role: Role) -> Result<()> {
    match role {
        Role::Scheduler(options) => run_scheduler(&options).await,
        Role::Local { listen, executors } => run_local(listen, executors).await,
        Role::Executor(options) => run_executor(&options).await,
    }
}

/// Runs a scheduler and `executors` with one core each, until one of them ends.
async fn run_local(listen: SocketAddr, executors: u16) -> Result<()> {
    let mut processes = JoinSet::new();
    let options = SchedulerOptions {
        listen,
        min_executors: executors.into(),
        ..SchedulerOptions::parse_from([""])
    };
    processes.spawn(async move { run_scheduler(&options).await });
    for port in (listen.port()..).skip(1).step_by(2).take(executors.into()) {
        let options = ExecutorOptions {
            scheduler: (listen.ip().to_string(), listen.port()),
            listen: SocketAddr::new(listen.ip(), port),
            cores: Some(1),
            ..ExecutorOptions::parse_from([""])
        };
        processes.spawn(async move { run_executor(&options).await });
    }
    let ended = processes.join_next().await.transpose();
    ended.map_err(io::Error::other)?.unwrap_or(Ok(()))
}
