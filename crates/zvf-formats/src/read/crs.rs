//! Units of the axes of a coordinate reference system.
//!
//! ```text
//! WKT        PROJCS["...", GEOGCS[..., UNIT["degree", ...]], UNIT["metre", 1]]
//! PROJJSON   {"type": "ProjectedCRS", "coordinate_system": {"axis": [{"unit": "metre"}]}}
//! ```
//!
//! Only the unit of the first axis is read; it is named as in UDUNITS. The systems are kept
//! unchanged; formats that need another form derive it from the code of the system.

use serde_json::Value as Json;

/// Returns the unit of the horizontal axes.
pub fn find_unit(crs: &Json) -> Option<&'static str> {
    match crs {
        Json::String(text) if text.contains('[') => wkt_unit(text),
        Json::String(text) => is_wgs84(text).then_some("degree"),
        Json::Object(_) => json_unit(crs),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) => None,
    }
}

/// Checks whether `text` is a name of WGS 84 in degrees, in either order of axes.
pub fn is_wgs84(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    upper.ends_with("CRS84")
        || upper.ends_with("CRS84H")
        || upper.replace("::", ":").ends_with("EPSG:4326")
}

/// Returns the authority and the code of a system: from its id, from a name such as `EPSG:32632`,
/// or from the end of WKT.
pub fn code_of(crs: &Json) -> Option<(String, i32)> {
    let Some(text) = crs.as_str() else {
        let code = &crs["id"]["code"];
        let code = code.as_i64().or_else(|| code.as_str()?.parse().ok())?;
        return Some((crs["id"]["authority"].as_str()?.to_owned(), i32::try_from(code).ok()?));
    };
    if is_wgs84(text) {
        return Some(("EPSG".to_owned(), 4326));
    }
    if text.contains('[') {
        return wkt_code(text);
    }
    let mut parts = text.split([':', '/']).rev().filter(|part| !part.is_empty());
    let code = parts.next()?.parse().ok()?;
    let authority = parts.find(|part| part.bytes().all(|byte| byte.is_ascii_alphabetic()))?;
    Some((authority.to_owned(), code))
}

/// Describes a system in a few words: `WGS 84 / UTM zone 32N (EPSG:32632)`.
pub fn describe_crs(crs: &Json) -> String {
    let name = match crs {
        Json::String(text) if text.contains('[') => text.split('"').nth(1),
        Json::String(text) => return text.clone(),
        _ => crs["name"].as_str(),
    };
    let code = code_of(crs).map(|(authority, code)| format!("{authority}:{code}"));
    match (name, code) {
        (Some(name), Some(code)) => format!("{name} ({code})"),
        (Some(name), None) => name.to_owned(),
        (None, Some(code)) => code,
        (None, None) => "without name and code".to_owned(),
    }
}

/// Returns the id of the outermost system of WKT: `ID["EPSG",32632]` or
/// `AUTHORITY["EPSG","32632"]`.
fn wkt_code(text: &str) -> Option<(String, i32)> {
    let is_code = |(depth, at): &(usize, usize)| {
        let word = text[..*at].rsplit(['[', ',']).next().unwrap_or_default().trim();
        *depth == 1 && (word == "ID" || word == "AUTHORITY")
    };
    let (_, at) = open_brackets(text).into_iter().rfind(is_code)?;
    let found = text[at + 1..].split(']').next();
    let mut values = found?.split(',').map(|value| value.trim().trim_matches('"'));
    Some((values.next()?.to_owned(), values.next()?.parse().ok()?))
}

/// Returns the depths and the places of the brackets of WKT that open.
fn open_brackets(text: &str) -> Vec<(usize, usize)> {
    let (mut depth, mut quoted, mut found) = (0_usize, false, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '[' if !quoted => {
                found.push((depth, at));
                depth += 1;
            }
            ']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found
}

/// Returns the PROJJSON of a zone of UTM on WGS 84 or ETRS89, by its EPSG code.
pub fn utm_projjson(code: i32) -> Option<Json> {
    let wgs84 = ["WGS 84", "World Geodetic System 1984", "WGS 84", "298.257223563", "4326"];
    let etrs89 = "European Terrestrial Reference System 1989";
    let etrs89 = ["ETRS89", etrs89, "GRS 1980", "298.257222101", "4258"];
    let (names, zone, hemisphere, northing) = match code {
        32_601..=32_660 => (wgs84, code - 32_600, 'N', "0"),
        32_701..=32_760 => (wgs84, code - 32_700, 'S', "10000000"),
        25_828..=25_838 => (etrs89, code - 25_800, 'N', "0"),
        _ => return None,
    };
    let keys = ["BASE", "DATUM", "ELLIPSOID", "FLATTENING", "GEOGRAPHIC"];
    let text = keys.iter().zip(names).fold(UTM.to_owned(), |text, (key, x)| text.replace(key, x));
    let text = text.replace("ZONE", &format!("{zone}{hemisphere}")).replace("NORTHING", northing);
    let text = text.replace("MERIDIAN", &(zone * 6 - 183).to_string());
    serde_json::from_str(&text.replace("PROJECTED", &code.to_string())).ok()
}

/// A zone of UTM, with words in capitals where zones differ.
const UTM: &str = include_str!("utm.projjson");

fn json_unit(crs: &Json) -> Option<&'static str> {
    let inner = ["source_crs", "components"].into_iter().find_map(|name| crs.get(name));
    let inner = inner.and_then(|inner| inner.as_array().map_or(Some(inner), |all| all.first()));
    json_unit_once(inner.unwrap_or(crs))
}

