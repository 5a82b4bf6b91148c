//! The history of statements, in a file of the home folder: one per line, the newest last.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// The statements of this and earlier runs.
#[derive(Debug, Default)]
pub(crate) struct History {
    file: Option<PathBuf>,
    statements: Vec<String>,
}

impl History {
    /// Loads the history of the home folder; without a home folder, returns one that is not saved.
    pub(crate) fn load() -> io::Result<Self> {
        let Some(home) = std::env::home_dir() else { return Ok(Self::default()) };
        Self::load_from(home.join(".zvf_sql_history"))
    }

    fn load_from(file: PathBuf) -> io::Result<Self> {
        let text = match fs::read(&file) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let statements = text.lines().map(unescape).collect();
        Ok(Self { file: Some(file), statements })
    }

    /// Adds a statement to the history and its file, unless it repeats the last one.
    pub(crate) fn add(&mut self, statement: &str) -> io::Result<()> {
        if self.statements.last().is_some_and(|last| last == statement) {
            return Ok(());
        }
        self.statements.push(statement.to_owned());
        let Some(file) = &self.file else { return Ok(()) };
        let mut options = fs::OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        {
            // Statements may contain secrets: only the owner may read the file.
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        options.open(file)?.write_all(format!("{}\n", escape(statement)).as_bytes())
    }

    /// Returns the statement with a number, from 1; the newest one for 0.
    pub(crate) fn get(&self, number: usize) -> Option<&str> {
        let found = match number {
            0 => self.statements.last(),
            _ => self.statements.get(number - 1),
        };
        found.map(String::as_str)
    }

    /// Returns the newest statements with their numbers, the newest last.
    pub(crate) fn newest_statements(&self, count: usize) -> impl Iterator<Item = (usize, &str)> {
        let skipped = self.statements.len().saturating_sub(count);
        let numbered = self.statements.iter().enumerate().skip(skipped);
        numbered.map(|(index, statement)| (index + 1, statement.as_str()))
    }
}

fn escape(statement: &str) -> String {
    statement.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

fn unescape(line: &str) -> String {
    let (mut text, mut letters) = (String::new(), line.chars());
    while let Some(letter) = letters.next() {
        match (letter, letter == '\\') {
            (letter, false) => text.push(letter),
            (_, true) => match letters.next() {
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                Some(other) => text.push(other),
                None => text.push('\\'),
            },
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reloads_statements_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history");
        let mut history = History::load_from(file.clone()).unwrap();
        assert_eq!(history.get(0), None);
        for statement in ["SELECT 1;", "SELECT '\\n',\n 2;", "SELECT '\\n',\n 2;", "SELECT 3;"] {
            history.add(statement).unwrap();
        }
        let reloaded = History::load_from(file).unwrap();
        assert_eq!(reloaded.get(0), Some("SELECT 3;"));
        assert_eq!(reloaded.get(2), Some("SELECT '\\n',\n 2;"));
        assert_eq!(reloaded.get(4), None);
        let newest: Vec<_> = reloaded.newest_statements(2).collect();
        assert_eq!(newest, [(2, "SELECT '\\n',\n 2;"), (3, "SELECT 3;")]);
    }
}
