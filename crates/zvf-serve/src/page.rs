//! The page at `/`, its style, and the description of `/api`.

use std::fmt::Write as _;

use crate::state::AppState;

/// Returns the stores with a picture and links. Names are safe path segments: they need no escaping.
pub(crate) fn render_store_list(state: &AppState) -> String {
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
pub(crate) fn openapi() -> String {
    include_str!("openapi.json").replace("VERSION", env!("CARGO_PKG_VERSION"))
}

const HEAD: &str = "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>zvf serve</title>\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><link rel=\"stylesheet\" href=\"/style.css\"></head>\
    <body><main><h1>Stores</h1>";

/// The style of the page.
pub(crate) const STYLE: &str = include_str!("style.css");
