//! Converts rustdoc's index to one line for each public item.

use serde_json::Value;

use super::signature::{array, bounds, generics, signature, type_name, where_clause};

/// Returns the lines of all items that can be named from outside of `krate`, in no particular order.
pub(super) fn list(krate: &Value) -> Vec<String> {
    let mut listing = Listing { krate, lines: Vec::new(), open: Vec::new() };
    if let Some(root) = listing.item(&krate["root"]) {
        let name = root["name"].as_str().unwrap_or_default();
        listing.module(root, name);
    }
    listing.lines
}

struct Listing<'a> {
    krate: &'a Value,
    lines: Vec<String>,
    open: Vec<String>, // the modules on the path, so that a re-export of a parent ends
}

impl<'a> Listing<'a> {
    /// Returns the item with the number `id`, when it belongs to this crate.
    fn item(&self, id: &Value) -> Option<&'a Value> {
        find(self.krate, id)
    }

    /// Returns the items of a list of numbers that belong to this crate.
    fn items(&self, ids: &'a Value) -> impl Iterator<Item = &'a Value> + use<'a> {
        let krate = self.krate;
        array(ids).filter_map(move |id| find(krate, id))
    }

    fn module(&mut self, module: &'a Value, path: &str) {
        let id = module["id"].to_string();
        if self.open.contains(&id) {
            return;
        }
        self.open.push(id);
        for id in array(&module["inner"]["module"]["items"]) {
            if let Some(item) = self.item(id) {
                self.add_named(item, path);
            }
        }
        self.open.pop();
    }

    /// Adds an item of a module whose path is `path`.
    fn add_named(&mut self, item: &'a Value, path: &str) {
        if item["visibility"] != "public" || is_hidden(item) {
            return;
        }
        let name = item["name"].as_str().unwrap_or_default();
        self.line(item, &format!("{path}::{name}"), path);
    }

    /// Adds an item under its full name.
    fn line(&mut self, item: &'a Value, full: &str, path: &str) {
        let Some((kind, inner)) = item["inner"].as_object().and_then(|inner| inner.iter().next())
        else {
            return;
        };
        let generic = generics(&inner["generics"]);
        let wherever = where_clause(&inner["generics"]);
        match kind.as_str() {
            "module" => {
                self.lines.push(format!("pub mod {full}"));
                self.module(item, full);
            }
            "use" => self.reexport(inner, path),
            "struct" => {
                self.lines.push(format!("pub struct {full}{generic}{wherever}"));
                self.fields(inner, full);
                self.impls(inner, full);
            }
            "enum" => {
                let open = if is_non_exhaustive(item) { "#[non_exhaustive] " } else { "" };
                self.lines.push(format!("{open}pub enum {full}{generic}{wherever}"));
                for variant in self.items(&inner["variants"]) {
                    self.variant(variant, full);
                }
                self.impls(inner, full);
            }
            "union" => self.lines.push(format!("pub union {full}{generic}{wherever}")),
            "trait" => {
                let above = bounds(&inner["bounds"]);
                let above = if above.is_empty() { above } else { format!(": {above}") };
                self.lines.push(format!("pub trait {full}{generic}{above}{wherever}"));
                for member in self.items(&inner["items"]) {
                    self.member(member, full);
                }
            }
            "function" => self.lines.push(format!("pub {}", signature(inner, full))),
            "constant" => {
                self.lines.push(format!("pub const {full}: {}", type_name(&inner["type"])));
            }
            "static" => {
                self.lines.push(format!("pub static {full}: {}", type_name(&inner["type"])))
            }
            "type_alias" => {
                let meant = type_name(&inner["type"]);
                self.lines.push(format!("pub type {full}{generic} = {meant}"));
            }
            other => self.lines.push(format!("pub {other} {full}")),
        }
    }

    /// Adds a `pub use`: items of this crate are listed under their new name, others are named.
    fn reexport(&mut self, import: &'a Value, path: &str) {
        let name = import["name"].as_str().unwrap_or_default();
        let source = import["source"].as_str().unwrap_or_default();
        match self.item(&import["id"]) {
            Some(item) if import["is_glob"] == true => self.module(item, path),
            Some(item) => self.line(item, &format!("{path}::{name}"), path),
            None => self.lines.push(format!("pub use {path}::{name} = {source}")),
        }
    }

    fn fields(&mut self, inner: &'a Value, full: &str) {
        let kind = &inner["kind"];
        for id in array(&kind["plain"]["fields"]).chain(array(&kind["tuple"])) {
            let Some(field) = self.item(id).filter(|field| field["visibility"] == "public") else {
                continue;
            };
            let name = field["name"].as_str().unwrap_or_default();
            let meant = type_name(&field["inner"]["struct_field"]);
            self.lines.push(format!("pub {full}::{name}: {meant}"));
        }
    }

    fn variant(&mut self, variant: &'a Value, full: &str) {
        let name = variant["name"].as_str().unwrap_or_default();
        let kind = &variant["inner"]["variant"]["kind"];
        let fields = array(&kind["tuple"]).chain(array(&kind["struct"]["fields"]));
        let fields: Vec<String> = fields
            .filter_map(|id| self.item(id))
            .map(|field| {
                let meant = type_name(&field["inner"]["struct_field"]);
                match field["name"].as_str() {
                    Some(name) if kind["struct"].is_object() => format!("{name}: {meant}"),
                    _ => meant,
                }
            })
            .collect();
        let fields = match fields.is_empty() {
            true => String::new(),
            false => format!("({})", fields.join(", ")),
        };
        self.lines.push(format!("{full}::{name}{fields}"));
    }

    /// Adds the methods of a type, and its traits. Blanket and auto traits are left out.
    fn impls(&mut self, inner: &'a Value, full: &str) {
        for item in self.items(&inner["impls"]) {
            let block = &item["inner"]["impl"];
            if block["is_synthetic"] == true || !block["blanket_impl"].is_null() {
                continue;
            }
            if let Some(name) = block["trait"]["path"].as_str() {
                let generic = super::signature::arguments(&block["trait"]["args"]);
                self.lines.push(format!("impl {name}{generic} for {full}"));
                continue;
            }
            for member in self.items(&block["items"]) {
                if member["visibility"] == "public" && !is_hidden(member) {
                    self.member(member, full);
                }
            }
        }
    }

    /// Adds a member of a type or a trait.
    fn member(&mut self, member: &'a Value, full: &str) {
        let name = member["name"].as_str().unwrap_or_default();
        let inner = &member["inner"];
        let line = if inner["function"].is_object() {
            format!("pub {}", signature(&inner["function"], &format!("{full}::{name}")))
        } else if inner["assoc_const"].is_object() {
            format!("pub const {full}::{name}: {}", type_name(&inner["assoc_const"]["type"]))
        } else {
            format!("pub type {full}::{name}")
        };
        self.lines.push(line);
    }
}

