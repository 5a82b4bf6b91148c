//! Multi-resolution meshes in Draco fragments.
//!
//! ```text
//! ID.index    chunk_shape f32[3], grid_origin f32[3], num_lods u32, lod_scales f32[n], vertex_offsets f32[n][3],
//!             num_fragments u32[n]; for each level: positions u32[3][k] (all x, all y, all z), sizes u32[k]
//! ID          all fragments, level 0 first; in a shard they directly precede the manifest
//! ```
//!
//! A position is `grid_origin + vertex_offsets + chunk_shape * 2^lod * (fragment + q / (2^bits - 1))` in `float64`, then
//! transformed. One level is read: the one that the options select, or the coarsest of an object that has fewer levels.
//! The default is the finest. Vertices on seams have equal positions on both sides and are not merged.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{nearest_f32, usize_from_u32};
use zvf_formats::draco::{Caps, Meaning, decode};
use zvf_formats::{Affine, FileReader, Notes, ReadOptions, RecordNumbers, new_column};
use zvf_metadata::Dtype;

use crate::precomputed::read::folder::{Folder, spot};
use crate::precomputed::read::fragments::{Fragment, Fragments, mesh_header, read_all};
use crate::precomputed::read::shards::Sharding;
use crate::precomputed::read::skeletons::parse_transform;
use crate::precomputed::read::{Location, Objects, describe_segments, show_member};

pub(crate) fn open(
    folder: &Folder,
    info: &Json,
    properties: Option<&Json>,
    options: &ReadOptions,
) -> Result<FileReader> {
    let mut header = mesh_header(options)?;
    let key = "vertex_quantization_bits";
    let steps = match info[key].as_u64() {
        Some(10) => 1023.0,
        Some(16) => 65_535.0,
        _ => {
            let found = show_member(info.get(key));
            return spot(format!("info {key}")).refuse(Class::OutOfBounds, "10 or 16", found);
        }
    };
    let transform = parse_transform(info)?.unwrap_or(Affine::IDENTITY);
    let objects = match Sharding::parse(&info["sharding"], "info")? {
        Some(sharding) => Objects::list(folder, Some(sharding))?,
        None => {
            let ids = folder.list_ids(".index")?.into_iter();
            let locations = ids.map(|id| (id, Location::File(format!("{id}.index")))).collect();
            Objects { folder: folder.clone(), locations }
        }
    };
    let objects = objects.select(options.segments.as_deref())?;
    let is_nanometers = options.apply_space || transform == Affine::IDENTITY;
    let (space, transform) = transform.to_space(options.apply_space);
    header.space = space;
    if is_nanometers {
        header = header.with_unit("nanometer");
    }
    let ids: Vec<u64> = objects.ids().collect();
    let last = describe_segments(&ids, Some(info), properties, &mut header)?;
    let (lod, notes) = (options.lod, Notes::default());
    let notes_made = <[AtomicBool; 2]>::default();
    let source = MultiLod { objects, transform, steps, lod, notes: notes.clone(), notes_made };
    Ok(read_all(header, source, last).with_notes(notes))
}

/// One level of a manifest.
struct Manifest {
    lod: usize,                      // the selected level, or the coarsest
    chunk_shape: [f64; 3],           // of the level
    origin: [f64; 3],                // of the grid, plus the offset of the level
    fragments: Vec<([u32; 3], u64)>, // grid cell, bytes
    finer_bytes: u64,                // of the finer levels, which come first
    data_size: u64,                  // of all levels
}

impl Manifest {
    fn parse(name: &str, bytes: &[u8], lod: u32) -> Result<Self> {
        let numbers = RecordNumbers::new(bytes);
        let triple = |at: usize| [0, 4, 8].map(|axis| f64::from(numbers.f32(at + axis)));
        let lods = numbers.u32(24);
        let head = 28 + u128::from(lods) * 20;
        let too_short = |min_bytes: u128| {
            spot(name).error(Class::Truncated, format!("at least {min_bytes} bytes"), bytes.len())
        };
        if bytes.len() < 28 || head > bytes.len() as u128 {
            return Err(too_short(head.max(28)));
        }
        let lods = usize_from_u32(lods);
        let selected = usize_from_u32(lod).min(lods.saturating_sub(1)); // 0 if there are no levels
        let (offsets, counts) = (28 + lods * 4, 28 + lods * 16);
        let mut at = 28 + lods * 20;
        let (mut fragments, mut finer_bytes, mut data_size) = (Vec::new(), 0_u64, 0_u64);
        for lod in 0..lods {
            let count = numbers.u32(counts + lod * 4) as usize;
            let end = at as u128 + count as u128 * 16;
            if end > bytes.len() as u128 {
                return Err(too_short(end));
            }
            for n in 0..count {
                let number = |column: usize| numbers.u32(at + (column * count + n) * 4);
                let (cell, size) = ([0, 1, 2].map(number), u64::from(number(3)));
                data_size += size; // at most a third of the manifest's bytes times 2^32
                match lod.cmp(&selected) {
                    Less => finer_bytes += size,
                    Equal => fragments.push((cell, size)),
                    Greater => {}
                }
            }
            at += count * 16;
        }
        let expected = format_args!("{at} bytes");
        spot(name).ensure(at == bytes.len(), Class::Trailing, expected, bytes.len())?;
        let scale: f64 = std::iter::repeat_n(2.0, selected).product();
        let (chunk_shape, mut origin) = (triple(0).map(|side| side * scale), triple(12));
        if lods > 0 {
            let offset = triple(offsets + selected * 12);
            origin = [0, 1, 2].map(|axis| origin[axis] + offset[axis]);
        }
        Ok(Self { lod: selected, chunk_shape, origin, fragments, finer_bytes, data_size })
    }
}

