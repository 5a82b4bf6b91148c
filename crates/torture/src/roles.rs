//! `roles`: every pair of eight roles on one store at the same time, and all eight together.
//!
//! ```text
//! short reader    `zvf query`
//! long reader     the same, stopped in the middle for a while
//! edit            one transaction: every vertex gets the number of the edit, and an object is added
//! rewrite         `rewrite`, `pyramid` or `repair` in place
//! replacement     `create --overwrite`, of vertices with a number of their own
//! gc              `gc --grace 0s`
//! tasks           `task plan pyramid`, `run` and `finish`
//! server          a query of one `zvf serve`, which runs all the time
//! ```
//!
//! Every answer must be one state of the store during the query: all vertices have the same number,
//! each edit that ended before is included, and no part of a replaced store. At the end the same
//! holds, no refused edit is included, and the store is valid.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Output;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::commands::{Zvf, listed, write_lines};
use crate::kill9::send_signal;
use crate::serve::{Client, Server};
use crate::{Report, in_parallel};
use archives::random::Random;

/// Run every pair of roles on one store.
#[derive(clap::Args)]
pub(crate) struct Roles {
    /// What each of two roles does at least, in stores that begin anew after five of them.
    #[arg(long, default_value_t = 1000)]
    rounds: usize,
    /// Only pairs with this role.
    #[arg(long, value_enum)]
    only: Option<Role>,
    /// The names of the store.
    #[arg(long, value_enum, default_value_t = Form::Plain)]
    form: Form,
}

/// The names of the store.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Form {
    /// A folder.
    Plain,
    /// A folder, which the second role finds by a symbolic link.
    Link,
    /// A packed store, which is read and edited only.
    Pack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Role {
    ShortReader,
    LongReader,
    Edit,
    Rewrite,
    Replacement,
    Gc,
    Tasks,
    Server,
}

impl Role {
    const fn works_on_packs(self) -> bool {
        matches!(self, Self::ShortReader | Self::LongReader | Self::Edit)
    }

    /// Returns whether a reader that meets this role may have to retry.
    const fn replaces(self) -> bool {
        matches!(self, Self::Rewrite | Self::Replacement | Self::Tasks)
    }
}

impl Roles {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let mut random = report.random();
        let roles: Vec<Role> = Role::value_variants()
            .iter()
            .copied()
            .filter(|role| self.form != Form::Pack || role.works_on_packs())
            .collect();
        let pairs = roles.iter().enumerate();
        let pairs =
            pairs.flat_map(|(n, first)| roles[n..].iter().map(|second| vec![*first, *second]));
        for group in pairs.chain([roles.clone()]) {
            if self.only.is_some_and(|only| !group.contains(&only)) {
                continue;
            }
            let (begin, failures) = (Instant::now(), report.failures);
            for episode in 0..self.rounds.div_ceil(TURNS) {
                let scratch = archives::scratch();
                let arena = Arena::new(&self, report.zvf(scratch.path())?, episode % 2 == 1)?;
                let turns = TURNS.min(self.rounds - episode * TURNS);
                for failure in arena.play(&group, turns, &mut random) {
                    report.count(failure.with_context(|| format!("{group:?}")));
                }
            }
            let (failures, time) = (report.failures - failures, begin.elapsed().as_secs());
            report.print_note(&format!("{group:?}: {failures} failures, {time} s"));
        }
        Ok(())
    }
}

/// A change that was started.
#[derive(Clone, Copy)]
struct Change {
    begin: Instant,
    /// When it ended, and whether it was acknowledged; `None` if that is unknown.
    ended: Option<(Instant, bool)>,
}

/// One state of the store.
#[derive(Default)]
struct View {
    /// The number of each vertex.
    numbers: BTreeSet<i64>,
    /// The replacements that the vertices without an edit come from.
    bases: BTreeSet<i64>,
    /// The vertices without an edit.
    first_rows: usize,
    /// The vertices of each edit.
    edits: BTreeMap<i64, usize>,
}

