//! Runs one workload on all contenders, in turns.
//!
//! ```text
//! once     everyone does it: answers are compared, caches are filled, who cannot says why
//! turns    one after the other, again and again, so that a slow moment of the machine meets all
//! after    medians
//! memory   zvf does it once more, in a process of its own that does nothing else
//! profile  in a thorough run ours work on while a profiler listens
//! ```
//!
//! A contender whose count differs from zvf's fails the workload. An absent contender is in the
//! row, with the reason; zvf itself must be present. Long workloads have fewer turns.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::clock::{measure_repeated, median};
use crate::row::{Cost, Role, Row, Side, Turn};
use crate::settings::Bench;
use crate::watch::{processor_time, read_stats};
use crate::{limit, profile};

type Run<'a> = Box<dyn FnMut() -> anyhow::Result<Turn> + 'a>;

/// One contender of a workload.
pub(crate) struct Contender<'a> {
    name: String,
    role: Role,
    /// Runs the workload; or why it is absent.
    run: Result<Run<'a>, String>,
    /// The file or folder that it queries, if there is one.
    file: Option<PathBuf>,
    turns: Vec<Turn>,
}

impl<'a> Contender<'a> {
    /// Creates a contender that is present.
    pub(crate) fn new(
        name: impl Into<String>,
        role: Role,
        run: impl FnMut() -> anyhow::Result<Turn> + 'a,
    ) -> Self {
        Self { run: Ok(Box::new(run)), ..Self::new_absent(name, role, "") }
    }

    /// Creates zvf in the form that is compared with the others.
    pub(crate) fn zvf(
        name: impl Into<String>,
        run: impl FnMut() -> anyhow::Result<Turn> + 'a,
    ) -> Self {
        Self::new(name, Role::Zvf, run)
    }

    /// Creates zvf in another form.
    pub(crate) fn variant(
        name: impl Into<String>,
        run: impl FnMut() -> anyhow::Result<Turn> + 'a,
    ) -> Self {
        Self::new(name, Role::Variant, run)
    }

    /// Creates the limit: what the machine needs without any library.
    pub(crate) fn limit(name: &str, run: impl FnMut() -> anyhow::Result<Turn> + 'a) -> Self {
        Self::new(name, Role::Limit, run)
    }

    /// Creates an absent contender, with the reason.
    pub(crate) fn new_absent(name: impl Into<String>, role: Role, why: impl Into<String>) -> Self {
        Self { name: name.into(), role, run: Err(why.into()), file: None, turns: Vec::new() }
    }

    /// Sets the file or folder that it queries, whose size is in the row.
    pub(crate) fn with_file(self, file: impl AsRef<Path>) -> Self {
        Self { file: Some(file.as_ref().to_owned()), ..self }
    }

    /// Adds a step outside the measured time.
    pub(crate) fn and_then(self, after: impl Fn(Turn) -> anyhow::Result<Turn> + 'a) -> Self {
        let run = self.run.map(|mut run| -> Run<'a> { Box::new(move || after(run()?)) });
        Self { run, ..self }
    }

    /// Leaves out the count: it does other work of the same size.
    pub(crate) fn without_count(self) -> Self {
        self.and_then(|turn| Ok(Turn { count: None, ..turn }))
    }

    /// Runs the workload once.
    pub(crate) fn run_once(&mut self) -> anyhow::Result<Turn> {
        match &mut self.run {
            Ok(run) => run(),
            Err(why) => bail!("{}: {why}", self.name),
        }
    }

    /// Creates the limit for reads: reading the files, each with one call into fresh memory, and
    /// nothing else.
    pub(crate) fn reading(name: &str, files: &'a [PathBuf]) -> Self {
        Self::limit(name, move || {
            let sizes = files.iter().filter_map(|file| Some(file.metadata().ok()?.len()));
            let sizes: Vec<u64> = sizes.collect();
            ensure!(files.is_empty() || !sizes.is_empty(), "its files are not there");
            let cost = Cost::of_reads(files.len() as u64, sizes.iter().sum());
            Ok(Turn::from_seconds(limit::measure_read(files)?).with_cost(cost))
        })
    }

    /// Creates the limit for copies: copying bytes within memory.
    pub(crate) fn copying(name: &str, bytes: Vec<u8>) -> Self {
        let cost = Cost { bytes: Some(bytes.len() as u64), ..Cost::default() };
        Self::limit(name, move || {
            let seconds = measure_repeated(|| {
                std::hint::black_box(bytes.clone());
                Ok(())
            })?;
            Ok(Turn::from_seconds(seconds).with_cost(cost))
        })
    }
}

/// The result of a process that ran only one workload of zvf: its peak memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held(pub(crate) u64);

impl fmt::Display for Held {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} bytes were held", self.0)
    }
}

