//! Runs the steps that are not done: in order, and independent ones in parallel.
//!
//! Each step is a command line that runs in this process on its own threads. After the first fault no step begins;
//! running steps finish, and the journal records all that were done.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::journal::{Entry, Journal, hash_all, identify};
use super::plan::{Planned, overlaps};
use crate::call::{Reply, call};
use crate::interrupt::Interrupt;
use crate::outcome::Failure;
use crate::progress::Progress;

/// How steps are run.
pub(super) struct Running {
    /// The number of steps that run at a time.
    pub(super) jobs: usize,
    /// The common options of every command line: limits, storage options, JSON.
    pub(super) common: Vec<String>,
}

/// Whether a step is done, and why not.
#[derive(Clone)]
pub(super) struct Status {
    pub(super) is_done: bool,
    pub(super) why: &'static str,
    key: String,
    origin: BTreeMap<String, String>,
    /// Whether its existing output was left by an earlier run and may be replaced.
    replaces_own: bool,
}

impl Status {
    /// Returns the word for what becomes of the step.
    pub(super) const fn word(&self) -> &'static str {
        if self.is_done { "done" } else { "to do" }
    }
}

/// The result of a step.
pub(super) enum Ending {
    /// It was done in an earlier run.
    Done,
    /// It did not begin, since an earlier one failed.
    NotRun,
    /// It ran.
    Ran { seconds: f64, reply: Reply },
    /// It ran and failed.
    Failed { seconds: f64, failure: Failure },
}

impl Ending {
    /// Returns the word for it.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NotRun => "not run",
            Self::Ran { .. } => "ran",
            Self::Failed { .. } => "failed",
        }
    }
}

/// Decides for each step whether it is done; with `again` none is. `now` has the identities of stores behind URLs.
pub(super) fn statuses(
    steps: &[Planned],
    journal: &Journal,
    mut now: Identities,
    again: bool,
) -> anyhow::Result<Vec<Status>> {
    let mut all: Vec<Status> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let (key, origin) = key_of(steps, &all, at, step, journal, &mut now)?;
        let is_done = journal.find(&key).is_some();
        let why =
            if is_done { "done" } else { "not done before, or its inputs or options changed" };
        all.push(Status { is_done, why, key, origin, replaces_own: false });
    }
    check_outputs(steps, &mut all, journal, &mut now)?;
    if again {
        for status in &mut all {
            (status.is_done, status.why) = (false, "all steps run again");
        }
    }
    Ok(all)
}

/// The identities of files and stores, computed once.
#[derive(Default)]
pub(super) struct Identities(pub(super) BTreeMap<String, Option<String>>);

impl Identities {
    fn get(&mut self, address: &str) -> anyhow::Result<Option<String>> {
        if let Some(identity) = self.0.get(address) {
            return Ok(identity.clone());
        }
        let found = identify(address)?;
        self.0.insert(address.to_owned(), found.clone());
        Ok(found)
    }
}

/// Returns the key of a step, and the original identities of the stores that it changes in place.
fn key_of(
    steps: &[Planned],
    before: &[Status],
    at: usize,
    step: &Planned,
    journal: &Journal,
    now: &mut Identities,
) -> anyhow::Result<(String, BTreeMap<String, String>)> {
    let mut tokens = Vec::new();
    let mut origin = BTreeMap::new();
    let mut is_made = Vec::new(); // whether an earlier step wrote this input
    for input in &step.inputs {
        let mut earlier = steps[..at].iter().zip(before).rev();
        let writes = |step: &Planned| step.outputs.iter().any(|output| overlaps(output, input));
        let writer = earlier.find(|(earlier, _)| writes(earlier));
        is_made.push(writer.is_some());
        match writer {
            Some((_, status)) => {
                let first = status.origin.get(input);
                origin.extend(first.map(|first| (input.clone(), first.clone())));
                tokens.push(status.key.clone());
            }
            None => tokens.push(now.get(input)?.unwrap_or_else(|| "nothing".to_owned())),
        }
    }
    for (number, input) in step.inputs.iter().enumerate() {
        if is_made[number] || origin.contains_key(input) || !step.outputs.contains(input) {
            continue;
        }
        // For a store changed in place: its identity before the first change, where the journal has it.
        let left = journal.find_output(input, &tokens[number]);
        if let Some(first) = left.and_then(|entry| entry.origin.get(input)) {
            let now = std::mem::replace(&mut tokens[number], first.clone());
            if journal.find(&hash_step(step, &tokens)).is_none() {
                tokens[number] = now;
            }
        }
        origin.insert(input.clone(), tokens[number].clone());
    }
    Ok((hash_step(step, &tokens), origin))
}

