//! Runs one workload on all contenders, in turns.
//!
//! ```text
//! once     everyone does it: answers are compared, caches are filled, who cannot says why
//! turns    one after the other, again and again, so that a slow moment of the machine meets all
//! after    medians
//! memory   zvf does it once more, in a process of its own that does nothing else
//! ```
//!
//! A contender whose count differs from zvf's fails the workload. An absent contender is in the
//! row, with the reason; zvf itself must be present. Long workloads have fewer turns.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::limit;
use crate::process::{processor_time, read_stats};
use crate::row::{Cost, Role, Row, Side, Turn};
use crate::settings::Bench;

type Run<'a> = Box<dyn FnMut() -> anyhow::Result<Turn> + 'a>;

/// One contender of a workload.
pub(crate) struct Contender<'a> {
    name: String,
    role: Role,
    /// Runs the workload. One that is absent fails the first time, and says why.
    run: Run<'a>,
    /// The file or folder that it queries, if there is one.
    file: Option<PathBuf>,
}

impl<'a> Contender<'a> {
    pub(crate) fn new(
        name: impl Into<String>,
        role: Role,
        run: impl FnMut() -> anyhow::Result<Turn> + 'a,
    ) -> Self {
        Self { name: name.into(), role, run: Box::new(run), file: None }
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

    /// Sets the file or folder that it queries, whose size is in the row.
    pub(crate) fn with_file(self, file: impl AsRef<Path>) -> Self {
        Self { file: Some(file.as_ref().to_owned()), ..self }
    }

    /// Adds a step outside the measured time.
    pub(crate) fn and_then(mut self, after: impl Fn(Turn) -> anyhow::Result<Turn> + 'a) -> Self {
        Self { run: Box::new(move || after((self.run)()?)), ..self }
    }

    /// Leaves out the count: it does other work of the same size.
    pub(crate) fn without_count(self) -> Self {
        self.and_then(|turn| Ok(Turn { count: None, ..turn }))
    }

    /// Runs the workload once.
    pub(crate) fn run_once(&mut self) -> anyhow::Result<Turn> {
        (self.run)().with_context(|| self.name.clone())
    }

    /// Creates the limit for reads: reading the files, each with one call into fresh memory, and
    /// nothing else.
    pub(crate) fn reading(name: &str, files: &'a [PathBuf]) -> Self {
        Self::limit(name, move || {
            let sizes = files.iter().filter_map(|file| Some(file.metadata().ok()?.len()));
            let sizes: Vec<u64> = sizes.collect();
            ensure!(files.is_empty() || !sizes.is_empty(), "its files are not there");
            let cost = Cost::of_reads(files.len() as u64, sizes.iter().sum());
            Ok(limit::measure_read(files)?.with_cost(cost))
        })
    }

    /// Creates the limit for copies: copying bytes within memory.
    pub(crate) fn copying(name: &str, bytes: Vec<u8>) -> Self {
        let cost = Cost { bytes: Some(bytes.len() as u64), ..Cost::default() };
        Self::limit(name, move || {
            let (turn, ()) = Turn::measure_repeated(|| {
                drop(std::hint::black_box(bytes.clone()));
                Ok(())
            })?;
            Ok(turn.with_cost(cost))
        })
    }
}

/// Runs the workload of `row` on all contenders, turn by turn.
pub(crate) fn run_contest(
    bench: &Bench,
    part: &'static str,
    mut row: Row,
    mut contenders: Vec<Contender<'_>>,
) -> anyhow::Result<Row> {
    let work = &row.work;
    let mut all_turns = Vec::new();
    for Contender { name, role, run, .. } in &mut contenders {
        let first = run().map(|first| vec![first]).map_err(|error| format!("{error:#}"));
        if let (Role::Zvf, Err(why)) = (role, &first) {
            bail!("{work}: {name}: {why}");
        }
        all_turns.push(first);
    }
    // All contenders that count must agree with the first of them.
    let mut counter = "";
    for (Contender { name, .. }, turns) in contenders.iter().zip(&all_turns) {
        let Some(found) = turns.as_ref().ok().and_then(|turns| turns[0].count) else { continue };
        let expected = *row.count.get_or_insert_with(|| {
            counter = name;
            found
        });
        ensure!(found == expected, "{work}: {counter} counts {expected}, {name} counts {found}");
    }
    let begun = Instant::now();
    for turn in 0..bench.turns {
        if turn > 0 && begun.elapsed() > Duration::from_secs(bench.patience) {
            break;
        }
        for (Contender { name, run, .. }, turns) in contenders.iter_mut().zip(&mut all_turns) {
            if let Ok(turns) = turns {
                turns.push(measure_turn(run).with_context(|| format!("{work}: {name}"))?);
            }
        }
    }
    for (contender, turns) in contenders.into_iter().zip(all_turns) {
        let Contender { name, role, file, .. } = contender;
        let result = turns.map(|turns| summarize_turns(turns[0], &turns[1..]));
        let stored = file.as_deref().and_then(limit::disk_size);
        row.sides.push(Side { name, role, result, stored });
    }
    if bench.turns > 0 {
        add_memory(part, &mut row)?;
    }
    Ok(row)
}

/// Runs zvf's side of the workload once; returns the peak memory of this process.
pub(crate) fn measure_memory(contenders: Vec<Contender<'_>>) -> anyhow::Result<u64> {
    let ours = contenders.into_iter().find(|contender| contender.role == Role::Zvf);
    ours.context("no zvf")?.run_once()?;
    Ok(read_stats(std::process::id()).map_or(0, |stats| stats.peak))
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
    let mut seconds: Vec<f64> = turns.iter().map(|turn| turn.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let seconds = seconds[seconds.len() / 2];
    let processor = turns.iter().map(|turn| turn.cost.processor).sum::<Option<Duration>>();
    let processor = processor.map(|all| all / turns.len() as u32);
    Turn { seconds, count: first.count, cost: Cost { memory, processor, ..last.cost } }
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
        let absent = Contender::zvf("zvf", || anyhow::bail!("broken"));
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
        let absent = Contender::new("other", Role::Peer, || anyhow::bail!("no wheel"));
        let sides = vec![ours, absent];
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
        let held = measure_memory(sides).unwrap();
        assert!(!cfg!(target_os = "linux") || held > 1 << 20, "{held}");
    }
}
