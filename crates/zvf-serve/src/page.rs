//! The page at `/`, its style, and the description of `/api`.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::state::State;

/// Returns the stores with a picture and links. Names are safe path segments: they need no escaping.
pub(crate) fn render_store_list(state: &State) -> String {
    let mut page = String::from(HEAD);
    if state.stores.len() > 1 {
        let all = crate::api::joint_page_address(&state.stores);
        // Writing to a string does not fail.
        let _ = write!(page, "<nav><a href=\"{all}\">view all of them together</a></nav>");
    }
    for store in &state.stores {
        let name = &store.name;
        let view = crate::api::page_address(store);
        let data = if store.is_file() {
            format!("/data/{name}")
        } else {
            format!("/data/{name}/zarr.json")
        };
        // Writing to a string does not fail.
        let _ = write!(
            page,
            "<article id=\"{name}\"><h2>{name}</h2>\
             <a href=\"{view}\"><img src=\"/api/{name}/render?size=480x480&amp;background=transparent\" \
             alt=\"A picture of {name}\" width=\"480\" height=\"480\" loading=\"lazy\"></a>\
             <p><a href=\"{view}\">view</a> <a href=\"/api/{name}/info\">info</a> <a href=\"/api/{name}/object\">objects</a> \
             <a href=\"/api/{name}/group\">groups</a> <a href=\"/api/{name}/query?format=csv&amp;limit=1000\">rows</a> \
             <a href=\"{data}\">data</a></p></article>"
        );
    }
    page.push_str("</main></body></html>\n");
    page
}

/// Returns the description of `/api` as `OpenAPI` 3.1.
pub(crate) fn openapi() -> Value {
    let text = |name: &str, about: &str| json!({"name": name, "in": "query", "description": about, "schema": {"type": "string"}});
    let store =
        json!({"name": "store", "in": "path", "required": true, "schema": {"type": "string"}});
    let query_parameters = QUERY_FIELDS.map(|(name, about)| text(name, about));
    let get = |about: &str, fields: Vec<Value>, kind: &str| {
        let mut parameters = vec![store.clone()];
        parameters.extend(fields);
        let content = json!({kind: {}});
        json!({"get": {"summary": about, "parameters": parameters,
            "responses": {"200": {"description": about, "content": content}, "4XX": {"description": "class, message, key and hint of the fault"}}}})
    };
    // The fields may also be sent as a JSON object.
    let or_post = |mut path: Value| {
        let mut post = path["get"].clone();
        post["parameters"] = json!([store.clone()]);
        post["requestBody"] =
            json!({"content": {"application/json": {"schema": {"type": "object"}}}});
        path["post"] = post;
        path
    };
    let with = |extra: &[(&str, &str)]| {
        let extra = extra.iter().map(|(name, about)| text(name, about));
        query_parameters.iter().cloned().chain(extra).collect::<Vec<_>>()
    };
    let level = || {
        vec![text("level", "the number of the level"), text("kind", "where a store holds several")]
    };
    let json = "application/json";
    json!({
        "openapi": "3.1.0",
        "info": {"title": "zvf serve", "version": env!("CARGO_PKG_VERSION")},
        "paths": {
            "/api/stores": {"get": {"summary": "The stores", "responses": {"200": {"description": "names and addresses"}}}},
            "/api/{store}/info": get("What a store contains", vec![text("sizes", "true also lists stored objects")], json),
            "/api/{store}/object": get("The objects of a level", level(), json),
            "/api/{store}/object/{ids}": get("Objects by id, such as 7,9,20..30", level(), json),
            "/api/{store}/group": get("The groups of a level", level(), json),
            "/api/{store}/group/{group}": get("A group by number or name", level(), json),
            "/api/{store}/search": get("Objects by id or by the value of an attribute", vec![text("q", "the id or the value")], json),
            "/api/{store}/keys": get("The objects below a prefix", vec![text("prefix", "a key of a group or an array"), text("deep", "true: all below it, with their sizes")], json),
            "/api/{store}/plan": or_post(get("What a query would read", query_parameters.to_vec(), json)),
            "/api/{store}/query": or_post(get("Geometry, as it is read", with(&[("format", "arrows (default), csv, jsonl or parquet")]), "application/vnd.apache.arrow.stream")),
            "/api/{store}/render": get("A picture", with(&[("size", "WIDTHxHEIGHT"), ("view", "top, front, side, corner or degrees"),
                ("colour", "plain, object, depth or an attribute"), ("colormap", "viridis, magma, grey or coolwarm"),
                ("background", "white, black or transparent"), ("width", "pixels of points and lines")]), "image/png"),
        },
    })
}

const QUERY_FIELDS: [(&str, &str); 13] = [
    ("bbox", "a box: x,y,z:x,y,z"),
    ("ball", "a ball: x,y,z:radius"),
    ("half_space", "a half-space: nx,ny,nz:d; several are intersected"),
    ("objects", "ids and half-open ranges: 7,9,20..30"),
    ("groups", "numbers or names of groups"),
    ("where", "a condition: intensity > 3"),
    ("kind", "a kind, where a store holds several"),
    ("level", "a number, vertices=N, bytes=N, error=X or screen=WIDTH/PIXELS"),
    ("mode", "inside, touch, clip, crop or cells"),
    ("attributes", "names with commas, all or none"),
    ("columns", "the same"),
    ("order", "storage or objects"),
    ("limit", "vertices"),
];

const HEAD: &str = "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>zvf serve</title>\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><link rel=\"stylesheet\" href=\"/style.css\"></head>\
    <body><main><h1>Stores</h1>";

/// The style of the page.
pub(crate) const STYLE: &str = ":root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0; background: light-dark(#fafafa, #16181c); color: light-dark(#1b1d21, #e6e8eb); }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); gap: 1.5rem; padding: 2rem; }
h1 { grid-column: 1 / -1; margin: 0; font-size: 1.4rem; }
nav { grid-column: 1 / -1; }
article { background: light-dark(#fff, #1f2227); border: 1px solid light-dark(#dcdfe4, #33383f); border-radius: .6rem; padding: 1rem; }
h2 { margin: 0 0 .5rem; font-size: 1.05rem; overflow-wrap: anywhere; }
img { width: 100%; height: auto; display: block; }
p { margin: .6rem 0 0; display: flex; flex-wrap: wrap; gap: .3rem 1rem; }
a { color: light-dark(#0a58ca, #8ab4f8); }
a:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
";
