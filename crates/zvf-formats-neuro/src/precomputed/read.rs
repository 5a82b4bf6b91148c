//! Reader of Neuroglancer precomputed: a folder of annotations, skeletons or meshes, sharded or not.
//!
//! ```text
//! info                        the type, or the folder of the skeletons or meshes of a volume
//! ID, HEX.shard               skeletons; annotations below the key of an index
//! ID:0, fragments             legacy meshes: a list of fragments, and the fragments
//! ID.index, ID                multi-resolution meshes: a manifest, and Draco fragments
//! ```
//!
//! Object `k` is the `k`th id in ascending order. The 64-bit id is the attribute `segment_id` (`annotation_id` of
//! annotations). A stored transform is applied in `float64` and recorded.
//!
//! Not read: the `.frags` files of unfinished skeletons.

mod annotations;
mod folder;
mod fragments;
mod legacy;
mod multilod;
mod properties;
pub(crate) mod shards;
mod skeletons;

use serde_json::{Value as Json, json};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_formats::{Bytes, FileReader, ReadOptions, UINT64, number_column, without_rows};
use zvf_model::flow::{Header, Piece};
use zvf_model::{Field, ObjectId};

use crate::precomputed::read::folder::{Folder, spot};
use crate::precomputed::read::shards::{ShardEntry, Sharding};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let Some(path) = bytes.path().filter(|_| bytes.is_folder()) else {
        return spot("the input").refuse(Class::Unsupported, "a folder with a file info", "a file");
    };
    let root = Folder::new(path.to_owned(), options.memory);
    let Some(info) = root.read_json("info")? else {
        return legacy::open(&root, None, None, options);
    };
    let properties = || read_segment_properties(&root, &info);
    match info["@type"].as_str() {
        Some("neuroglancer_annotations_v1") if options.segments.is_some() => {
            spot("segments").refuse(Class::Unsupported, "skeletons or meshes", "annotations")
        }
        Some("neuroglancer_annotations_v1") => annotations::open(&root, &info, options),
        Some("neuroglancer_skeletons") => {
            skeletons::open(&root, &info, properties()?.as_ref(), options)
        }
        Some("neuroglancer_legacy_mesh") => {
            legacy::open(&root, Some(&info), properties()?.as_ref(), options)
        }
        Some("neuroglancer_multilod_draco") => {
            multilod::open(&root, &info, properties()?.as_ref(), options)
        }
        None | Some("neuroglancer_multiscale_volume") => open_volume(&root, &info, options),
        Some(kind) => {
            let expected = "annotations_v1, skeletons, legacy_mesh, multilod_draco or \
                            multiscale_volume of neuroglancer";
            spot("info @type").refuse(Class::BadTag, expected, format!("{kind:?}"))
        }
    }
}

/// Reads the `info` of the segment properties, whose folder `info` names.
fn read_segment_properties(root: &Folder, info: &Json) -> Result<Option<Json>> {
    match info["segment_properties"].as_str() {
        Some(key) => root.subfolder(key)?.read_json("info"),
        None => Ok(None),
    }
}

/// Opens the skeletons or meshes of a volume.
fn open_volume(root: &Folder, volume: &Json, options: &ReadOptions) -> Result<FileReader> {
    let text = |key: &str| volume[key].as_str();
    let volume_properties = read_segment_properties(root, volume)?;
    let find_properties = |folder: &Folder, info: Option<&Json>| match info {
        Some(info) => {
            Ok(read_segment_properties(folder, info)?.or_else(|| volume_properties.clone()))
        }
        None => Ok::<_, Error>(volume_properties.clone()),
    };
    let wants_mesh = options.kind == Some(zvf_model::Kind::Mesh);
    if let Some(key) = text("skeletons").filter(|_| !wants_mesh || text("mesh").is_none()) {
        let folder = root.subfolder(key)?;
        let Some(info) = folder.read_json("info")? else {
            return spot(&format!("{key}/info")).refuse(Class::NotFound, "a file", "none");
        };
        let properties = find_properties(&folder, Some(&info))?;
        return skeletons::open(&folder, &info, properties.as_ref(), options);
    }
    if let Some(key) = text("mesh") {
        let folder = root.subfolder(key)?;
        let info = folder.read_json("info")?;
        let properties = find_properties(&folder, info.as_ref())?;
        let properties = properties.as_ref();
        let kind = info.as_ref().and_then(|info| info["@type"].as_str());
        return match (kind, &info) {
            (None | Some("neuroglancer_legacy_mesh"), _) => {
                legacy::open(&folder, info.as_ref(), properties, options)
            }
            (Some("neuroglancer_multilod_draco"), Some(info)) => {
                multilod::open(&folder, info, properties, options)
            }
            (Some(kind), _) => {
                let expected = "neuroglancer_legacy_mesh or neuroglancer_multilod_draco";
                let place = format!("{key}/info @type");
                spot(&place).refuse(Class::BadTag, expected, format!("{kind:?}"))
            }
        };
    }
    let expected = "@type, or a key \"skeletons\" or \"mesh\"";
    spot("info").refuse(Class::NotFound, expected, "neither")
}

