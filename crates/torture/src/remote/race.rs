//! `race-remote`: builders of one prefix at the same time, on an object store with random latencies.
//!
//! Sometimes a request takes longer than the life of a claim, or is never answered. At most one builder reports
//! success, and then its store exists. The same on a store that accepts conditions and ignores them.
//!
//! The control consists of writers without claims that send their objects without conditions: some
//! of them must lose acknowledged data, otherwise the race would prove nothing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use archives::faults::{Fault, FaultStore};
use futures_util::future::join_all;
use zvf_error::Error;
use zvf_format::Class;

use super::{Outcome, ROOT, Writer, check_invariants, create_runtime, read_objects};
use crate::Report;
use archives::random::Random;

/// Race builders of one prefix.
#[derive(clap::Args)]
pub(crate) struct Race {
    /// The number of races.
    #[arg(long, default_value_t = 2000)]
    loops: u64,
}

impl Race {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let mut random = report.random();
        let mut won = 0_u64;
        for round in 0..self.loops {
            let writers = if round % 2 == 1 { 8 } else { 2 };
            let is_blind = round % 4 > 1;
            let backend = Arc::new(FaultStore::new());
            backend.ignore_conditions(is_blind);
            plan_delays(&backend, &mut random, writers);
            let starts: Vec<u64> = (0..writers).map(|_| random.next() % 3_000).collect();
            let folder = tempfile::tempdir()?;
            let raced = create_runtime()?.block_on(async {
                let outcomes = race_builders(&backend, &starts, folder.path()).await;
                won += u64::from(outcomes.iter().any(|(_, ended)| ended.is_ok()));
                check_invariants(&backend, Writer::Build, folder.path(), &outcomes).await
            });
            let place = format!("round {round}, {writers} writers, conditions ignored: {is_blind}");
            report.count(raced.context(place));
        }
        report.count(run_control(&mut random));
        // A race without winners proves nothing.
        let enough = won * 2 > self.loops;
        report.check(enough, || format!("{won} of {} won", self.loops));
        Ok(())
    }
}

/// Races writers without claims and conditions, until one has lost data.
fn run_control(random: &mut Random) -> anyhow::Result<()> {
    for _ in 0..CONTROL_ROUNDS {
        let backend = Arc::new(FaultStore::new());
        backend.ignore_conditions(true);
        plan_delays(&backend, random, 2);
        let folder = tempfile::tempdir()?;
        let lost = create_runtime()?.block_on(async {
            let copies = (1..=2).map(|g| {
                let backend = Arc::clone(&backend);
                async move { (g, copy_objects(&backend, g).await) }
            });
            let outcomes = join_all(copies).await;
            check_invariants(&backend, Writer::Build, folder.path(), &outcomes).await.is_err()
        });
        if lost {
            return Ok(());
        }
    }
    bail!("without claims and conditions no writer lost data")
}

/// Builds generation `g` in another store, and puts each of its objects to `backend`, the root document last.
async fn copy_objects(backend: &FaultStore, g: u64) -> Outcome {
    let source = Arc::new(FaultStore::new());
    Writer::Build.write(&source, std::path::Path::new("unused"), g).await?;
    let all = read_objects(&source).await;
    let (last, first): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| name == ROOT);
    for (name, bytes) in first.into_iter().chain(last) {
        let path = object_store::path::Path::from(name);
        let put = object_store::ObjectStoreExt::put(backend, &path, bytes.into());
        let put = put.await;
        put.map_err(|error| Error::custom(Class::Io, error.to_string()))?;
    }
    Ok(())
}

/// Gives future requests random latencies.
fn plan_delays(backend: &FaultStore, random: &mut Random, writers: u64) {
    let requests = usize::try_from(writers).unwrap_or(1) * 60;
    for nth in 0..requests {
        let fault = match random.next_below(200) {
            0 => Fault::AnswerLate,
            1 => Fault::AnswerLost,
            2 => Fault::Status(503),
            3 => Fault::Delay(Duration::from_secs(700)),
            4..=120 => Fault::Delay(Duration::from_millis(random.next() % 1_500)),
            _ => continue,
        };
        backend.plan(nth, fault);
    }
}

/// Starts a builder at each of these times, in milliseconds, and waits for all of them.
async fn race_builders(
    backend: &Arc<FaultStore>,
    starts: &[u64],
    folder: &std::path::Path,
) -> Vec<(u64, Outcome)> {
    let builders = (1..).zip(starts).map(|(g, start)| async move {
        tokio::time::sleep(Duration::from_millis(*start)).await;
        (g, Writer::Build.write(backend, folder, g).await)
    });
    join_all(builders).await
}

/// The number of races after which the control must have lost data.
const CONTROL_ROUNDS: u64 = 40;
