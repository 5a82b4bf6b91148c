//! The commands in a page or a help text.

/// One command.
#[derive(Debug, PartialEq)]
pub(super) struct Shown {
    /// Its line on the page.
    pub(super) line: usize,
    /// The shell command.
    pub(super) command: String,
    /// The expected exit code.
    pub(super) exit: i32,
}

/// Returns the commands in the `sh` and `console` blocks of a page of Markdown.
pub(super) fn of_page(text: &str) -> Vec<Shown> {
    let (mut found, mut block, mut open) = (Vec::new(), None, None);
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(tag) = line.trim_start().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(tag.trim().to_owned()) };
            continue;
        }
        let line = match block.as_deref() {
            Some("sh") => line,
            Some("console") => match line.strip_prefix("$ ") {
                Some(line) => line,
                None => continue,
            },
            _ => continue,
        };
        push(&mut found, &mut open, number, line);
    }
    found
}

/// Returns the commands of a help text: its examples.
pub(super) fn of_help(text: &str) -> Vec<Shown> {
    let (mut found, mut open) = (Vec::new(), None);
    let lines = (1..).zip(text.lines());
    for (number, line) in lines.skip_while(|(_, line)| !line.starts_with("Examples:")) {
        if line.trim_start().starts_with("zvf ") {
            push(&mut found, &mut open, number, line.trim_start());
        }
    }
    found
}

/// Returns the subcommands that a help text lists.
pub(super) fn subcommands(text: &str) -> Vec<String> {
    let lines = text.lines().take_while(|line| !line.starts_with("Examples:"));
    let names = lines.filter_map(|line| line.strip_prefix("  "));
    let names = names.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Adds a line, which may continue an open one: a loop, or a line that ends in a backslash.
fn push(found: &mut Vec<Shown>, open: &mut Option<Shown>, line: usize, text: &str) {
    let (text, exit) = match text.rsplit_once("# exit ") {
        Some((text, code)) => (text, code.trim().parse().unwrap_or(0)),
        None => (text, 0),
    };
    let text = text.trim_end();
    let mut shown = match open.take() {
        Some(shown) => Shown { command: format!("{}\n{text}", shown.command), exit, ..shown },
        None if text.is_empty() || text.starts_with('#') || text == "..." => return,
        None => Shown { line, command: text.to_owned(), exit },
    };
    let is_loop = shown.command.starts_with("for ");
    if text.ends_with('\\') || (is_loop && text != "done") {
        *open = Some(shown);
        return;
    }
    if let Some(arguments) = shown.command.strip_prefix("cargo run -p zvf-cli -- ") {
        shown.command = format!("zvf {arguments}");
    }
    if !shown.command.starts_with("cargo ") {
        found.push(shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_say_what_is_run() {
        let page = "```sh\nzvf a # what it does\n\n# no command\ncargo xtask test\ncargo run -p zvf-cli -- b\n\
                    for x in 1 2; do\n  zvf $x\ndone\nzvf c \\\n  d\n```\n```console\n$ zvf e  # exit 3\nzvf: no\n```\n\
                    ```text\nzvf f\n```\n";
        let shown = |line, command: &str, exit| Shown { line, command: command.to_owned(), exit };
        assert_eq!(
            of_page(page),
            [
                shown(2, "zvf a # what it does", 0),
                shown(6, "zvf b", 0),
                shown(7, "for x in 1 2; do\n  zvf $x\ndone", 0),
                shown(10, "zvf c \\\n  d", 0),
                shown(14, "zvf e", 3),
            ]
        );
    }

    #[test]
    fn help_has_examples_and_subcommands() {
        let text = "About\n\nCommands:\n  info    Show\n          more\n  help    Print\n\nOptions:\n  -q\n\n\
                    Examples:\n  zvf info x\n  zvf inspect arrays y\n";
        let commands: Vec<String> = of_help(text).into_iter().map(|shown| shown.command).collect();
        assert_eq!(commands, ["zvf info x", "zvf inspect arrays y"]);
        assert_eq!(subcommands(text), ["info"]);
    }
}
