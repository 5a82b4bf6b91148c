//! `race-remote`: builders of one prefix at the same time, on an object store where each request takes its own time.
//!
//! Now and then a request takes longer than a claim lives, or is never answered. At most one builder is told
//! that it is done, and then its store is there. The same on a store that takes conditions and ignores them.
//!
//! The control are writers that claim nothing and send their objects without any condition: among them some must be
//! seen to lose what was acknowledged, or the race would show nothing.

use std::sync::Arc;
use std::time::Duration;

use fault_store::{Fault, FaultStore};
use futures_util::future::join_all;
use zvf_format::Class;

use super::{Outcome, ROOT, Writer, check, objects, runtime};
use crate::Report;
use crate::random::Random;

/// Builders of one prefix at the same time.
#[derive(Debug, clap::Args)]
pub(crate) struct Race {
    /// How often.
    #[arg(long, default_value_t = 2000)]
    loops: u64,
    /// Builders at a time; two and eight by turns without it.
    #[arg(long)]
    writers: Option<u64>,
    /// The same seed delays the same requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Race {
    pub(crate) fn run(self) -> anyhow::Result<Report> {
        let mut report = Report { name: "race-remote", seed: self.seed, ..Report::default() };
        let mut random = Random::new(self.seed);
        let mut won = 0_u64;
        for round in 0..self.loops {
            let writers = self.writers.unwrap_or([2, 8][usize::from(round % 2 == 1)]);
            let is_blind = round % 4 > 1;
            let backend = Arc::new(FaultStore::new());
            backend.ignore_conditions(is_blind);
            delay(&backend, &mut random, writers);
            let starts: Vec<u64> = (0..writers).map(|_| random.next() % 3_000).collect();
            let folder = tempfile::tempdir()?;
            let raced = runtime()?.block_on(async {
                let outcomes = race(&backend, &starts, folder.path()).await;
                won += u64::from(outcomes.iter().any(|(_, ended)| ended.is_ok()));
                check(&backend, Writer::Build, folder.path(), &outcomes).await
            });
            let place = format!("round {round}, {writers} writers, conditions ignored: {is_blind}");
            report.count(raced.map_err(|error| format!("{place}: {error}")));
        }
        report.count(control(&mut random)?);
        // Where nobody ever wins, nothing was shown.
        let enough = won * 2 > self.loops;
        report.count(if enough { Ok(()) } else { Err(format!("{won} of {} won", self.loops)) });
        Ok(report)
    }
}

/// Races of writers without claims and conditions, until one is seen to have lost something.
fn control(random: &mut Random) -> anyhow::Result<Result<(), String>> {
    for _ in 0..CONTROL_ROUNDS {
        let backend = Arc::new(FaultStore::new());
        backend.ignore_conditions(true);
        delay(&backend, random, 2);
        let folder = tempfile::tempdir()?;
        let lost = runtime()?.block_on(async {
            let copies = (1..=2).map(|g| {
                let backend = Arc::clone(&backend);
                async move { (g, copy(&backend, g).await) }
            });
            let outcomes = join_all(copies).await;
            check(&backend, Writer::Build, folder.path(), &outcomes).await.is_err()
        });
        if lost {
            return Ok(Ok(()));
        }
    }
    Ok(Err("without claims and conditions nobody lost anything".to_owned()))
}

/// Builds generation `g` elsewhere, and puts each of its objects to `backend`, the root document last.
async fn copy(backend: &FaultStore, g: u64) -> Outcome {
    let own = Arc::new(FaultStore::new());
    Writer::Build.write(&own, std::path::Path::new("unused"), g).await?;
    let told = |error: String| (Class::Io, error);
    let all = objects(&own).await.map_err(told)?;
    let (last, first): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| name == ROOT);
    for (name, bytes) in first.into_iter().chain(last) {
        let path = object_store::path::Path::from(name);
        let put = object_store::ObjectStoreExt::put(backend, &path, bytes.into());
        put.await.map_err(|error| told(error.to_string()))?;
    }
    Ok(())
}

/// Gives requests to come their own times.
fn delay(backend: &FaultStore, random: &mut Random, writers: u64) {
    let requests = usize::try_from(writers).unwrap_or(1) * 60;
    for nth in 0..requests {
        let fault = match random.below(200) {
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
async fn race(
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

/// Races until the control must have shown something.
const CONTROL_ROUNDS: u64 = 40;