impl std::error::Error for Held {}

/// Runs the workload on all contenders, turn by turn.
pub(crate) fn run_contest(
    bench: &Bench,
    part: &'static str,
    work: String,
    mut contenders: Vec<Contender<'_>>,
) -> anyhow::Result<Row> {
    if bench.own.is_some() {
        return Err(measure_memory(&work, contenders)?.into());
    }
    for contender in &mut contenders {
        if let Ok(run) = &mut contender.run {
            match run() {
                Ok(first) => contender.turns.push(first),
                Err(error) => contender.run = Err(format!("{error:#}")),
            }
        }
        if let (Role::Zvf, Err(why)) = (contender.role, &contender.run) {
            bail!("{work}: {}: {why}", contender.name);
        }
    }
    let count = check_counts(&work, &contenders)?;
    let begun = Instant::now();
    for turn in 0..bench.turns {
        if turn > 0 && begun.elapsed() > Duration::from_secs(bench.patience) {
            break;
        }
        for contender in &mut contenders {
            if let Ok(run) = &mut contender.run {
                let turn = measure_turn(run);
                contender.turns.push(turn.with_context(|| format!("{work}: {}", contender.name))?);
            }
        }
    }
    let is_sampled = bench.turns > 0 && bench.is_thorough();
    let mut row = Row { work, count, ahead: None, growth: None, sides: Vec::new() };
    for Contender { name, role, run, file, turns } in contenders {
        let stored = file.as_deref().and_then(limit::disk_size);
        let mut side = Side { name, role, result: Err(String::new()), stored, profile: None };
        side.result = match run {
            Ok(mut run) => {
                side.profile = (is_sampled && role.is_ours())
                    .then(|| profile::profile_work(bench.listening(), &mut run));
                let (first, turns) = turns.split_first().context("who runs has a first turn")?;
                Ok(summarize_turns(*first, turns))
            }
            Err(why) => Err(why),
        };
        row.sides.push(side);
    }
    if bench.turns > 0 {
        add_memory(part, &mut row)?;
    }
    Ok(row)
}

/// Runs one turn and measures the processor time of this process and its children. A turn may
/// repeat the work, so the processor time is scaled by the share of the measured work in the turn's
/// duration.
fn measure_turn(run: &mut Run<'_>) -> anyhow::Result<Turn> {
    let (before, begun) = (processor_time(std::process::id()), Instant::now());
    let mut turn = run()?;
    if turn.cost.processor.is_none()
        && let (Some(before), Some(after)) = (before, processor_time(std::process::id()))
    {
        let share = after.saturating_sub(before).as_secs_f64() / begun.elapsed().as_secs_f64();
        turn.cost.processor = Some(Duration::from_secs_f64(turn.seconds * share));
    }
    Ok(turn)
}

/// Combines the turns of a contender: the median time; requests and bytes of the last turn, when
/// caches are warm; the peak memory; the mean processor time, which is counted in ticks.
pub(crate) fn summarize_turns(first: Turn, turns: &[Turn]) -> Turn {
    let Some(last) = turns.last() else { return first };
    let memory = turns.iter().map(|turn| turn.cost.memory).fold(first.cost.memory, Option::max);
    let seconds = median(turns.iter().map(|turn| turn.seconds).collect());
    let processor = turns.iter().map(|turn| turn.cost.processor).sum::<Option<Duration>>();
    let processor = processor.map(|all| all / turns.len() as u32);
    Turn { seconds, count: first.count, cost: Cost { memory, processor, ..last.cost } }
}

/// Runs zvf's side of the workload once; returns the peak memory of this process.
fn measure_memory(work: &str, contenders: Vec<Contender<'_>>) -> anyhow::Result<Held> {
    let ours = contenders.into_iter().find(|contender| contender.role == Role::Zvf);
    ours.with_context(|| format!("{work}: no zvf"))?.run_once()?;
    Ok(Held(read_stats(std::process::id()).map_or(0, |stats| stats.peak)))
}