/// The location of a fragment, and the box of its positions.
struct FragmentRange {
    key: String,
    start: u64,
    size: u64,
    origin: [f64; 3],
    shape: [f64; 3],
}

/// A folder of multi-resolution meshes.
struct MultiLod {
    objects: Objects,
    transform: Affine,
    steps: f64,
    lod: u32,
    notes: Notes,
    notes_made: [AtomicBool; 2], // of other levels, and of objects without this one
}

impl Fragments for MultiLod {
    type Fragment = FragmentRange;

    fn list(&self, object: usize) -> Result<Option<Vec<FragmentRange>>> {
        let Some((id, name, bytes)) = self.objects.read(object)? else { return Ok(None) };
        let manifest = Manifest::parse(&name, &bytes, self.lod)?;
        let (lod, [of_others, of_coarser]) = (self.lod, &self.notes_made);
        let read_bytes = manifest.fragments.iter().map(|(_, size)| size).sum::<u64>();
        if manifest.data_size > read_bytes && !of_others.swap(true, Relaxed) {
            self.notes.push(match lod {
                0 => "not read: levels of detail but the finest".to_owned(),
                lod => format!("not read: levels of detail but number {lod}"),
            });
        }
        if manifest.lod < usize_from_u32(lod) && !of_coarser.swap(true, Relaxed) {
            self.notes.push(format!("no level of detail {lod} in object {id}: of it and others like it the coarsest is read"));
        }
        let (key, mut start) = match self.objects.locations.get(object) {
            Some((_, Location::Shard(_, entry))) => {
                let start = entry.start.checked_sub(manifest.data_size);
                let expected = format_args!("{} bytes before the manifest", manifest.data_size);
                let start = spot(&name).need(start, Class::OutOfBounds, expected, entry.start)?;
                (entry.key.clone(), start)
            }
            _ => (id.to_string(), 0),
        };
        let size = self.objects.folder.size(&key)?.unwrap_or(0); // a missing file counts as empty
        if start.checked_add(manifest.data_size).is_none_or(|end| end > size) {
            let expected = format!("{} bytes of fragments", manifest.data_size);
            return spot(&key).refuse(Class::Truncated, expected, size);
        }
        start += manifest.finer_bytes;
        let mut fragments = Vec::new();
        for (cell, size) in manifest.fragments {
            let origin = [0, 1, 2].map(|axis| {
                manifest.origin[axis] + manifest.chunk_shape[axis] * f64::from(cell[axis])
            });
            if size > 0 {
                let (key, shape) = (key.clone(), manifest.chunk_shape);
                fragments.push(FragmentRange { key, start, size, origin, shape });
            }
            start += size;
        }
        Ok(Some(fragments))
    }

    fn read(&self, range: &FragmentRange) -> Result<Fragment> {
        let FragmentRange { key, start, size, origin, shape } = range;
        let name = format!("{key}, fragment at byte {start}");
        let bytes = self.objects.folder.read_range(key, *start, *size)?;
        let limits = Caps::from_memory(self.objects.folder.memory());
        let stream = decode(&bytes, &limits).map_err(|error| {
            let expected = format!("a Draco stream: {}", error.expected);
            spot(&format!("{name}, byte {}", error.byte)).error(error.class, expected, error.found)
        })?;
        let mut attributes = stream.attributes.into_iter();
        let positions = attributes.find(|a| a.meaning == Meaning::Position);
        let positions = spot(&name).need(positions, Class::NotFound, "positions", "none")?;
        let values = positions.values;
        let expected = "positions of three numbers";
        spot(&name).ensure(values.width() == 3, Class::BadShape, expected, values.width())?;
        let mut bytes = Vec::with_capacity(values.len() * 12);
        for row in 0..values.len() {
            let stored = [0, 1, 2].map(|axis| {
                let q = values.float(row, axis).unwrap_or(f64::NAN);
                origin[axis] + shape[axis] * (q / self.steps)
            });
            let place = self.transform.apply(stored).map(nearest_f32);
            bytes.extend(place.into_iter().flat_map(f32::to_le_bytes));
        }
        let positions = new_column(Dtype::FLOAT32, 3, bytes)?;
        let faces = spot(&name).need(stream.faces, Class::NotFound, "faces", "a point cloud")?;
        let corners = faces.into_iter().flatten().collect();
        Ok(Fragment { name, positions, corners })
    }
}