/// Returns the item with the number `id` in the index of `krate`.
fn find<'a>(krate: &'a Value, id: &Value) -> Option<&'a Value> {
    krate["index"].get(id.as_u64()?.to_string())
}

fn is_hidden(item: &Value) -> bool {
    has_attribute(item, "hidden")
}

fn is_non_exhaustive(item: &Value) -> bool {
    has_attribute(item, "non_exhaustive")
}

/// Returns whether an item has an attribute: in the JSON a word, or an object with the source text.
fn has_attribute(item: &Value, word: &str) -> bool {
    array(&item["attrs"]).any(|attribute| attribute.to_string().contains(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn public_items_are_listed_under_the_names_they_are_reached_by() {
        let public = |id: u64, name: &str, inner: Value| json!({"id": id, "name": name, "visibility": "public", "attrs": [], "inner": inner});
        let function = json!({"function": {
            "sig": {"inputs": [["n", {"primitive": "u8"}]], "output": {"primitive": "bool"}},
            "generics": {"params": [], "where_predicates": []},
            "header": {"is_const": true, "is_unsafe": false, "is_async": false},
        }});
        let import =
            json!({"use": {"name": "even", "source": "parity::even", "id": 3, "is_glob": false}});
        let mut private = public(2, "secret", function.clone());
        private["visibility"] = json!("default");
        let krate = json!({"root": 0, "index": {
            "0": public(0, "x", json!({"module": {"items": [1, 2]}})),
            "1": public(1, "", import),
            "2": private,
            "3": public(3, "even", function),
        }});
        assert_eq!(list(&krate), ["pub const fn x::even(n: u8) -> bool"]);
    }
}