fn json_unit_once(crs: &Json) -> Option<&'static str> {
    match &crs["coordinate_system"]["axis"][0]["unit"] {
        Json::String(name) => unit_by_name(name),
        unit => unit["conversion_factor"].as_f64().and_then(unit_by_factor),
    }
}

fn unit_by_name(name: &str) -> Option<&'static str> {
    match name.to_ascii_lowercase().as_str() {
        "metre" | "meter" | "m" => Some("meter"),
        "degree" => Some("degree"),
        _ => None,
    }
}

fn unit_by_factor(factor: f64) -> Option<&'static str> {
    let is_near = |unit_factor: f64| (factor - unit_factor).abs() < 1e-9;
    let units = [
        (1.0, "meter"),
        (0.3048, "foot"),
        (1200.0 / 3937.0, "US_survey_foot"),
        (1000.0, "kilometer"),
    ];
    units.into_iter().find(|(unit_factor, _)| is_near(*unit_factor)).map(|(_, name)| name)
}

/// Returns the unit of the first projected system in the text, or degrees if there is only a geographic one.
fn wkt_unit(text: &str) -> Option<&'static str> {
    let upper = text.to_ascii_uppercase();
    let projected =
        ["PROJCS[", "PROJCRS[", "PROJECTEDCRS["].into_iter().find_map(|key| upper.find(key));
    let Some(start) = projected else {
        let geographic = ["GEOGCS[", "GEOGCRS[", "GEODCRS[", "GEODETICCRS["];
        return geographic.into_iter().any(|key| upper.contains(key)).then_some("degree");
    };
    let rest = upper.get(start..)?;
    let factor = |(depth, at): (usize, usize)| {
        let before = &rest[..at];
        let is_unit = before.ends_with("UNIT") && !before.ends_with("ANGLEUNIT") && depth <= 2;
        let is_length = is_unit && (depth == 1 || before.ends_with("LENGTHUNIT"));
        is_length.then(|| parse_factor(&rest[at..])).flatten()
    };
    // The system ends where its first bracket is closed.
    let brackets = open_brackets(rest).into_iter().enumerate();
    let own = brackets.take_while(|(number, (depth, _))| *number == 0 || *depth > 0);
    own.map(|(_, bracket)| bracket).find_map(factor).and_then(unit_by_factor)
}

/// Parses the number after the name in `["name",number`.
fn parse_factor(text: &str) -> Option<f64> {
    let after = text.split('"').nth(2)?;
    let number = after.trim_start_matches([',', ' ']);
    let end = number.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+' | 'E'))?;
    number.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn describes_every_form_of_system() {
        let wkt = r#"PROJCRS["a [b]",BASEGEOGCRS["b",ID["EPSG",1]],ID["EPSG",2154]]"#;
        let json = json!({"name": "a", "id": {"authority": "EPSG", "code": 2154}});
        for (crs, expected) in [
            (json!(wkt), "a [b] (EPSG:2154)"),
            (json!("LOCAL_CS[\"local\"]"), "local"),
            (json!("EPSG:2154"), "EPSG:2154"),
            (json, "a (EPSG:2154)"),
            (json!({}), "without name and code"),
        ] {
            assert_eq!(describe_crs(&crs), expected);
        }
    }

    #[test]
    fn finds_the_unit_of_every_form_of_system() {
        let old = r#"PROJCS["a [b]",GEOGCS["x",UNIT["degree",0.0174]],PROJECTION["p"],UNIT["US survey foot",0.3048006096012192],AXIS["X",EAST]]"#;
        let new = r#"PROJCRS["a",BASEGEOGCRS["b",ANGLEUNIT["degree",0.017]],CS[Cartesian,2],AXIS["e",east,LENGTHUNIT["metre",1]],ID["EPSG",2154]]"#;
        let geographic = r#"GEOGCS["WGS 84",UNIT["degree",0.017]]"#;
        let projected = json!({"coordinate_system": {"axis": [{"unit": "metre"}]}});
        for (crs, expected) in [
            (json!(old), Some("US_survey_foot")),
            (json!(new), Some("meter")),
            (json!(geographic), Some("degree")),
            (json!("urn:ogc:def:crs:OGC:1.3:CRS84"), Some("degree")),
            (json!("EPSG:2154"), None),
            (projected.clone(), Some("meter")),
            (json!({"components": [projected, {}]}), Some("meter")),
            (json!("PROJCS["), None),
        ] {
            assert_eq!(find_unit(&crs), expected, "{crs}");
        }
    }
}
