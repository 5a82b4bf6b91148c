//! One piece of work, all who do it, in turns.
//!
//! ```text
//! once     everyone does it: answers are compared, caches are filled, who cannot says why
//! turns    one after the other, again and again, so that a slow moment of the machine meets all
//! after    medians
//! ```
//!
//! Whoever counts something else than zvf does fails the work. Who cannot be here is in the row, with the
//! reason; zvf itself must be.

use anyhow::{Context as _, ensure};

use crate::report::median;

/// Who a contender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// zvf, in the form that is compared with the others.
    Zvf,
    /// zvf, otherwise.
    Variant,
    /// The reference implementation of the format.
    Reference,
    /// Something else that people use.
    Peer,
    /// What the machine takes for the same bytes, done by nobody.
    Limit,
}

/// What one turn took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) seconds: f64,
    /// What was counted, where something was.
    pub(crate) count: Option<u64>,
    pub(crate) cost: Cost,
}

/// What it took besides time, where that is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Requests sent, or files opened.
    pub(crate) requests: Option<u64>,
    /// Bytes read.
    pub(crate) bytes: Option<u64>,
    /// The most memory held.
    pub(crate) memory: Option<u64>,
}

impl Turn {
    /// A turn of which only the time is known.
    pub(crate) const fn of(seconds: f64) -> Self {
        let cost = Cost { requests: None, bytes: None, memory: None };
        Self { seconds, count: None, cost }
    }

    /// The same with what was counted.
    pub(crate) const fn counting(self, count: u64) -> Self {
        Self { count: Some(count), ..self }
    }
}

type Run<'a> = Box<dyn FnMut() -> anyhow::Result<Turn> + 'a>;

/// One who does the work.
pub(crate) struct Contender<'a> {
    name: String,
    role: Role,
    run: Result<Run<'a>, String>,
}

impl<'a> Contender<'a> {
    /// One who is here.
    pub(crate) fn new(
        name: impl Into<String>,
        role: Role,
        run: impl FnMut() -> anyhow::Result<Turn> + 'a,
    ) -> Self {
        Self { name: name.into(), role, run: Ok(Box::new(run)) }
    }

    /// One who is not, and why.
    pub(crate) fn absent(name: impl Into<String>, role: Role, why: impl Into<String>) -> Self {
        Self { name: name.into(), role, run: Err(why.into()) }
    }
}

/// One piece of work and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) part: &'static str,
    pub(crate) work: String,
    /// What all counted.
    pub(crate) count: Option<u64>,
    /// At least how many times as fast as the reference zvf is wanted to be.
    pub(crate) wanted: Option<f64>,
    pub(crate) sides: Vec<Side>,
}

/// One contender of a row.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The median turn, or why there is none.
    pub(crate) result: Result<Turn, String>,
}

impl Row {
    /// The median of the first one of a role.
    pub(crate) fn seconds(&self, role: Role) -> Option<f64> {
        let side = self.sides.iter().find(|side| side.role == role && side.result.is_ok())?;
        side.result.as_ref().ok().map(|turn| turn.seconds)
    }
}

/// Has everyone do the work, `turns` times.
pub(crate) fn contest(
    part: &'static str,
    work: impl Into<String>,
    turns: usize,
    mut contenders: Vec<Contender<'_>>,
) -> anyhow::Result<Row> {
    let work = work.into();
    let mut firsts = Vec::new();
    for contender in &mut contenders {
        let first = match &mut contender.run {
            Ok(run) => run().map_err(|error| format!("{error:#}")),
            Err(why) => Err(why.clone()),
        };
        if let (Role::Zvf, Err(why)) = (contender.role, &first) {
            anyhow::bail!("{work}: {}: {why}", contender.name);
        }
        firsts.push(first);
    }
    let count = agreed(&work, &contenders, &firsts)?;
    let mut times = vec![Vec::new(); contenders.len()];
    for _ in 0..turns {
        for ((contender, first), times) in contenders.iter_mut().zip(&firsts).zip(&mut times) {
            if let (Ok(run), Ok(_)) = (&mut contender.run, first) {
                let turn = run().with_context(|| format!("{work}: {}", contender.name))?;
                times.push(turn.seconds);
            }
        }
    }
    let sides = contenders.into_iter().zip(firsts).zip(times);
    let sides = sides.map(|((contender, first), times)| Side {
        name: contender.name,
        role: contender.role,
        // The first turn is kept where no other follows: what it took besides time does not change.
        result: first.map(|first| match times.as_slice() {
            [] => first,
            _ => Turn { seconds: median(times), ..first },
        }),
    });
    Ok(Row { part, work, count, wanted: None, sides: sides.collect() })
}

/// What all count who count.
fn agreed(
    work: &str,
    contenders: &[Contender<'_>],
    firsts: &[Result<Turn, String>],
) -> anyhow::Result<Option<u64>> {
    let mut agreed: Option<(u64, &str)> = None;
    for (contender, first) in contenders.iter().zip(firsts) {
        let Some(found) = first.as_ref().ok().and_then(|turn| turn.count) else { continue };
        let (wanted, who) = *agreed.get_or_insert((found, &contender.name));
        ensure!(
            found == wanted,
            "{work}: {who} counts {wanted}, {} counts {found}",
            contender.name
        );
    }
    Ok(agreed.map(|(count, _)| count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(name: &str, role: Role, count: u64) -> Contender<'_> {
        Contender::new(name, role, move || Ok(Turn::of(1.0).counting(count)))
    }

    #[test]
    fn who_counts_something_else_fails_the_work() {
        let sides = vec![counting("zvf", Role::Zvf, 3), counting("other", Role::Peer, 4)];
        let error = contest("ask", "a box", 2, sides).unwrap_err();
        assert_eq!(error.to_string(), "a box: zvf counts 3, other counts 4");
    }

    #[test]
    fn who_is_not_here_is_in_the_row_and_takes_no_turns() {
        let mut turns = 0;
        let ours = Contender::new("zvf", Role::Zvf, || {
            turns += 1;
            Ok(Turn::of(f64::from(turns)).counting(7))
        });
        let sides = vec![ours, Contender::absent("other", Role::Peer, "no wheel")];
        let row = contest("ask", "a box", 3, sides).unwrap();
        assert_eq!(
            (row.count, row.seconds(Role::Zvf), row.seconds(Role::Peer)),
            (Some(7), Some(3.0), None)
        );
        assert_eq!(row.sides[1].result.as_ref().unwrap_err(), "no wheel");
        assert_eq!(turns, 4);
    }

    #[test]
    fn without_zvf_there_is_no_row() {
        let sides = vec![Contender::absent("zvf", Role::Zvf, "broken")];
        let error = contest("ask", "a box", 1, sides).unwrap_err();
        assert_eq!(error.to_string(), "a box: zvf: broken");
    }
}