/// One store under test.
struct Arena {
    zvf: Zvf,
    /// The names by which the two roles find the store.
    names: [&'static str; 2],
    begin: Instant,
    next: AtomicI64,
    turns: AtomicUsize,
    /// Edits by their numbers, and replacements by theirs, which are negative.
    changes: Mutex<BTreeMap<i64, Change>>,
}

impl Arena {
    /// Creates a store, with a journal if it `has_journal`.
    fn new(how: &Roles, zvf: Zvf, has_journal: bool) -> anyhow::Result<Self> {
        let names = match how.form {
            Form::Plain => ["a.zv", "a.zv"],
            Form::Link => ["a.zv", "link.zv"],
            Form::Pack => ["a.tet", "a.tet"],
        };
        let arena = Self {
            zvf,
            names,
            begin: Instant::now(),
            next: AtomicI64::new(1),
            turns: AtomicUsize::new(0),
            changes: Mutex::default(),
        };
        arena.zvf.run(&arena.create_line(0)?)?;
        match how.form {
            Form::Plain => {}
            Form::Link => symlink("a.zv", arena.zvf.place.join("link.zv"))?,
            Form::Pack => drop(arena.zvf.run("pack -q a.zv a.tet")?),
        }
        if has_journal {
            arena.edit(arena.names[0])?;
        }
        Ok(arena)
    }

    /// Runs roles until each had its turns. Returns the results of each turn and of the checks at
    /// the end.
    fn play(&self, roles: &[Role], turns: usize, random: &mut Random) -> Vec<anyhow::Result<()>> {
        let seeds: Vec<u64> = roles.iter().map(|_| random.next()).collect();
        let had: Vec<AtomicUsize> = roles.iter().map(|_| AtomicUsize::new(0)).collect();
        let play = |at: usize| -> Vec<anyhow::Result<()>> {
            let mut random = Random::new(seeds[at]);
            let mut server = None;
            let mut found = Vec::new();
            let must_go_on = || had.iter().any(|had| had.load(Ordering::SeqCst) < turns);
            while must_go_on() && found.len() < turns * MAX_TURNS {
                std::thread::sleep(Duration::from_micros(random.next() % PAUSE_MICROS));
                found.push(self.take_turn(roles, at, &mut random, &mut server));
                had[at].fetch_add(1, Ordering::SeqCst);
            }
            found
        };
        let mut found: Vec<_> = in_parallel(roles.len(), play).into_iter().flatten().collect();
        found.push(self.check_end().context("in the end"));
        found
    }

    fn take_turn(
        &self,
        roles: &[Role],
        at: usize,
        random: &mut Random,
        server: &mut Option<Server>,
    ) -> anyhow::Result<()> {
        let name = self.names[at % 2];
        // An edit of a pack replaces it.
        let is_pack = name.ends_with(".tet");
        let may_begin_again = is_pack || roles.iter().any(|role| role.replaces());
        match roles[at] {
            Role::ShortReader => self.read(name, None, may_begin_again),
            Role::LongReader => {
                let pause = Duration::from_micros(random.next() % PAUSE_MICROS);
                self.read(name, Some(pause), may_begin_again)
            }
            Role::Server => self.ask_server(name, server, may_begin_again),
            Role::Edit => self.edit(name),
            Role::Replacement => {
                let number = -self.next.fetch_add(1, Ordering::SeqCst);
                self.change(number, &self.create_line(number)?).map(drop)
            }
            Role::Rewrite => {
                let rewrites: Vec<[&str; 1]> = listed("rewrites").collect();
                let [rewrite] = random.choose(&rewrites);
                self.run_writer(&format!("{rewrite} -q {name}")).map(drop)
            }
            Role::Gc => {
                self.run_writer(&format!("history gc -q {name} --grace 0s --keep 1")).map(drop)
            }
            Role::Tasks => {
                let folder = format!("plan-{}", self.turns.fetch_add(1, Ordering::SeqCst));
                let plan = format!("pyramid -q {name} --work-dir {folder} --levels 1 --in-place");
                // A refused step leaves nothing for the next one.
                let _is_done = self.run_writer(&format!("task plan {plan}"))?
                    && self.run_writer(&format!("task run -q {folder} --all"))?
                    && self.run_writer(&format!("task finish -q {folder} --remove"))?;
                Ok(())
            }
        }
    }

    /// Reads the store once; with a pause the reader is stopped afterwards.
    fn read(&self, name: &str, pause: Option<Duration>, may_retry: bool) -> anyhow::Result<()> {
        let begin = Instant::now();
        let child = self.zvf.start(&format!("query -q --json {name} --level 0 --format csv"))?;
        if let Some(pause) = pause {
            std::thread::sleep(pause);
            send_signal(&child, "-STOP")?;
            std::thread::sleep(HOLD);
            send_signal(&child, "-CONT")?;
        }
        let ended = child.wait_with_output()?;
        if ended.status.success() {
            return self.check_view(&View::parse(&ended.stdout)?, begin, Instant::now());
        }
        let (class, text) = find_class(&ended);
        let is_right = may_retry && RETRIES.contains(&&*class);
        ensure!(is_right, "a reader ended with {text}");
        Ok(())
    }

