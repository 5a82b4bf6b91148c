//! The routes, compared with what `testdata/surface` keeps.

use crate::Served;

#[test]
fn no_route_changes_unseen() {
    let served = Served::start(|config| config.has_precomputed = true);
    let answer = served.get("/api/openapi.json", &[]);
    let document: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let mut lines = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let fields = operation["parameters"].as_array().into_iter().flatten();
            let fields = fields.map(|field| field["name"].as_str().unwrap());
            let fields: Vec<&str> = fields.collect();
            lines.push(format!("{} {path} {}", method.to_uppercase(), fields.join(" ")));
        }
    }
    for target in ADDRESSES {
        lines.push(format!("GET {target} -> {}", served.get(target, &[]).status));
    }
    archives::check_surface("routes.txt", lines, false);
}

/// What answers beside the documented interface.
const ADDRESSES: [&str; 12] = [
    "/",
    "/view",
    "/view/",
    "/style.css",
    "/healthz",
    "/metrics",
    "/data/three/zarr.json",
    "/precomputed/three/point_cloud/info",
    "/v/zvf",
    "/v/zvf/",
    "/api/stores",
    "/api/openapi.json",
];
