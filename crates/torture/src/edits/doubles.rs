//! `doubles`: backends that break their promises, and every order of two and three writers.
//!
//! ```text
//! late          one put of a commit arrives once more after a later commit, or after an undo
//! begin again   a writer finds its number taken at any request, and a third one commits at any later request
//! one epoch     two single writers begin at one time, on a backend without conditions
//! new arrays    a second writer creates arrays, at any request of the first
//! readers       a writer creates arrays, at any request of a reader
//! folder        writers that begin at one head of a folder and commit at one moment
//! ```
//!
//! Late puts are tested on backends that honour conditions, that ignore `If-Match`, and that ignore
//! `If-None-Match`, with content-based tags, as on S3, and without. Either a commit is refused
//! because the backend lacks conditions, or every acknowledged commit is in the log and in the
//! store.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier};

use anyhow::{Context as _, bail, ensure};
use archives::faults::{Conditions, Fault, FaultStore};
use serde_json::{Value, json};
use zvf_edit::{CommitOptions, EditError, Editor, Place, Undo, undo};
use zvf_format::Class;
use zvf_model::LevelId;
use zvf_query::{Query, Reader};
use zvf_validate::{Checks, Observer, validate};

use super::{
    NAME, apply_committed, commit_lines, create_backend, list_files, open_in_backend,
    place_in_backend, read_files, read_store,
};
use crate::trees::{Tree, remove_folder, write_tree};
use crate::{Report, block_on, in_parallel};

/// Test backends that keep less than they promise, and every order of writers.
#[derive(clap::Args)]
pub(crate) struct Doubles {
    /// Test only every Nth order of writers, and every Nth request of a reader.
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// Rounds of writers of a folder.
    #[arg(long, default_value_t = 1000)]
    rounds: u64,
    /// Concurrent writers of a folder.
    #[arg(long, default_value_t = 8)]
    writers: usize,
}

impl Doubles {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let scratch = archives::scratch();
        let store = scratch.path().join(NAME);
        archives::write(&store, &archives::files(STORE));
        commit_lines(&Place::from(store.as_path()), &add_counter(&[0, 1]))?;
        let files = read_store(&store);
        report.part("late", |report| repeat_puts(&files, report))?;
        let every = self.every.max(1);
        report.part("begin again", |report| begin_again(&files, every, report))?;
        report.part("one epoch", |report| commit_beside(&files, true, &[], report))?;
        let new_arrays = [
            json!({"op": "column.add", "name": "new", "dtype": "float32"}),
            json!({"op": "object.add", "positions": [[0, 0], [9999, 9999]], "attributes": {}}),
            json!({"op": "group.add", "name": "new"}),
        ];
        report.part("new arrays", |report| commit_beside(&files, false, &new_arrays, report))?;
        report.part("readers", |report| read_beside(&files, every, &new_arrays, report))?;
        report.part("folder", |report| self.race_in_folder(&files, &store, report))
    }

    fn race_in_folder(
        &self,
        files: &Tree,
        store: &Path,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        for round in 0..self.rounds {
            remove_folder(store)?;
            remove_folder(&store.with_extension("zv.zvf"))?;
            write_tree(store, files);
            let raced = commit_at_once(&Place::from(store), self.writers);
            report.count(raced.with_context(|| format!("folder, round {round}")));
        }
        Ok(())
    }
}

/// Returns a transaction that gives objects a counter of 0.
pub(crate) fn add_counter(objects: &[u64]) -> [Value; 2] {
    [
        json!({"op": "column.add", "scope": "object", "name": "counter", "dtype": "int64"}),
        json!({"op": "object.set", "objects": objects, "values": {"counter": 0}}),
    ]
}

/// Returns a transaction that reads a counter and sets it: of two such commits one must fail.
pub(crate) fn set_counter(object: u64, from: u64, to: u64) -> [Value; 2] {
    [
        json!({"op": "expect", "object": object, "values": {"counter": from}}),
        json!({"op": "object.set", "objects": [object], "values": {"counter": to}}),
    ]
}

pub(crate) fn check_counter(place: &Place, object: u64, is: u64) -> anyhow::Result<()> {
    let line = json!({"op": "expect", "object": object, "values": {"counter": is}});
    commit_lines(place, &[line]).map(drop).context("afterwards")
}

/// Checks that failed commits were refused because of another writer.
fn check_refusals<'a>(
    ended: impl IntoIterator<Item = &'a Result<(), EditError>>,
) -> anyhow::Result<()> {
    let errors = ended.into_iter().filter_map(|ended| ended.as_ref().err());
    match errors.into_iter().find(|error| !REFUSALS.contains(&error.class)) {
        Some(error) => Err(error.clone().into()),
        None => Ok(()),
    }
}

