//! The module structure of one Rust file: the modules it declares, its imports, and the paths it
//! uses.
//!
//! The file is read as tokens, which excludes comments and strings and includes the arguments of
//! macros. Code below `#[cfg(test)]` is left out, and so are modules with a `#[path]`: their files
//! belong to other crates.

use std::collections::BTreeSet;
use std::str::FromStr as _;

use anyhow::anyhow;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One module: a file, or an inline block `mod name { ... }`.
#[derive(Default)]
pub(super) struct ModuleSource {
    /// Modules in their own files.
    pub(super) declared: Vec<String>,
    /// Inline modules, by name.
    pub(super) blocks: Vec<(String, Self)>,
    /// Names of items.
    pub(super) items: BTreeSet<String>,
    /// The imports of the module.
    pub(super) imports: Vec<Import>,
    /// Paths that begin with `crate`, `self` or `super`, including imports.
    pub(super) paths: Vec<Vec<String>>,
}

/// One leaf of `use`.
pub(super) struct Import {
    /// The name in the module; `None` for all names of `path`.
    pub(super) name: Option<String>,
    pub(super) path: Vec<String>,
}

impl ModuleSource {
    /// Reads the text of a file.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let tokens = TokenStream::from_str(text).map_err(|error| anyhow!("no Rust: {error}"))?;
        let mut source = Self::default();
        source.scan(tokens, true);
        Ok(source)
    }

    /// Reads the tokens of the module (`top`), or of a group in it.
    fn scan(&mut self, tokens: TokenStream, top: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = tokens.as_slice();
        while let [first, after @ ..] = rest {
            rest = after;
            match first {
                TokenTree::Punct(mark) if mark.as_char() == '#' => {
                    match take_attribute(&mut rest) {
                        Some(tokens) => self.scan(tokens, false),
                        None => skip_item(&mut rest),
                    }
                }
                TokenTree::Group(group) => self.scan(group.stream(), false),
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    match word.as_str() {
                        "use" => self.take_use(&mut rest, top),
                        "mod" if top => self.take_module(&mut rest),
                        "crate" | "self" | "super" => self.take_path(word, &mut rest),
                        _ if top => self.items.extend(item_name(&word, rest)),
                        _ => {}
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// Parses the tokens after `mod`.
    fn take_module(&mut self, rest: &mut &[TokenTree]) {
        let [TokenTree::Ident(name), body, after @ ..] = *rest else { return };
        *rest = after;
        match body {
            TokenTree::Group(group) => {
                let mut block = Self::default();
                block.scan(group.stream(), true);
                self.blocks.push((name.to_string(), block));
            }
            TokenTree::Punct(_) | TokenTree::Ident(_) | TokenTree::Literal(_) => {
                self.declared.push(name.to_string());
            }
        }
    }

    /// Parses the segments after the first one of a path.
    fn take_path(&mut self, first: String, rest: &mut &[TokenTree]) {
        let mut path = vec![first];
        while let [TokenTree::Punct(a), TokenTree::Punct(b), TokenTree::Ident(name), after @ ..] =
            *rest
            && (a.as_char(), b.as_char()) == (':', ':')
        {
            path.push(name.to_string());
            *rest = after;
        }
        if path.len() > 1 {
            self.paths.push(path);
        }
    }

    /// Parses the tokens after `use`, up to the semicolon.
    fn take_use(&mut self, rest: &mut &[TokenTree], top: bool) {
        let tokens = *rest;
        let end = tokens.iter().position(|token| is_mark(token, ';')).unwrap_or(tokens.len());
        let (tree, after) = tokens.split_at(end);
        *rest = after;
        let mut imports = Vec::new();
        leaves(tree, &[], &mut imports);
        for import in imports {
            if matches!(import.path.first().map(String::as_str), Some("crate" | "self" | "super")) {
                self.paths.push(import.path.clone());
            }
            if top {
                self.imports.push(import);
            }
        }
    }
}

/// Takes the tokens of an attribute, after its `#`; `None` if what it belongs to is left out.
fn take_attribute(rest: &mut &[TokenTree]) -> Option<TokenStream> {
    let inner = matches!(rest, [mark, ..] if is_mark(mark, '!'));
    let [TokenTree::Group(group), after @ ..] = &rest[usize::from(inner)..] else {
        return Some(TokenStream::new()); // a mark of a macro
    };
    if group.delimiter() != Delimiter::Bracket {
        return Some(TokenStream::new());
    }
    *rest = after;
    let text = group.stream().to_string().replace(char::is_whitespace, "");
    let is_for_tests = text == "cfg(test)" || text.starts_with("cfg(all(test,") || text == "test";
    (!is_for_tests && !text.starts_with("path=")).then(|| group.stream())
}

/// Skips an item, a field or a statement.
fn skip_item(rest: &mut &[TokenTree]) {
    // Whether a block ends it, and whether a comma does.
    let (mut by_block, mut by_comma) = (true, true);
    while let [token, after @ ..] = *rest {
        *rest = after;
        match token {
            TokenTree::Punct(mark) if mark.as_char() == ';' => return,
            TokenTree::Punct(mark) if mark.as_char() == ',' && by_comma => return,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && by_block => return,
            TokenTree::Ident(word) => match word.to_string().as_str() {
                "use" | "static" | "let" | "type" => (by_block, by_comma) = (false, false),
                "const" => by_block = matches!(rest, [TokenTree::Ident(next), ..] if next == "fn"),
                "fn" => (by_block, by_comma) = (true, false),
                "impl" | "struct" | "enum" | "trait" | "union" | "mod" => by_comma = false,
                _ => {}
            },
            TokenTree::Punct(_) | TokenTree::Group(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Returns the name of an item that starts with `word`.
fn item_name(word: &str, rest: &[TokenTree]) -> Option<String> {
    let name = match (word, rest) {
        ("macro_rules", [mark, TokenTree::Ident(name), ..]) if is_mark(mark, '!') => name,
        (
            "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union",
            [TokenTree::Ident(name), ..],
        ) => name,
        _ => return None,
    };
    // `const` may precede these.
    let name = name.to_string();
    (!matches!(name.as_str(), "async" | "extern" | "fn" | "unsafe")).then_some(name)
}

/// Collects the leaves of a tree of `use`.
fn leaves(tree: &[TokenTree], above: &[String], imports: &mut Vec<Import>) {
    for branch in tree.split(|token| is_mark(token, ',')) {
        let mut path = above.to_vec();
        let mut alias = None;
        let mut whole = false; // all names, or a group that has been read
        for (at, token) in branch.iter().enumerate() {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    alias = branch.get(at + 1).map(ToString::to_string);
                    break;
                }
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    leaves(&inner, &path, imports);
                    whole = true;
                }
                TokenTree::Punct(mark) if mark.as_char() == '*' => {
                    imports.push(Import { name: None, path: path.clone() });
                    whole = true;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
        // `a::{self}` is `a`.
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        if !whole && let Some(last) = path.last() {
            let name = alias.unwrap_or_else(|| last.clone());
            imports.push(Import { name: Some(name), path });
        }
    }
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let source = ModuleSource::parse(text).unwrap();
        source.paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn paths_are_found_in_code_alone() {
        assert_eq!(
            paths(
                "//! crate::a\n\
                 use crate::{b::{self, C as D}, e::*};\n\
                 fn f() -> super::G { /* crate::h */ \"crate::i\"; format!(\"{}\", crate::j::k::<u8>()) }\n\
                 pub(crate) fn l(self) { self::m() }",
            ),
            ["crate::b", "crate::b::C", "crate::e", "super::G", "crate::j::k", "self::m"]
        );
    }

    #[test]
    fn what_is_for_tests_is_left_out() {
        assert_eq!(
            paths(
                "#[cfg(test)] use crate::{a, b};\n\
                 #[cfg(test)] #[derive(Debug)] pub(crate) fn c<A, B>(_: crate::d) { crate::e() }\n\
                 #[cfg(all(test, unix))] const F: G = G { h: crate::i };\n\
                 struct J { #[cfg(test)] k: crate::l, m: crate::n }\n\
                 #[cfg(test)] mod tests;\n\
                 #[cfg(not(test))] fn o() { crate::p() }",
            ),
            ["crate::n", "crate::p"]
        );
    }

    #[test]
    fn names_of_a_module() {
        let source = ModuleSource::parse(
            "mod a; #[path = \"../x/y.rs\"] mod y; mod b { fn c() {} } pub const fn d() {} const E: u8 = 0;\n\
             macro_rules! f { () => {} } use g::H as I; use j::*;",
        )
        .unwrap();
        assert_eq!(source.declared, ["a"]);
        let [(name, block)] = source.blocks.as_slice() else { panic!() };
        assert_eq!((name.as_str(), block.items.len()), ("b", 1));
        assert_eq!(source.items.iter().collect::<Vec<_>>(), ["E", "d", "f"]);
        let imports: Vec<_> = source
            .imports
            .iter()
            .map(|import| (import.name.as_deref(), import.path.join("::")))
            .collect();
        assert_eq!(imports, [(Some("I"), "g::H".to_owned()), (None, "j".to_owned())]);
    }
}
