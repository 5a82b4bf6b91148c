//! `/api/<name>/render`: a picture of a level as PNG.

use std::sync::Arc;

use hyper::StatusCode;
use zvf::render::{Options, Size, render};
use zvf::{LevelRule, Mode};

use zvf::Error;

use crate::answer::{Answer, empty_body, full_body, new_answer};
use crate::api_request::{ApiRequest, resolve_groups};
use crate::query_fields::{parse_box, parse_query, too_many_rows};
use crate::refusal::Refusal;
use crate::state::AppState;
use crate::work::run_blocking;

/// Answers a request for a picture: the fields of a query, and `size`, `view`, `colour`, `background`.
pub(crate) async fn answer_picture(
    state: &Arc<AppState>,
    held: impl Send + 'static,
    request: ApiRequest,
) -> Result<Answer, Refusal> {
    let has_level = request.fields.iter().any(|(name, _)| name == "level");
    let bounds =
        request.fields.iter().find(|(name, _)| name == "bbox").map(|(_, text)| parse_box(text));
    let picture_fields = ["size", "view", "colour", "colormap", "background", "width"];
    let mut parsed = parse_query(request.fields, state.limits.max_rows, &picture_fields)?;
    let mut options = picture_options(&parsed.other_fields, state.limits.max_pixels)?;
    options.bounds = bounds.transpose()?;
    if options.bounds.is_some() {
        parsed.query = parsed.query.mode(Mode::Clip);
    }
    if !has_level {
        parsed.query.level = LevelRule::MaxVertices(DEFAULT_MAX_VERTICES);
    }
    if request.is_head {
        return Ok(new_answer(StatusCode::OK, "image/png", empty_body()));
    }
    let (store, max_rows) = (Arc::clone(&request.store), state.limits.max_rows);
    let png = run_blocking(state, held, async move {
        let (reader, parsed) = resolve_groups(&store, parsed).await?;
        let refuse = |error: Error| store.refuse(&error);
        if parsed.query.limit.is_none() {
            let plan = reader.plan(&parsed.query).await.map_err(&refuse)?;
            if plan.rows > max_rows {
                return Err(too_many_rows(max_rows));
            }
        }
        let picture = render(&reader, &parsed.query, &options).await.map_err(&refuse)?;
        let mut png = Vec::new();
        picture.write_png(&mut png).map_err(&refuse)?;
        Ok(png)
    });
    Ok(new_answer(StatusCode::OK, "image/png", full_body(png.await?)))
}

fn picture_options(fields: &[(String, String)], max_pixels: u64) -> Result<Options, Refusal> {
    let refuse = |error: Error| Refusal::bad_request(error.sentence());
    let size = Size::new(DEFAULT_SIDE, DEFAULT_SIDE).map_err(refuse)?;
    let mut options = Options { size, ..Options::default() };
    for (name, value) in fields {
        let wrong = |error: &dyn std::fmt::Display| {
            Refusal::bad_request(format!("{name}: {error}")).with_key(name)
        };
        // It names the setting itself.
        let refuse = |error| refuse(error).with_key(name);
        match name.as_str() {
            "size" => options.size = value.parse().map_err(refuse)?,
            "view" => options.view = Some(value.parse().map_err(refuse)?),
            "colour" => options.colour = value.as_str().into(),
            "colormap" => options.map = value.parse().map_err(refuse)?,
            "background" => options.ground = value.parse().map_err(refuse)?,
            _ => {
                let width: u32 =
                    value.parse().map_err(|error: std::num::ParseIntError| wrong(&error))?;
                if !(1..=MAX_LINE_PIXELS).contains(&width) {
                    return Err(wrong(&"expected 1 to 64 pixels"));
                }
                options.width = Some(width);
            }
        }
    }
    let pixels = u64::from(options.size.width()) * u64::from(options.size.height());
    if pixels > max_pixels {
        return Err(Refusal::bad_request(format!("size: more than {max_pixels} pixels")));
    }
    Ok(options)
}

/// The default number of pixels of each side.
const DEFAULT_SIDE: u32 = 512;
/// The largest width of points and lines in pixels.
const MAX_LINE_PIXELS: u32 = 64;
/// The largest number of vertices of the default level of a picture.
const DEFAULT_MAX_VERTICES: u64 = 2_000_000;
