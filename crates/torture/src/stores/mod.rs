//! `stores`: damages good stores at random and checks whether the validator finds it.
//!
//! Nothing may panic or take long. The detection rate is printed for each kind of damage;
//! undetected damage is listed by the part of the store, because some damage is undetectable, such
//! as a coordinate that changed inside its chunk without a checksum.

mod damage;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::{ObjectStoreExt as _, PutPayload};
use tokio::runtime::Runtime;
use zvf_store::{OpenOptions, Store};
use zvf_validate::{Checks, Finding, Observer, report_unopened, validate};

use self::damage::{Damage, Kind};
use crate::Report;

/// Damage good stores at random, and validate them.
#[derive(clap::Args)]
pub(crate) struct Stores {
    /// The number of damages.
    #[arg(long, default_value_t = 10_000)]
    n: u64,
    /// Only this store.
    #[arg(long)]
    only: Option<String>,
}

/// A good store, and its properties.
struct Good {
    id: String,
    files: Vec<(String, Bytes)>,
    memory: Arc<InMemory>,
    findings: Vec<Finding>,
}

/// The results for one kind of damage.
#[derive(Default)]
struct Share {
    tried: u64,
    found: u64,
    undetected: BTreeMap<String, (u64, String)>,
}

impl Stores {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
        let good = self.list_good_stores(&runtime)?;
        ensure!(!good.is_empty(), "no store of this name");
        let mut random = report.random();
        let mut shares: BTreeMap<Kind, Share> = BTreeMap::new();
        for n in 0..self.n {
            // A store may not support every kind of damage: then another one is tried.
            let (store, damage) = loop {
                let store = &good[random.next_below(good.len())];
                if let Some(damage) = damage::choose_damage(&store.files, &mut random) {
                    break (store, damage);
                }
            };
            let tried = detect_damage(&runtime, store, &damage);
            let share = shares.entry(damage.kind).or_default();
            share.tried += 1;
            match &tried {
                Ok(true) => share.found += 1,
                Ok(false) => {
                    let (n, example) = share.undetected.entry(damage.damaged_part()).or_default();
                    *n += 1;
                    *example = format!("{}: {}", store.id, damage.words);
                }
                Err(_) => {}
            }
            let place = || format!("damage {n} to {}: {}", store.id, damage.words);
            report.count(tried.map(drop).with_context(place));
        }
        print_report(&shares)?;
        Ok(())
    }

    fn list_good_stores(&self, runtime: &Runtime) -> anyhow::Result<Vec<Good>> {
        let is_selected = |id: &String| self.only.as_ref().is_none_or(|only| only == id);
        let ids = archives::ids().into_iter().filter(is_selected);
        let good = ids.map(|id| {
            let files = archives::files(&id);
            let memory = runtime.block_on(archives::in_memory(&files));
            let files = files.into_iter().map(|(path, bytes)| (path, bytes.into())).collect();
            let findings = runtime.block_on(list_findings(memory.fork())).context(id.clone())?;
            Ok(Good { id, files, memory, findings })
        });
        good.collect()
    }
}

fn print_report(shares: &BTreeMap<Kind, Share>) -> io::Result<()> {
    let mut out = io::stderr().lock();
    for (kind, Share { tried, found, undetected }) in shares {
        let share = 100.0 * *found as f64 / (*tried).max(1) as f64;
        let kind = format!("{kind:?}").to_lowercase();
        writeln!(out, "{kind:10} {found:6} of {tried:6} found, {share:.1} %")?;
        let mut undetected: Vec<_> = undetected.iter().collect();
        undetected.sort_by_key(|(_, (n, _))| std::cmp::Reverse(*n));
        for (part, (n, example)) in undetected.into_iter().take(LISTED) {
            writeln!(out, "    not seen {n:5} in {part:36} such as {example}")?;
        }
    }
    Ok(())
}

/// Returns whether the damage is found; an error is a panic, or a timeout.
fn detect_damage(runtime: &Runtime, store: &Good, damage: &Damage) -> anyhow::Result<bool> {
    let looked = AssertUnwindSafe(|| {
        runtime.block_on(async {
            let memory = store.memory.fork();
            for (path, bytes) in &damage.changes {
                let place = path.as_str().into();
                match bytes {
                    Some(bytes) => drop(memory.put(&place, PutPayload::from(bytes.clone())).await),
                    None => drop(memory.delete(&place).await),
                }
            }
            tokio::time::timeout(LONGEST, list_findings(memory)).await
        })
    });
    match catch_unwind(looked) {
        Ok(Ok(Ok(found))) => Ok(found.iter().any(|finding| !store.findings.contains(finding))),
        Ok(Ok(Err(error))) => Err(error.context("it ended with an error")),
        Ok(Err(_)) => Err(anyhow!("no end within {} s", LONGEST.as_secs())),
        Err(_) => Err(anyhow!("a panic")),
    }
}

async fn list_findings(memory: InMemory) -> anyhow::Result<Vec<Finding>> {
    let (options, observer) = (Checks::default(), Observer::default());
    let opened =
        Store::from_object_store(Arc::new(memory), &"".into(), OpenOptions::default()).await;
    let report = match opened {
        Ok(store) => validate(&store, &options, &observer).await?,
        Err(error) => report_unopened(error, &options)?,
    };
    Ok(report.findings)
}

/// The number of listed parts with damage that was not found.
const LISTED: usize = 40;
/// The timeout; no store of the corpus takes a hundredth of it.
const LONGEST: Duration = Duration::from_secs(20);