/// The location of an object.
enum Location {
    File(String),
    Shard(Sharding, ShardEntry),
}

/// The objects of a folder in order of id.
struct Objects {
    folder: Folder,
    locations: Vec<(u64, Location)>,
}

impl Objects {
    fn list(folder: &Folder, sharding: Option<Sharding>) -> Result<Self> {
        let locations = match sharding {
            Some(sharding) => {
                let entries = sharding.list(folder)?.into_iter();
                entries.map(|entry| (entry.id, Location::Shard(sharding, entry))).collect()
            }
            None => {
                let ids = folder.list_ids("")?.into_iter();
                ids.map(|id| (id, Location::File(id.to_string()))).collect()
            }
        };
        Ok(Self { folder: folder.clone(), locations })
    }

    /// Selects the objects with these ids, which must exist. `None` selects all.
    fn select(self, ids: Option<&[u64]>) -> Result<Self> {
        let Some(ids) = ids else { return Ok(self) };
        let folder_ids: Vec<u64> = self.ids().collect();
        check_segments(ids, &folder_ids)?;
        let locations = self.locations.into_iter().filter(|(id, _)| ids.contains(id)).collect();
        Ok(Self { locations, ..self })
    }

    /// Reads an object. Returns its id, its name for errors and its bytes.
    fn read(&self, at: usize) -> Result<Option<(u64, String, Vec<u8>)>> {
        let Some((id, location)) = self.locations.get(at) else { return Ok(None) };
        let (name, bytes) = match location {
            Location::File(key) => {
                let bytes = self.folder.read(key)?;
                let missing =
                    || spot(key).error(Class::NotFound, "the file that was listed", "none");
                (key.clone(), bytes.ok_or_else(missing)?)
            }
            Location::Shard(sharding, entry) => {
                (format!("{}, id {id}", entry.key), sharding.read(&self.folder, entry)?)
            }
        };
        Ok(Some((*id, name, bytes)))
    }

    fn ids(&self) -> impl Iterator<Item = u64> {
        self.locations.iter().map(|(id, _)| *id)
    }
}

/// Checks that each id is the id of a segment.
fn check_segments(ids: &[u64], folder_ids: &[u64]) -> Result<()> {
    match ids.iter().find(|id| folder_ids.binary_search(id).is_err()) {
        Some(id) => {
            let expected = format!("one of the {} segments of the folder", folder_ids.len());
            spot("segments").refuse(Class::NotFound, expected, id)
        }
        None => Ok(()),
    }
}

/// Checks that `name`, found at `place`, is not a duplicate.
fn check_new_name<'a>(
    place: &str,
    name: &str,
    mut before: impl Iterator<Item = &'a str>,
) -> Result<()> {
    if before.any(|other| other == name) {
        return spot(place).refuse(Class::Duplicate, "each name once", format!("{name:?}"));
    }
    Ok(())
}

