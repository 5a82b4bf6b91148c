//! `publish`: the order of publication of the crates, and whether each can be packaged.
//!
//! A registry accepts a crate only when all its dependencies with versions are published, including those of tests.
//! Nothing is published here.

use anyhow::bail;

use crate::args::Args;
use crate::cargo_toml::{Member, members};
use crate::house::{House, say};

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let (check, verify) = (args.flag("--check"), args.flag("--verify"));
    args.end()?;
    let members = members(house)?;
    let order = order(&members)?;
    for name in &order {
        say(name);
    }
    if check || verify {
        let packages: Vec<&str> = order.iter().flat_map(|name| ["-p", name]).collect();
        let package = house.cargo("package --quiet --allow-dirty --offline").args(&packages);
        let package = package.words(if verify { "" } else { "--no-verify" });
        // Nothing is executed, so debug information would only fill the disk.
        package.env("CARGO_PROFILE_DEV_DEBUG", "0").run()?;
    }
    Ok(())
}

/// Returns the published crates, each after its dependencies, otherwise sorted by name.
pub(crate) fn order(members: &[Member]) -> anyhow::Result<Vec<&str>> {
    let mut unordered: Vec<&Member> = members.iter().filter(|member| member.published).collect();
    let mut order = Vec::with_capacity(unordered.len());
    while !unordered.is_empty() {
        let waits = |member: &Member| {
            let needed = member.dependencies.iter().chain(&member.dev_dependencies);
            let needed = needed.filter(|entry| !entry.line.contains("path = ")); // left out of packages
            needed
                .map(|entry| &entry.name)
                .filter(|name| **name != member.name)
                .any(|name| unordered.iter().any(|other| other.name == *name))
        };
        let (waiting, ready): (Vec<&Member>, Vec<&Member>) =
            unordered.iter().copied().partition(|member| waits(member));
        if ready.is_empty() {
            let names: Vec<&str> = waiting.iter().map(|member| member.name.as_str()).collect();
            bail!("none of these can be published first: {}", names.join(", "));
        }
        order.extend(ready.iter().map(|member| member.name.as_str()));
        unordered = waiting;
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo_toml::entries;

    fn member(name: &str, published: bool, needs: &str, tests: &str) -> Member {
        Member {
            name: name.to_owned(),
            published,
            features: Vec::new(),
            dependencies: entries(&format!("[dependencies]\n{needs}")),
            dev_dependencies: entries(&format!("[dev-dependencies]\n{tests}")),
        }
    }

    #[test]
    fn a_crate_comes_after_what_it_needs() {
        let drawn = [
            member("a", true, "c.workspace = true\n", "tool.workspace = true\n"),
            member("b", true, "", "a.workspace = true\nd = { path = \"../d\" }\n"),
            member("c", true, "", ""),
            member("d", true, "b.workspace = true\n", ""),
            member("tool", false, "", ""),
        ];
        assert_eq!(order(&drawn).unwrap(), ["c", "a", "b", "d"]);
        let circle = [
            member("a", true, "b.workspace = true\n", ""),
            member("b", true, "", "a.workspace = true\n"),
        ];
        let error = order(&circle).unwrap_err();
        assert_eq!(error.to_string(), "none of these can be published first: a, b");
        let members = members(&House::find().unwrap()).unwrap();
        assert_eq!(order(&members).unwrap().first(), Some(&"zvf-format"));
    }
}
