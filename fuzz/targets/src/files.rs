//! Files of other formats, and requests.

use std::io::Cursor;

use zvf_convert::read::{self, Format, Input, ReadOptions};
use zvf_model::flow::Piece;

/// Reads `bytes` as the format that a target is named after.
pub(crate) fn read_format(target: &str, bytes: &[u8]) {
    let token = target.strip_prefix("read_").unwrap_or(target);
    let Some(format) = Format::from_token(token) else { panic!("there is no target {target}") };
    match format {
        Format::Npz | Format::Trx => {
            let path = temporary(token);
            std::fs::write(&path, bytes).expect("a folder for temporary files");
            read(Input::path(&path), format);
        }
        Format::Precomputed => read_precomputed(bytes),
        Format::Csv => match bytes.split_first() {
            Some((first, text)) if first % 2 == 1 => read_bytes(text, Format::Tsv),
            _ => read_bytes(bytes.get(1..).unwrap_or_default(), Format::Csv),
        },
        // A valid header in front, so that the body is searched as well.
        Format::Tck if matches!(bytes.first(), Some(0..128)) => {
            read_bytes(&[TCK_HEADER, &bytes[1..]].concat(), format);
        }
        _ => read_bytes(bytes, format),
    }
}

fn read_bytes(bytes: &[u8], format: Format) {
    read(Input::reader(Cursor::new(bytes.to_vec())), format);
}

/// Reads a file of another format to its end, or to its first fault. Nothing may panic, a column
/// has the rows of its batch, and elements name vertices that came.
fn read(input: Input, format: Format) {
    let Ok(reader) = read::open(input, Some(format), &ReadOptions::default()) else { return };
    let axes = reader.header().axes.len();
    let mut vertices = 0_u64;
    for piece in reader {
        match piece {
            Err(_) => return,
            Ok(Piece::Vertices(batch)) => {
                assert_eq!(batch.positions().width() as usize, axes, "axes of the header");
                for field in batch.fields() {
                    assert_eq!(field.column.len(), batch.len(), "rows of a column");
                }
                if let Some(elements) = batch.elements() {
                    assert!(
                        elements.rows().iter().all(|row| *row < batch.len()),
                        "rows of a batch"
                    );
                }
                vertices += batch.len() as u64;
            }
            Ok(Piece::Elements { rows, fields, .. }) => {
                for field in fields {
                    assert_eq!(field.column.len(), rows.len(), "rows of a column");
                }
            }
            Ok(Piece::Objects { .. } | Piece::Groups { .. }) => {}
        }
        assert!(vertices < 1 << 32, "more than any input has");
    }
}

/// Reads a folder of Neuroglancer: an `info`, and one object of it.
fn read_precomputed(blob: &[u8]) {
    let folder = temporary("precomputed");
    std::fs::create_dir_all(folder.join("by_id")).expect("a folder for temporary files");
    let Some((which, body)) = blob.split_first() else { return };
    let (info, object): (&[u8], &[u8]) = match which % 4 {
        0 => (SKELETONS, body),
        1 => (ANNOTATIONS, body),
        2 => (SHARDED, body),
        _ => (body, b""),
    };
    for (name, bytes) in [("info", info), ("1", object), ("by_id/1", object), ("0.shard", object)] {
        std::fs::write(folder.join(name), bytes).expect("a folder for temporary files");
    }
    read(Input::path(&folder), Format::Precomputed);
}

/// Returns a path for the input: of its own for each process, and overwritten by each input.
fn temporary(extension: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("zvf-fuzz-{}.{extension}", std::process::id()))
}

/// A request target: whatever it is spelt like, what is looked up has segments that lead nowhere
/// else.
pub(crate) fn http_target(target: &[u8]) {
    let end: &[u8] = b" HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for request in [[b"GET ", target, end].concat(), target.to_vec()] {
        let Some(segments) = zvf_serve::examine_request(&request) else { continue };
        assert!(segments.len() <= 32, "{segments:?}");
        for segment in segments {
            let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte);
            assert!(
                (1..=255).contains(&segment.len()) && segment.bytes().all(is_safe),
                "{segment:?}"
            );
            assert!(
                segment != "." && segment != ".." && !segment.starts_with(".tmp-"),
                "{segment:?}"
            );
        }
    }
}

/// The body of a question, and a query string: read or refused.
pub(crate) fn query_body(body: &[u8]) {
    let _is_question = zvf_serve::examine_body(body);
    let line = [b"GET /api/a/query?", body, b" HTTP/1.1\r\nHost: localhost\r\n\r\n"].concat();
    let _segments = zvf_serve::examine_request(&line);
}

const TCK_HEADER: &[u8] = b"mrtrix tracks\ndatatype: Float32LE\nfile: . 49\nEND\n";
const SKELETONS: &[u8] =
    br#"{"@type":"neuroglancer_skeletons","transform":[2,0,0,0,0,1,0,0,0,0,1,0],
    "vertex_attributes":[{"id":"radius","data_type":"float32","num_components":1}]}"#;
const SHARDED: &[u8] = br#"{"@type":"neuroglancer_skeletons","vertex_attributes":[],
    "sharding":{"@type":"neuroglancer_uint64_sharded_v1","preshift_bits":0,"hash":"identity",
    "minishard_bits":1,"shard_bits":0,"data_encoding":"gzip"}}"#;
const ANNOTATIONS: &[u8] =
    br#"{"@type":"neuroglancer_annotations_v1","dimensions":{"x":[1e-9,"m"],"y":[1e-9,"m"]},
    "annotation_type":"polyline","properties":[{"id":"a","type":"uint16"}],
    "relationships":[{"id":"r","key":"rel"}],"by_id":{"key":"by_id"},"spatial":[]}"#;