/// Runs zvf's side in a separate process, to measure its memory.
fn add_memory(part: &str, row: &mut Row) -> anyhow::Result<()> {
    let ours = row.sides.iter_mut().find(|side| side.role == Role::Zvf);
    if let Some(Ok(turn)) = ours.map(|side| &mut side.result)
        && turn.cost.memory.is_none()
    {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1));
        let output = command.args(["--part", part, "--own", &row.work]).output()?;
        let held = String::from_utf8_lossy(&output.stdout).trim().parse::<u64>();
        let held = held.with_context(|| format!("{}: no memory is told: {output:?}", row.work))?;
        turn.cost.memory = Some(held).filter(|held| *held > 0);
    }
    Ok(())
}

/// Checks that the counts of all first turns are equal, and returns the count.
fn check_counts(work: &str, contenders: &[Contender<'_>]) -> anyhow::Result<Option<u64>> {
    let mut agreed: Option<(u64, &str)> = None;
    for Contender { name, turns, .. } in contenders {
        let Some(found) = turns.first().and_then(|turn| turn.count) else { continue };
        let (expected, who) = *agreed.get_or_insert((found, name));
        ensure!(found == expected, "{work}: {who} counts {expected}, {name} counts {found}");
    }
    Ok(agreed.map(|(count, _)| count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting_contender(name: &str, role: Role, count: u64) -> Contender<'_> {
        Contender::new(name, role, move || Ok(Turn::from_seconds(1.0).with_count(count)))
    }

    /// Makes a turn with its memory, so that no process is started to measure it.
    fn new_turn(seconds: f64, bytes: u64, memory: u64) -> Turn {
        let processor = Some(Duration::from_secs_f64(2.0 * seconds));
        let cost = Cost { requests: None, bytes: Some(bytes), memory: Some(memory), processor };
        Turn { cost, ..Turn::from_seconds(seconds) }
    }

    #[test]
    fn work_fails_without_zvf_and_where_others_count_something_else() {
        let absent = Contender::new_absent("zvf", Role::Zvf, "broken");
        let ours = counting_contender("zvf", Role::Zvf, 3);
        let other = counting_contender("other", Role::Peer, 4);
        for (sides, why) in [
            (vec![absent], "a box: zvf: broken"),
            (vec![ours, other], "a box: zvf counts 3, other counts 4"),
        ] {
            let row = run_contest(&Bench::with_turns(2), "ask", "a box".into(), sides);
            assert_eq!(row.unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn who_is_not_here_is_in_the_row_and_takes_no_turns() {
        let mut turns = 0;
        let ours = Contender::new("zvf", Role::Zvf, || {
            turns += 1;
            let [seconds, bytes] = [[1.0, 900.0], [4.0, 30.0], [2.0, 20.0], [3.0, 10.0]][turns - 1];
            Ok(new_turn(seconds, bytes as u64, turns as u64 % 3).with_count(7))
        });
        let sides = vec![ours, Contender::new_absent("other", Role::Peer, "no wheel")];
        let row = run_contest(&Bench::with_turns(3), "ask", "a box".into(), sides).unwrap();
        assert_eq!(
            (row.count, row.seconds(Role::Zvf), row.seconds(Role::Peer)),
            (Some(7), Some(3.0), None)
        );
        // Bytes are those of the last turn, when caches are warm; memory is the peak.
        let processor = Some(Duration::from_secs(6));
        let cost = Cost { requests: None, bytes: Some(10), memory: Some(2), processor };
        assert_eq!(row.sides[0].result.as_ref().unwrap().cost, cost);
        assert_eq!(row.sides[1].result.as_ref().unwrap_err(), "no wheel");
        assert_eq!(turns, 4);
    }

    #[test]
    fn who_takes_long_has_fewer_turns() {
        let mut turns = 0;
        let ours = Contender::new("zvf", Role::Zvf, || {
            turns += 1;
            Ok(new_turn(1.0, 0, 1))
        });
        let bench = Bench { patience: 0, ..Bench::with_turns(9) };
        run_contest(&bench, "ask", "a box".into(), vec![ours]).unwrap();
        assert_eq!(turns, 2);
    }

    #[test]
    fn a_process_of_our_own_does_nothing_but_our_side() {
        let others = Contender::new("other", Role::Peer, || anyhow::bail!("not to be asked"));
        let sides = vec![others, counting_contender("zvf", Role::Zvf, 3)];
        let bench = Bench { own: Some("a box".into()), ..Bench::with_turns(3) };
        let error = run_contest(&bench, "ask", "a box".into(), sides).unwrap_err();
        let held = error.downcast_ref::<Held>().unwrap();
        assert!(!cfg!(target_os = "linux") || held.0 > 1 << 20, "{held:?}");
    }
}
