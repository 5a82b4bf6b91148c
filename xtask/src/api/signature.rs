//! Formats types, generics and signatures of rustdoc's JSON as Rust source.

use serde_json::Value;

/// Formats a signature: `const fn path<T>(self, n: u8) -> T where T: Copy`.
pub(super) fn signature(function: &Value, path: &str) -> String {
    let header = &function["header"];
    let mut out = String::new();
    for (flag, word) in [("is_const", "const "), ("is_async", "async "), ("is_unsafe", "unsafe ")] {
        if header[flag] == true {
            out.push_str(word);
        }
    }
    let inputs: Vec<String> = array(&function["sig"]["inputs"]).map(parameter).collect();
    let generic = generics(&function["generics"]);
    out.push_str(&format!("fn {path}{generic}({})", inputs.join(", ")));
    let output = &function["sig"]["output"];
    if !output.is_null() {
        out.push_str(&format!(" -> {}", type_name(output)));
    }
    out + &where_clause(&function["generics"])
}

/// Formats a name and its type; the receiver in its short form.
fn parameter(pair: &Value) -> String {
    let (name, meant) = (pair[0].as_str().unwrap_or_default(), type_name(&pair[1]));
    match (name, meant.as_str()) {
        ("self", "Self") => "self".to_owned(),
        ("self", "&Self") => "&self".to_owned(),
        ("self", "&mut Self") => "&mut self".to_owned(),
        _ => format!("{name}: {meant}"),
    }
}

/// Formats generics: `<'a, T: Bound>`, or nothing.
pub(super) fn generics(generics: &Value) -> String {
    let params: Vec<String> = array(&generics["params"])
        .filter(|param| param["kind"]["type"]["is_synthetic"] != true)
        .map(|param| {
            let name = param["name"].as_str().unwrap_or_default();
            let kind = &param["kind"];
            if kind["const"].is_object() {
                return format!("const {name}: {}", type_name(&kind["const"]["type"]));
            }
            let above = bounds(&kind["type"]["bounds"]);
            if above.is_empty() { name.to_owned() } else { format!("{name}: {above}") }
        })
        .collect();
    if params.is_empty() { String::new() } else { format!("<{}>", params.join(", ")) }
}

/// Formats a where clause: ` where T: Bound`, or nothing.
pub(super) fn where_clause(generics: &Value) -> String {
    let predicates: Vec<String> = array(&generics["where_predicates"])
        .filter_map(|predicate| {
            let bound = predicate.get("bound_predicate")?;
            Some(format!("{}: {}", type_name(&bound["type"]), bounds(&bound["bounds"])))
        })
        .collect();
    if predicates.is_empty() { String::new() } else { format!(" where {}", predicates.join(", ")) }
}

/// Formats bounds: `A + B`.
pub(super) fn bounds(list: &Value) -> String {
    let names = array(list).map(|bound| {
        if let Some(outlives) = bound["outlives"].as_str() {
            return outlives.to_owned();
        }
        let inner = &bound["trait_bound"];
        if inner.is_null() {
            return "use<..>".to_owned();
        }
        let maybe = if inner["modifier"] == "maybe" { "?" } else { "" };
        format!("{maybe}{}", path_name(&inner["trait"]))
    });
    names.collect::<Vec<_>>().join(" + ")
}

/// Formats a path with its arguments.
fn path_name(path: &Value) -> String {
    let name = path["path"].as_str().or_else(|| path["name"].as_str()).unwrap_or_default();
    format!("{name}{}", arguments(&path["args"]))
}