/// Returns the hash of a command line and of its inputs.
fn hash_step(step: &Planned, tokens: &[String]) -> String {
    let texts = step.args.iter().map(String::as_str);
    let read = step.inputs.iter().zip(tokens);
    let read = read.flat_map(|(path, token)| [path.as_str(), token.as_str()]);
    hash_all(texts.chain(["\n"]).chain(read))
}

/// Marks steps whose outputs are missing or were changed as not done.
fn check_outputs(
    steps: &[Planned],
    all: &mut [Status],
    journal: &Journal,
    now: &mut Identities,
) -> anyhow::Result<()> {
    let outputs: Vec<&String> = steps.iter().flat_map(|step| &step.outputs).collect();
    for output in outputs {
        let writers = (0..steps.len()).filter(|at| steps[*at].outputs.contains(output));
        let writers: Vec<usize> = writers.collect();
        let found = now.get(output)?;
        // The first step that is not done invalidates the later ones.
        let done = writers.iter().take_while(|at| all[**at].is_done).count();
        let last = done.checked_sub(1).and_then(|last| journal.find(&all[writers[last]].key));
        let left = last.and_then(|entry| entry.outputs.get(output));
        let is_kept = last.is_none() || left == found.as_ref();
        let is_own =
            found.as_ref().is_some_and(|found| journal.find_output(output, found).is_some());
        for (rank, at) in writers.into_iter().enumerate() {
            let status = &mut all[at];
            status.replaces_own |= is_own;
            if !is_kept || rank >= done {
                if status.is_done {
                    status.why = if found.is_none() {
                        "its output is gone"
                    } else {
                        "its output was changed"
                    };
                }
                status.is_done = false;
            }
        }
    }
    Ok(())
}

/// Runs all steps that are not done; returns one ending for each step.
pub(super) fn run(
    steps: &[Planned],
    statuses: &[Status],
    journal: &mut Journal,
    running: &Running,
    stop: &Arc<AtomicBool>,
    progress: &Progress,
) -> anyhow::Result<Vec<Ending>> {
    let mut endings: Vec<Option<Ending>> =
        statuses.iter().map(|status| status.is_done.then_some(Ending::Done)).collect();
    let (done, finished) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut under_way: BTreeMap<usize, Interrupt> = BTreeMap::new();
        let mut has_failed = false;
        loop {
            if stop.load(Ordering::Relaxed) {
                has_failed = true;
                under_way.values().for_each(Interrupt::stop);
            }
            while !has_failed && under_way.len() < running.jobs {
                let ready = (0..steps.len()).find(|at| {
                    endings[*at].is_none()
                        && !under_way.contains_key(at)
                        && (0..*at).all(|earlier| {
                            endings[earlier].is_some() || !steps[*at].waits_for(&steps[earlier])
                        })
                });
                let Some(at) = ready else { break };
                let (stop, done) = (Interrupt::default(), done.clone());
                let args = command_line(&steps[at], &statuses[at], running);
                under_way.insert(at, stop.clone());
                scope.spawn(move || {
                    let start = Instant::now();
                    let reply = call(args, &stop);
                    // The loop waits for every step that it began.
                    drop(done.send((at, start.elapsed().as_secs_f64(), reply)));
                });
            }
            show(progress, steps, &endings, &under_way);
            if under_way.is_empty() {
                break;
            }
            let Ok((at, seconds, reply)) = finished.recv_timeout(POLL) else { continue };
            under_way.remove(&at);
            let ending = match reply {
                Ok(reply) if !reply.has_findings => {
                    push(journal, &steps[at], &statuses[at])?;
                    Ending::Ran { seconds, reply }
                }
                Ok(reply) => Ending::Failed { seconds, failure: problems_failure(&reply) },
                Err(failure) => Ending::Failed { seconds, failure },
            };
            has_failed |= matches!(ending, Ending::Failed { .. });
            endings[at] = Some(ending);
        }
        anyhow::Ok(())
    })?;
    Ok(endings.into_iter().map(|ending| ending.unwrap_or(Ending::NotRun)).collect())
}

