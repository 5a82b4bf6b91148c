//! The identity of a process: the boot of the machine, the process id, the start time.
//!
//! ```text
//! <machine, 16 hex digits>-<process number>-<ticks from the start of the machine to its own>
//! ```
//!
//! The machine is identified by a hash of the boot id and the pid namespace, so that containers
//! differ and no machine identity is written down. On other systems than Linux nothing is known.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// A process on some machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Process {
    machine: u64,
    number: u32,
    start: u64,
}

impl Process {
    /// Returns this process, if it can be identified.
    pub(super) fn current() -> Option<Self> {
        let number = std::process::id();
        let (start, _) = start(number)?;
        Some(Self { machine: machine()?, number, start })
    }

    /// Parses the output of [`to_string`](ToString::to_string).
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let machine = u64::from_str_radix(parts.next()?, 16).ok()?;
        let number = parts.next()?.parse().ok()?;
        let start = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Self { machine, number, start })
    }

    /// Returns whether this was a process of this machine and has ended. Nothing is known about
    /// other machines.
    pub(super) fn has_ended(&self) -> bool {
        if machine() != Some(self.machine) {
            return false;
        }
        match start(self.number) {
            Some((start, is_running)) => start != self.start || !is_running,
            // Processes of other users may be hidden; if they are, so is process 1.
            None => start(1).is_some(),
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}-{}", self.machine, self.number, self.start)
    }
}

fn machine() -> Option<u64> {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
    let mut hasher = DefaultHasher::new();
    (boot, space).hash(&mut hasher);
    Some(hasher.finish())
}

/// Returns the start time of a process, and whether it runs: a zombie does not.
fn start(number: u32) -> Option<(u64, bool)> {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name, in parentheses, may contain any character.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let is_running = !matches!(fields.next()?, "Z" | "X");
    Some((fields.nth(STARTED)?.parse().ok()?, is_running))
}

/// Number of fields between the state of a process and its start time.
const STARTED: usize = 18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_parsed_from_text() {
        let text = "00000000000000ab-12-345";
        let process = Process { machine: 0xab, number: 12, start: 345 };
        assert_eq!(process.to_string(), text);
        assert_eq!(Process::parse(text), Some(process));
        for invalid_text in ["", "ab", "ab-1", "ab-1-2-3", "x-1-2", "ab--2"] {
            assert_eq!(Process::parse(invalid_text), None, "{invalid_text}");
        }
        assert!(!process.has_ended(), "of another machine");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_was_killed_has_ended() {
        let current = Process::current().unwrap();
        assert!(!current.has_ended());
        assert!(
            Process { start: current.start + 1, ..current }.has_ended(),
            "its number is used again"
        );
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (start, _) = start(child.id()).unwrap();
        let process = Process { number: child.id(), start, ..current };
        assert!(!process.has_ended());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(process.has_ended());
    }
}
