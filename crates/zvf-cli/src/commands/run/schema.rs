//! The JSON Schema of recipes, for editors.

use serde_json::{Value as Json, json};

use super::recipe::Verb;

/// Returns the schema.
pub(super) fn schema() -> Json {
    let text = json!({"type": ["string", "number", "boolean"]});
    let texts = json!({"anyOf": [text, {"type": "array", "items": text}]});
    let mut properties = serde_json::Map::new();
    let mut choices = Vec::new();
    for verb in Verb::ALL {
        let schema = if verb.takes_several() { &texts } else { &text };
        properties.insert(verb.token().to_owned(), schema.clone());
        let required = match verb.needs_output() {
            true => json!([verb.token(), "to"]),
            false => json!([verb.token()]),
        };
        choices.push(json!({"required": required}));
    }
    let described = |text: &str| json!({"type": "string", "description": text});
    properties
        .insert("to".to_owned(), described("What is written: a file, a folder, a store or a URL."));
    properties.insert("name".to_owned(), described("A name for reports and messages."));
    properties.insert(
        "each".to_owned(),
        described(
            "A pattern: a step for each file, which is ${item}, ${name}, ${stem} and ${folder}.",
        ),
    );
    let value = json!({"anyOf": [texts, {"type": "null"}]});
    properties.insert(
        "options".to_owned(),
        json!({
            "type": "object",
            "description": "Options of the command without their dashes; true sets a flag.",
            "propertyNames": {"pattern": "^[a-z][a-z0-9-]*$"},
            "additionalProperties": value,
        }),
    );
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A recipe of zvf run",
        "type": "object",
        "required": ["steps"],
        "additionalProperties": false,
        "properties": {
            "$schema": {"type": "string"},
            "description": {"type": "string"},
            "vars": {
                "type": "object",
                "description": "The texts of ${NAME}.",
                "additionalProperties": text,
            },
            "steps": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "oneOf": choices,
                    "properties": properties,
                },
            },
        },
    })
}