fn show(
    progress: &Progress,
    steps: &[Planned],
    endings: &[Option<Ending>],
    under_way: &BTreeMap<usize, Interrupt>,
) {
    let done = endings.iter().flatten().count();
    let names: Vec<&str> = under_way.keys().map(|at| &*steps[*at].name).collect();
    progress.set(format!("{done} of {} steps done: {}", steps.len(), names.join(", ")));
}

fn command_line(step: &Planned, status: &Status, running: &Running) -> Vec<std::ffi::OsString> {
    let (verb, rest) = step.args.split_first().map_or(("", &[][..]), |(verb, rest)| (verb, rest));
    let is_in_place = step.outputs.iter().any(|output| step.inputs.contains(output));
    let replaces =
        status.replaces_own && !is_in_place && !rest.iter().any(|word| word == "--overwrite");
    let mut words = vec!["zvf".to_owned(), verb.to_owned()];
    words.extend(running.common.iter().cloned());
    if replaces {
        words.push("--overwrite".to_owned());
    }
    if is_in_place && verb == "pyramid" && !rest.iter().any(|word| word == "--in-place") {
        words.push("--in-place".to_owned());
    }
    words.extend(rest.iter().cloned());
    words.into_iter().map(Into::into).collect()
}

fn push(journal: &mut Journal, step: &Planned, status: &Status) -> anyhow::Result<()> {
    let mut outputs = BTreeMap::new();
    for output in &step.outputs {
        outputs.extend(identify(output)?.map(|identity| (output.clone(), identity)));
    }
    let (key, name, origin) = (status.key.clone(), step.name.clone(), status.origin.clone());
    Ok(journal.push(Entry { key, name, outputs, origin })?)
}

fn problems_failure(reply: &Reply) -> Failure {
    let text = String::from_utf8_lossy(&reply.output);
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("problems").to_owned();
    Failure::new(format!("problems found: {first}"))
}

/// Returns a step and its result as JSON.
pub(super) fn to_json(step: &Planned, status: &Status, ending: Option<&Ending>) -> Json {
    let mut entry = json!({
        "name": step.name,
        "line": step.mark.line,
        "command": step.command(),
        "inputs": step.inputs,
        "outputs": step.outputs,
    });
    entry["state"] = ending.map_or(status.word(), Ending::word).into();
    if matches!(ending, None | Some(Ending::Ran { .. })) {
        entry["why"] = status.why.into();
    }
    match ending {
        None | Some(Ending::Done | Ending::NotRun) => {}
        Some(Ending::Ran { seconds, reply }) => {
            let text = String::from_utf8_lossy(&reply.output);
            let result = serde_json::from_str(&text);
            entry["seconds"] = (*seconds).into();
            entry["result"] = result.unwrap_or_else(|_| Json::from(text.trim_end()));
        }
        Some(Ending::Failed { seconds, failure }) => {
            entry["seconds"] = (*seconds).into();
            entry["class"] = failure.class.to_string().into();
            entry["error"] = failure.message.clone().into();
        }
    }
    entry
}

/// The interval at which a run checks whether it was stopped.
const POLL: Duration = Duration::from_millis(50);