/// Repeats each put of a commit after a later commit, and after an undo.
fn repeat_puts(files: &Tree, report: &mut Report) -> anyhow::Result<()> {
    for n in 0..8_u8 {
        let [if_none_match, if_match, tags_are_of_bytes] = [1, 2, 4].map(|bit| n & bit == 0);
        let conditions =
            Conditions { if_none_match, if_match, tags_are_of_bytes, ..Conditions::default() };
        let create = || {
            let backend = create_backend(files);
            backend.set_conditions(conditions);
            backend
        };
        // A first run counts the requests.
        let counted = create();
        if let Err(error) = commit_lines(&place_in_backend(&counted), &set_counter(0, 0, 1)) {
            let is_right = error.class == Class::Unsupported;
            report.check(is_right, || format!("{conditions:?}: {error}"));
            continue;
        }
        let requests = counted.requests();
        let puts = requests.iter().enumerate().filter(|(_, request)| request.what == "put");
        for (nth, request) in puts {
            for is_undone in [false, true] {
                let reads_log = is_undone && tags_are_of_bytes;
                let checked = repeat_put(&create(), nth, is_undone, reads_log);
                report.count(checked.with_context(|| {
                    format!("{conditions:?}, undone: {is_undone}, put of {}", request.path)
                }));
            }
        }
    }
    Ok(())
}

/// Repeats the request with this number.
fn repeat_put(
    backend: &Arc<FaultStore>,
    nth: usize,
    is_undone: bool,
    reads_log: bool,
) -> anyhow::Result<()> {
    let (slow, place) = (Arc::new(backend.new_client()), place_in_backend(backend));
    slow.plan(nth, Fault::Repeated);
    commit_lines(&place_in_backend(&slow), &set_counter(0, 0, 1))?;
    let set = json!({"op": "object.set", "objects": [0], "values": {"counter": 2}});
    match is_undone {
        true => drop(undo(&place, Undo::Last(1), &CommitOptions::default())?),
        false => drop(commit_lines(&place, &[set])?),
    }
    let expected = list_files(backend);
    ensure!(block_on(slow.send_late()) == 1, "no put was repeated");
    apply_committed(&place)?;
    let stored = list_files(backend);
    // If the replaced version is restored, a late put looks like one in time; readers then use the
    // bytes of the log.
    let keys = || expected.keys().chain(stored.keys());
    let found = if reads_log { &read_files(backend, keys())? } else { &stored };
    let older = keys().find(|key| expected.get(*key) != found.get(*key));
    ensure!(older.is_none(), "{older:?} is of an older commit");
    check_counter(&place, 0, if is_undone { 0 } else { 2 })
}

/// Schedules a commit of another client right before a request of `client`; returns where its
/// outcome arrives.
pub(super) fn plan_commit(
    client: &FaultStore,
    nth: usize,
    other: Place,
    lines: Vec<Value>,
) -> Receiver<Result<(), EditError>> {
    let (outcome, ended) = channel();
    client.plan_call(nth, move || drop(outcome.send(commit_lines(&other, &lines).map(drop))));
    ended
}

/// One writer commits; at each of its requests a second one takes its number, and at each later one
/// a third one changes the same object.
fn begin_again(files: &Tree, every: usize, report: &mut Report) -> anyhow::Result<()> {
    let counted = create_backend(files);
    commit_lines(&place_in_backend(&counted), &set_counter(0, 0, 1))?;
    let requests = counted.requests().len();
    // A writer that starts over sends as many requests again.
    let orders = (0..requests).flat_map(|nth| (1..=requests * 2).map(move |later| (nth, later)));
    for (nth, later) in orders.step_by(every) {
        let backend = create_backend(files);
        let writer = Arc::new(backend.new_client());
        let place = || place_in_backend(&Arc::new(backend.new_client()));
        let second = plan_commit(&writer, nth, place(), set_counter(1, 0, 1).to_vec());
        let third = plan_commit(&writer, nth + later, place(), set_counter(0, 0, 2).to_vec());
        let first = commit_lines(&place_in_backend(&writer), &set_counter(0, 0, 1)).map(drop);
        let (second, Ok(third)) = (second.try_recv(), third.try_recv()) else {
            continue; // it ended before
        };
        let checked = || {
            let is = match (&first, &third) {
                (Ok(()), Ok(())) => bail!("both were acknowledged"),
                (Ok(()), Err(_)) => 1,
                (Err(_), Ok(())) => 2,
                (Err(_), Err(_)) => 0,
            };
            check_refusals([&first, &third, second.as_ref().unwrap_or(&first)])?;
            check_counter(&place(), 0, is)?;
            check_counter(&place(), 1, 1)
        };
        let what = format!("a second writer at request {nth}, a third {later} later");
        report.count(checked().context(what));
    }
    Ok(())
}