/// Formats arguments: `<'a, T, Item = U>` or `(A) -> B`, or nothing.
pub(super) fn arguments(args: &Value) -> String {
    if let Some(call) = args.get("parenthesized") {
        let inputs: Vec<String> = array(&call["inputs"]).map(type_name).collect();
        let output = &call["output"];
        let output =
            if output.is_null() { String::new() } else { format!(" -> {}", type_name(output)) };
        return format!("({}){output}", inputs.join(", "));
    }
    let inner = &args["angle_bracketed"];
    let plain = array(&inner["args"]).map(|arg| {
        if let Some(lifetime) = arg["lifetime"].as_str() {
            lifetime.to_owned()
        } else if arg["const"].is_object() {
            arg["const"]["expr"].as_str().unwrap_or("_").to_owned()
        } else {
            type_name(&arg["type"])
        }
    });
    let named = array(&inner["constraints"]).map(|constraint| {
        let name = constraint["name"].as_str().unwrap_or_default();
        let binding = &constraint["binding"];
        if binding["equality"].is_object() {
            format!("{name} = {}", type_name(&binding["equality"]["type"]))
        } else {
            format!("{name}: {}", bounds(&binding["constraint"]))
        }
    });
    let all: Vec<String> = plain.chain(named).collect();
    if all.is_empty() { String::new() } else { format!("<{}>", all.join(", ")) }
}

/// Formats a type.
pub(super) fn type_name(meant: &Value) -> String {
    let Some((kind, inner)) = meant.as_object().and_then(|meant| meant.iter().next()) else {
        return "_".to_owned();
    };
    match kind.as_str() {
        "primitive" | "generic" => inner.as_str().unwrap_or_default().to_owned(),
        "resolved_path" => path_name(inner),
        "tuple" => {
            let members: Vec<String> = array(inner).map(type_name).collect();
            format!("({})", members.join(", "))
        }
        "slice" => format!("[{}]", type_name(inner)),
        "array" => {
            format!("[{}; {}]", type_name(&inner["type"]), inner["len"].as_str().unwrap_or("_"))
        }
        "borrowed_ref" => {
            let lifetime = inner["lifetime"].as_str().map(|name| format!("{name} "));
            let lifetime = lifetime.unwrap_or_default();
            let mutable = if inner["is_mutable"] == true { "mut " } else { "" };
            format!("&{lifetime}{mutable}{}", type_name(&inner["type"]))
        }
        "raw_pointer" => {
            let mutable = if inner["is_mutable"] == true { "mut" } else { "const" };
            format!("*{mutable} {}", type_name(&inner["type"]))
        }
        "impl_trait" => format!("impl {}", bounds(inner)),
        "dyn_trait" => {
            let traits = array(&inner["traits"]).map(|bound| path_name(&bound["trait"]));
            let traits = traits.chain(inner["lifetime"].as_str().map(str::to_owned));
            format!("dyn {}", traits.collect::<Vec<_>>().join(" + "))
        }
        "qualified_path" => {
            let (self_type, name) = (type_name(&inner["self_type"]), &inner["name"]);
            let name = name.as_str().unwrap_or_default();
            match &inner["trait"] {
                Value::Null => format!("{self_type}::{name}"),
                path => format!("<{self_type} as {}>::{name}", path_name(path)),
            }
        }
        "function_pointer" => {
            let inputs: Vec<String> =
                array(&inner["sig"]["inputs"]).map(|pair| type_name(&pair[1])).collect();
            let output = &inner["sig"]["output"];
            let output =
                if output.is_null() { String::new() } else { format!(" -> {}", type_name(output)) };
            format!("fn({}){output}", inputs.join(", "))
        }
        other => other.to_owned(),
    }
}

/// Returns the items of a list, and none of any other value.
pub(super) fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_are_written_as_in_source() {
        let bytes = json!({"borrowed_ref": {"lifetime": "'a", "is_mutable": false,
            "type": {"slice": {"primitive": "u8"}}}});
        let result = json!({"resolved_path": {"path": "Result", "args": {"angle_bracketed":
            {"args": [{"type": {"generic": "Self"}}, {"type": {"resolved_path":
                {"path": "FormatError", "args": null}}}], "constraints": []}}}});
        let call = json!({"impl_trait": [{"trait_bound": {"trait": {"path": "Fn", "args":
            {"parenthesized": {"inputs": [{"primitive": "u8"}], "output": null}}},
            "modifier": "none"}}]});
        for (meant, text) in [
            (bytes, "&'a [u8]"),
            (result, "Result<Self, FormatError>"),
            (call, "impl Fn(u8)"),
            (json!({"array": {"type": {"primitive": "i8"}, "len": "4"}}), "[i8; 4]"),
            (json!({"tuple": []}), "()"),
        ] {
            assert_eq!(type_name(&meant), text);
        }
    }
}
