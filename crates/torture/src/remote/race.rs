//! `race-remote`: builders of one prefix at the same time, on an object store where each request takes its own time.
//!
//! Now and then a request takes longer than a claim lives, or is never answered. At most one builder is told
//! that it is done, and then its store is there. The same on a store that takes conditions and ignores them.

use std::sync::Arc;
use std::time::Duration;

use fault_store::{Fault, FaultStore};

use super::{Outcome, Writer, check, runtime};
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
        // Where nobody ever wins, nothing was shown.
        let enough = won * 2 > self.loops;
        report.count(if enough { Ok(()) } else { Err(format!("{won} of {} won", self.loops)) });
        Ok(report)
    }
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
    let mut tasks = Vec::new();
    for (g, start) in (1..).zip(starts) {
        let (backend, folder, start) = (Arc::clone(backend), folder.to_owned(), *start);
        tasks.push(tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(start)).await;
            (g, Writer::Build.write(&backend, &folder, g).await)
        }));
    }
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.extend(task.await.ok());
    }
    outcomes
}