/// Builds the piece of the segments, their ids and properties, and describes it and `info` in the header.
fn describe_segments(
    ids: &[u64],
    info: Option<&Json>,
    properties: Option<&Json>,
    header: &mut Header,
) -> Result<Piece> {
    push_record(header, info);
    let name = "segment_id";
    let mut fields = vec![Field::new(name, number_column(UINT64, 1, ids, |id| id.to_le_bytes())?)];
    if let Some(properties) = properties {
        fields.extend(properties::build_segment_fields(ids, properties, header)?);
    }
    Ok(finish_objects(name, ids.len(), fields, header))
}

/// Returns the piece of the objects, and describes their fields in the header.
fn finish_objects(id_field: &str, count: usize, fields: Vec<Field>, header: &mut Header) -> Piece {
    header.objects = true;
    header.id_field = Some(id_field.to_owned());
    header.object_fields = without_rows(&fields);
    Piece::Objects { ids: (0..).map(ObjectId).take(count).collect(), fields }
}

/// Returns the id of a property, an attribute or a relationship, which is its name.
fn read_id<'a>(json: &'a Json, place: &str) -> Result<&'a str> {
    json["id"].as_str().ok_or_else(|| {
        spot(place).error(Class::BadTag, "an id that is a text", show_member(json.get("id")))
    })
}

/// Returns a member of a JSON object as text for messages.
fn show_member(member: Option<&Json>) -> String {
    member.map_or_else(|| "none".to_owned(), Json::to_string)
}

/// Adds `info` to the header records.
fn push_record(header: &mut Header, info: Option<&Json>) {
    header.records.push(("precomputed".to_owned(), json!({"info": info})));
}

#[cfg(test)]
mod tests {
    use std::fs;

    #[test]
    fn refuses_a_file_that_vanished_after_listing() {
        let temporary = tempfile::tempdir().unwrap();
        for id in ["7", "8"] {
            fs::write(temporary.path().join(id), b"bytes").unwrap();
        }
        let folder = Folder::new(temporary.path().to_owned(), 1 << 20);
        let objects = Objects::list(&folder, None).unwrap();
        fs::remove_file(temporary.path().join("8")).unwrap();
        assert_eq!(objects.read(0).unwrap(), Some((7, "7".to_owned(), b"bytes".to_vec())));
        let error = objects.read(1).unwrap_err();
        assert_eq!(error.class(), Class::NotFound, "{error}");
    }

    use zvf_formats::Input;
    use zvf_model::flow::Piece;

    use super::*;

    #[test]
    fn opens_the_skeletons_of_a_volume() {
        for volume in [
            r#"{"@type": "neuroglancer_multiscale_volume", "skeletons": "s"}"#,
            r#"{"type": "segmentation", "skeletons": "s"}"#,
        ] {
            let folder = tempfile::tempdir().unwrap();
            let write = |name: &str, bytes: &[u8]| {
                let path = folder.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            };
            write("info", volume.as_bytes());
            write("s/info", br#"{"@type": "neuroglancer_skeletons", "segment_properties": "p"}"#);
            let inline = r#"{"ids": ["7"], "properties": [{"id": "n", "type": "number",
                "data_type": "int32", "values": [3]}]}"#;
            let properties =
                format!(r#"{{"@type": "neuroglancer_segment_properties", "inline": {inline}}}"#);
            write("s/p/info", properties.as_bytes());
            let mut skeleton: Vec<u8> = [2_u32, 1].iter().flat_map(|n| n.to_le_bytes()).collect();
            skeleton.extend([0_f32, 0.0, 0.0, 1.0, 0.0, 0.0].iter().flat_map(|x| x.to_le_bytes()));
            skeleton.extend([0_u32, 1].iter().flat_map(|n| n.to_le_bytes()));
            write("s/7", &skeleton);
            let options = ReadOptions::default();
            let reader = crate::shared::open(Input::path(folder.path()), None, &options).unwrap();
            let names: Vec<_> = reader.header().object_fields.iter().map(|f| &*f.name).collect();
            assert!(names.contains(&"n"), "{names:?}");
            let vertices = reader.map(|piece| match piece.unwrap() {
                Piece::Vertices(batch) => batch.len(),
                _ => 0,
            });
            assert_eq!(vertices.sum::<usize>(), 2, "{volume}");
        }
    }
}
