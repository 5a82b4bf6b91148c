//! `zvf-cluster`: the scheduler and the executor of a cluster that answers SQL over stores.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use datafusion::error::{DataFusionError, Result};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use zvf_cluster::{ExecutorOptions, SchedulerOptions, run_executor, run_scheduler};

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
    Scheduler {
        /// Where to listen.
        #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:50050")]
        listen: SocketAddr,
        /// The name under which others reach it [default: the address].
        #[arg(long, value_name = "HOST")]
        external_host: Option<String>,
        /// Seconds after which the work of an executor that says nothing is given to others.
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        executor_timeout: u64,
        /// So many executors make GET /readyz say 200.
        #[arg(long, value_name = "N", default_value_t = 1)]
        min_executors: usize,
    },
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
    Executor {
        /// The scheduler.
        #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050", value_parser = host_and_port)]
        scheduler: (String, u16),
        /// Where to give out results.
        #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:50051")]
        listen: SocketAddr,
        /// The port for the scheduler [default: the one after that of --listen].
        #[arg(long, value_name = "PORT")]
        control_port: Option<u16>,
        /// The name under which others reach it [default: the address].
        #[arg(long, value_name = "HOST")]
        external_host: Option<String>,
        /// Partitions that run at once [default: one for each core].
        #[arg(long, value_name = "N")]
        cores: Option<usize>,
        /// Memory in MiB for sorting, joining and grouping, of all partitions together.
        #[arg(long, value_name = "MIB", default_value_t = 1024)]
        memory: u64,
        /// The folder for results of stages [default: one that is removed at the end].
        #[arg(long, value_name = "FOLDER")]
        work_dir: Option<PathBuf>,
        /// Seconds between two signs of life.
        #[arg(long, value_name = "SECONDS", default_value_t = 10)]
        heartbeat: u64,
    },
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let (host, port) = text.rsplit_once(':').ok_or("expected HOST:PORT")?;
    let port = port.parse().map_err(|error| format!("expected a port, found {port:?}: {error}"))?;
    Ok((host.to_owned(), port))
}

/// Returns the port after that of `--listen`; the last one has none.
fn port_after(port: u16) -> Result<u16> {
    port.checked_add(1).ok_or_else(|| {
        let text = "--listen: expected a port below 65535, found 65535; or give --control-port";
        DataFusionError::Plan(text.to_owned())
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Fails only if a logger is already installed.
    drop(log::set_logger(&StderrLogger));
    log::set_max_level(match arguments.verbose {
        true => log::LevelFilter::Info,
        false => log::LevelFilter::Warn,
    });
    match run(arguments.role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let line = error.to_string().replace('\n', " ");
            // There is nowhere to report that standard error is closed.
            drop(writeln!(io::stderr().lock(), "zvf-cluster: {line}"));
            ExitCode::from(5)
        }
    }
}

fn run(role: Role) -> Result<()> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(serve(role));
    runtime.shutdown_background();
    result
}

async fn serve(role: Role) -> Result<()> {
    match role {
        Role::Scheduler { listen, external_host, executor_timeout, min_executors } => {
            let executor_timeout = Duration::from_secs(executor_timeout);
            let options =
                SchedulerOptions { listen, external_host, executor_timeout, min_executors };
            run_scheduler(&options).await
        }
        Role::Local { listen, executors } => run_local(listen, executors).await,
        Role::Executor {
            scheduler: (scheduler_host, scheduler_port),
            listen,
            control_port,
            external_host,
            cores,
            memory,
            work_dir,
            heartbeat,
        } => {
            let cores = match cores {
                Some(cores) => cores.max(1),
                None => std::thread::available_parallelism()?.get(),
            };
            let options = ExecutorOptions {
                scheduler_host,
                scheduler_port,
                listen,
                control_port: match control_port {
                    Some(port) => port,
                    None => port_after(listen.port())?,
                },
                external_host,
                cores,
                memory_limit: memory.saturating_mul(1 << 20), // more than there is means no limit
                work_dir,
                heartbeat: Duration::from_secs(heartbeat),
            };
            run_executor(&options).await
        }
    }
}

/// Runs a scheduler and `executors` with one core each, until one of them ends.
async fn run_local(listen: SocketAddr, executors: u16) -> Result<()> {
    let mut processes = JoinSet::new();
    let options = SchedulerOptions {
        listen,
        external_host: None,
        executor_timeout: Duration::from_secs(60),
        min_executors: executors.into(),
    };
    processes.spawn(async move { run_scheduler(&options).await });
    let mut port = listen.port();
    for _ in 0..executors {
        let address = SocketAddr::new(listen.ip(), port_after(port)?);
        port = port_after(address.port())?;
        let options = ExecutorOptions {
            scheduler_host: listen.ip().to_string(),
            scheduler_port: listen.port(),
            listen: address,
            control_port: port,
            external_host: None,
            cores: 1,
            memory_limit: 1 << 30,
            work_dir: None,
            heartbeat: Duration::from_secs(10),
        };
        processes.spawn(async move { run_executor(&options).await });
    }
    let ended = processes.join_next().await.transpose();
    ended.map_err(io::Error::other)?.unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_port_has_none_after_it() {
        assert_eq!(port_after(50051).unwrap(), 50052);
        let error = port_after(u16::MAX).unwrap_err().to_string();
        assert!(error.contains("or give --control-port"), "{error}");
    }
}