/// One writer commits; at each of its requests a second one starts and commits, with these lines
/// among others. Single writers do so on a backend without conditions.
fn commit_beside(
    files: &Tree,
    are_single: bool,
    lines: &[Value],
    report: &mut Report,
) -> anyhow::Result<()> {
    for nth in 0.. {
        let backend = create_backend(files);
        backend.ignore_conditions(are_single);
        let open = |client: &Arc<FaultStore>| match are_single {
            true => place_in_backend(client).with_single_writer(),
            false => place_in_backend(client),
        };
        let writer = Arc::new(backend.new_client());
        let lines = [&set_counter(1, 0, 1), lines].concat();
        let second = plan_commit(&writer, nth, open(&Arc::new(backend.new_client())), lines);
        let first = commit_lines(&open(&writer), &set_counter(0, 0, 1)).map(drop);
        let Ok(second) = second.try_recv() else { break };
        let checked = || {
            check_refusals([&first, &second])?;
            let place = place_in_backend(&backend).without_probe();
            check_counter(&place, 0, u64::from(first.is_ok()))?;
            check_counter(&place, 1, u64::from(second.is_ok()))
        };
        report.count(
            checked().with_context(|| {
                format!("a second writer at request {nth}; {first:?}, {second:?}")
            }),
        );
    }
    Ok(())
}

/// A reader asks; at each of its requests a writer commits these lines. The answer is that of the
/// store before or after them.
fn read_beside(
    files: &Tree,
    every: usize,
    lines: &[Value],
    report: &mut Report,
) -> anyhow::Result<()> {
    for question in 0..QUESTIONS {
        let changed = create_backend(files);
        commit_lines(&place_in_backend(&changed), lines)?;
        let [before, after] = [&create_backend(files), &changed].map(|at| ask(at, question));
        let states = [before?, after?];
        for nth in (0..).step_by(every) {
            let backend = create_backend(files);
            let reader = Arc::new(backend.new_client());
            let ended = plan_commit(&reader, nth, place_in_backend(&backend), lines.to_vec());
            let answer = ask(&reader, question);
            let Ok(ended) = ended.try_recv() else { break };
            let checked = || {
                ended?;
                ensure!(states.contains(&answer?), "the answer is of no commit");
                Ok(())
            };
            report.count(checked().with_context(|| format!("question {question}, request {nth}")));
        }
    }
    Ok(())
}

/// Opens the store and asks for all vertices, their number, statistics, or a validation.
fn ask(backend: &Arc<FaultStore>, question: usize) -> zvf_error::Result<String> {
    block_on(async {
        let store = open_in_backend(backend).await?;
        let reader = Reader::new(store.clone());
        Ok(match question {
            0 => format!("{:?}", reader.run(&Query::all()).await?.batch),
            1 => format!("{:?}", reader.count(&Query::all()).await?),
            2 => format!("{:?}", reader.statistics(LevelId(0), None).await?),
            _ => {
                let report = validate(&store, &Checks::default(), &Observer::default()).await?;
                format!("{:?}", report.findings)
            }
        })
    })
}

/// Writers that read the same head and share four objects commit at the same time. At most one
/// commit per object may be acknowledged, and its value must remain.
fn commit_at_once(place: &Place, writers: usize) -> anyhow::Result<()> {
    let objects = (writers / 2).clamp(1, OBJECTS);
    let lines: Vec<Value> = (0..objects)
        .map(|object| json!({"op": "object.set", "objects": [object], "values": {"counter": 0}}))
        .collect();
    commit_lines(place, &lines)?;
    let barrier = Barrier::new(writers);
    let commit = |writer: usize| -> Result<(), EditError> {
        let begun = Editor::open(place, Path::new("."), CommitOptions::default());
        let begun = begun.and_then(|mut editor| {
            for line in set_counter((writer % objects) as u64, 0, writer as u64 + 1) {
                editor.line(1, &line.to_string())?;
            }
            Ok(editor)
        });
        barrier.wait();
        begun?.finish()
    };
    let ended = in_parallel(writers, commit);
    for object in 0..objects {
        let of_object = ended.iter().enumerate().filter(|(writer, _)| writer % objects == object);
        let done: Vec<usize> =
            of_object.filter(|(_, ended)| ended.is_ok()).map(|(writer, _)| writer).collect();
        match *done {
            [] => check_counter(place, object as u64, 0)?,
            [writer] => check_counter(place, object as u64, writer as u64 + 1)?,
            _ => bail!("object {object}: {} were acknowledged", done.len()),
        }
    }
    check_refusals(&ended)
}

/// A store with two axes, without required columns of vertices.
const STORE: &str = "pl2_negative";
const REFUSALS: [Class; 4] =
    [Class::Conflict, Class::ExpectationFailed, Class::Unavailable, Class::WriterFenced];
/// The number of questions of a reader.
const QUESTIONS: usize = 4;
/// Objects of the store that writers of a folder change.
const OBJECTS: usize = 4;