    fn ask_server(
        &self,
        name: &str,
        server: &mut Option<Server>,
        may_retry: bool,
    ) -> anyhow::Result<()> {
        let begin = Instant::now();
        let mut ask = || -> anyhow::Result<_> {
            let running = match server {
                Some(running) => running,
                None => server.insert(self.start_server(name)?),
            };
            let target = format!("/api/{name}/query?level=0&format=csv");
            let head = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            Client::connect(running.address)?.exchange(format!("GET {target} {head}").as_bytes())
        };
        let answer = ask()?;
        if answer.status == Some(200) {
            let body = answer.decode_body().context("an answer that is cut off")?;
            return self.check_view(&View::parse(&body)?, begin, Instant::now());
        }
        let text = String::from_utf8_lossy(answer.body()).into_owned();
        let is_right = may_retry && RETRIES.iter().any(|class| text.contains(class));
        ensure!(is_right, "the server said {:?} {text}", answer.status);
        Ok(())
    }

    fn start_server(&self, name: &str) -> anyhow::Result<Server> {
        Server::new(self.zvf.start(&format!("serve {name} --json --bind 127.0.0.1:0"))?)
    }

    /// Commits one transaction.
    fn edit(&self, name: &str) -> anyhow::Result<()> {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let script = format!("edit-{number}.jsonl");
        let x = number as f64 + 0.25;
        let lines = [
            json!({"op": "vertex.set", "vertices": {"all": true}, "values": {"g": number}}),
            json!({"op": "object.add", "positions": [[x, 0.25], [x, 30.25]], "attributes": {"g": [number, number], "h": [0, 0]}}),
        ];
        let lines = lines.map(|line| format!("{line}\n")).concat();
        fs::write(self.zvf.place.join(&script), lines)?;
        let line = format!("edit --json {name} --script {script}");
        let Some(ended) = self.change(number, &line)? else { return Ok(()) };
        let report: Value = serde_json::from_slice(&ended.stdout).unwrap_or_default();
        match report["changed"] {
            Value::Bool(true) => Ok(()),
            _ => Err(anyhow!("edit {number} ended with 0 and says {report}")),
        }
    }

    /// Runs a change with a number. Returns its output if it was acknowledged.
    fn change(&self, number: i64, line: &str) -> anyhow::Result<Option<Output>> {
        let begin = Instant::now();
        self.changes().insert(number, Change { begin, ended: None });
        let ended = self.zvf.ask(line)?;
        let (is_done, refused) = (ended.status.success(), check_writer(&ended));
        let is_unknown = find_class(&ended).0 == "CommitUnknown";
        let known = (!is_unknown).then_some((Instant::now(), is_done));
        self.changes().insert(number, Change { begin, ended: known });
        refused.with_context(|| line.to_owned())?;
        Ok(is_done.then_some(ended))
    }

    /// Returns whether a writer did its work; it may be refused because of another one.
    fn run_writer(&self, line: &str) -> anyhow::Result<bool> {
        let ended = self.zvf.ask(&format!("{line} --json"))?;
        check_writer(&ended).with_context(|| line.to_owned())?;
        Ok(ended.status.success())
    }

    fn check_end(&self) -> anyhow::Result<()> {
        let begin = Instant::now();
        for name in self.names {
            let ended = self.zvf.run(&format!("query -q {name} --level 0 --format csv"))?;
            let view = View::parse(&ended.stdout)?;
            self.check_view(&view, begin, Instant::now())?;
            for number in view.edits.keys() {
                if let Some((_, false)) = self.changes().get(number).and_then(|edit| edit.ended) {
                    bail!("edit {number} was refused, and is there");
                }
            }
        }
        let validated = self.zvf.ask(&format!("validate -q {}", self.names[0]))?;
        let text = String::from_utf8_lossy(&validated.stdout);
        let first = text.lines().find(|line| line.contains("error")).unwrap_or_default();
        ensure!(validated.status.success(), "not valid: {first}");
        Ok(())
    }

    /// Checks that the view is one state of the store between two moments.
    fn check_view(&self, view: &View, begin: Instant, end: Instant) -> anyhow::Result<()> {
        let changes = self.changes().clone();
        let last = *view.numbers.first().context("no vertex")?;
        ensure!(view.numbers.len() <= 1, "mixed: vertices of the changes {:?}", view.numbers);
        ensure!(
            view.first_rows == ROWS && !view.edits.values().any(|rows| *rows != 2),
            "{} vertices, and of edits {:?}",
            view.first_rows,
            view.edits
        );
        ensure!(
            last <= 0 || view.edits.contains_key(&last),
            "mixed: vertices of edit {last}, without its object"
        );
        let is_before = |change: &Change| change.ended.is_some_and(|(at, done)| done && at < begin);
        // A store with a journal is not replaced: an acknowledged edit remains.
        let lost = |(number, change): &(&i64, &Change)| {
            **number > 0 && is_before(change) && !view.edits.contains_key(*number)
        };
        if let Some((number, _)) = changes.iter().find(lost) {
            bail!("lost: edit {number} was acknowledged, {:?} are there", view.edits);
        }
        let base = *view.bases.first().context("no vertex")?;
        let is_alone = view.bases.len() == 1 && (last > 0 || last == base);
        let is_begun = |number: &i64| changes.get(number).is_some_and(|change| change.begin < end);
        ensure!(
            is_alone && (base >= 0 || is_begun(&base)) && view.edits.keys().all(is_begun),
            "mixed: vertices of the replacements {:?}",
            view.bases
        );
        let ended = changes.get(&base).and_then(|change| change.ended).map(|(at, _)| at);
        let ended = if base == 0 { Some(self.begin) } else { ended };
        let newer = changes.range(..0).find(|(_, change)| {
            is_before(change) && ended.is_some_and(|ended| ended < change.begin)
        });
        match newer {
            Some((number, _)) => Err(anyhow!("lost: replacement {number}, {base} is there")),
            None => Ok(()),
        }
    }

    fn changes(&self) -> MutexGuard<'_, BTreeMap<i64, Change>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the command that creates the store, whose vertices all have a number.
    fn create_line(&self, number: i64) -> anyhow::Result<String> {
        let input = format!("input{number}.csv");
        write_lines(&self.zvf.place.join(&input), "x,y,object,g,h", ROWS as u64, |n| {
            format!("{},{},{},{number},{number}", n % 20 * 5, n / 20 * 8, n / 20)
        })?;
        let options = "--overwrite --kind polyline --chunk-shape 25,25";
        Ok(format!("create -q --json {input} a.zv {options}"))
    }
}

impl View {
    fn parse(csv: &[u8]) -> anyhow::Result<Self> {
        let text = String::from_utf8_lossy(csv);
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let mut view = Self::default();
        for line in lines {
            let fields: Vec<&str> = line.split(',').collect();
            let value = |name: &str| -> anyhow::Result<f64> {
                let field = names.iter().position(|other| *other == name);
                let field = field.and_then(|at| fields.get(at)?.parse().ok());
                field.with_context(|| format!("no {name} in {line:?} below {names:?}"))
            };
            let x = value("x")?;
            view.numbers.insert(value("g")? as i64);
            if x.fract() == 0.0 {
                view.first_rows += 1;
                view.bases.insert(value("h")? as i64);
            } else {
                *view.edits.entry(x as i64).or_default() += 1;
            }
        }
        Ok(view)
    }
}

/// Returns the class of the error of a command, and its whole message.
fn find_class(ended: &Output) -> (String, String) {
    let text = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
    let error = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let class = error.filter_map(|error| Some(error["class"].as_str()?.to_owned())).next_back();
    (class.unwrap_or_default(), format!("{}: {text}", ended.status))
}

/// Checks that a writer did its work, or was refused because of another one.
fn check_writer(ended: &Output) -> anyhow::Result<()> {
    let (class, text) = find_class(ended);
    let is_replacement = text.contains("without a journal");
    let is_right = ended.status.success() || is_replacement || REFUSALS.contains(&&*class);
    ensure!(is_right, "a writer ended with {text}");
    Ok(())
}

/// Errors of a writer that another one overtook.
const REFUSALS: [&str; 4] = ["Conflict", "FileChanged", "AlreadyExists", "Unavailable"];
/// Errors of a reader whose store was replaced meanwhile.
const RETRIES: [&str; 3] = ["Conflict", "FileChanged", "Unavailable"];
/// The vertices of the store before an edit: twelve lines.
const ROWS: usize = 240;
/// After this many turns of each role a new store is created.
const TURNS: usize = 5;
/// The largest number of turns of a role relative to the requested number, while the other one is
/// not finished.
const MAX_TURNS: usize = 4;
/// How long a long reader is stopped.
const HOLD: Duration = Duration::from_millis(200);
/// The longest pause before a turn.
const PAUSE_MICROS: u64 = 20_000;
