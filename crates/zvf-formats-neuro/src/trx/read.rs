//! Reader of TRX: streamlines with attributes and groups, arrays of numbers in a zip or a folder.
//!
//! ```text
//! header.json              counts, and the matrix of an image
//! positions.3.TYPE         x, y, z: mm of the world already
//! offsets.TYPE             the first vertex of each streamline, and one past the last
//! dpv/NAME[.W].TYPE        attributes of vertices
//! dps/NAME[.W].TYPE        attributes of streamlines
//! groups/NAME.uint32       streamlines of a group
//! dpg/GROUP/NAME[.W].TYPE  attributes of a group, one row
//! ```
//!
//! Object `k` is streamline `k`. The matrix is that of an image: it is recorded but not applied. Counts and sizes
//! are compared before any member is read, so a member that inflates to more is refused unread.

mod header;
mod members;

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_formats::{
    Bytes, FileReader, Notes, ReadOptions, default_axes, missing_number, new_column, row_number,
    without_rows,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::flow::{Group, Header, Piece, Space};
use zvf_model::{Batch, Field, Kind, ObjectId, Parts};

use crate::trx::read::header::TrxHeader;
use crate::trx::read::members::{ArrayMember, HEADER, Members, spot};

pub(crate) fn open(bytes: Bytes, options: &ReadOptions) -> Result<FileReader> {
    let Some(path) = bytes.path() else {
        let here = spot("the input").hint("a zip is not read from front to back");
        return here.refuse(Class::Unsupported, "a file or a folder", "a stream");
    };
    let kind = options.kind.unwrap_or(Kind::Streamline);
    if !kind.is_chain() || kind == Kind::Line {
        return spot("the file").refuse(Class::Unsupported, "streamline or polyline", kind);
    }
    let members = Members::open(path, bytes.is_folder())?;
    let trx_header = TrxHeader::read(&members)?;
    let (arrays, others) = members.arrays()?;
    let notes = Notes::default();
    let find =
        |name: &str| arrays.iter().find(|array| array.folder.is_empty() && array.name == name);
    let positions = match find("positions") {
        Some(array) => {
            if array.width != 3 || array.dtype.kind != DtypeKind::Float {
                let expected = "positions.3.float16, float32 or float64";
                return spot(&array.path).refuse(Class::BadShape, expected, &array.path);
            }
            check_rows(array, trx_header.vertices, "NB_VERTICES")?;
            array.clone()
        }
        None if trx_header.vertices == 0 => empty_member("positions", Dtype::FLOAT32, 3),
        None => {
            return spot("the file").refuse(Class::NotFound, "a member positions.3.TYPE", "none");
        }
    };
    let offsets = read_offsets(&members, find("offsets"), &trx_header, options.memory, &notes)?;
    let arrays_in = |folder: &str| -> Vec<ArrayMember> {
        arrays.iter().filter(|array| array.folder == folder).cloned().collect()
    };
    let (dpv, dps) = (arrays_in("dpv"), arrays_in("dps"));
    for array in &dpv {
        check_rows(array, trx_header.vertices, "NB_VERTICES")?;
    }
    for array in &dps {
        check_rows(array, trx_header.streamlines, "NB_STREAMLINES")?;
    }
    let (groups, group_fields, absent) =
        read_groups(&members, &arrays, &trx_header, options.memory)?;
    let mut record = trx_header.record();
    if let (Some(record), false) = (record.as_object_mut(), absent.is_empty()) {
        record.insert("absent".to_owned(), absent.into());
    }
    let mut header =
        Header::new(kind, default_axes(3), new_column(positions.dtype, 3, Vec::new())?);
    header = header.with_unit("millimeter");
    header.space =
        Some(Space { name: Some("RASMM".into()), affine: trx_header.affine, is_applied: false });
    header.records.push(("trx".to_owned(), record));
    header.fields = empty_fields(&dpv)?;
    header.object_fields = empty_fields(&dps)?;
    header.objects = true;
    header.groups = !groups.is_empty();
    header.group_fields = without_rows(&group_fields);
    header.vertices = Some(trx_header.vertices);
    header.left_out.extend(others.into_iter().map(|name| format!("the member {name}")));
    for array in arrays.iter().filter(|array| array.folder.is_empty()) {
        if !["positions", "offsets"].contains(&array.name.as_str()) {
            header.left_out.push(format!("the member {}", array.path));
        }
    }
    let streams = |arrays: Vec<ArrayMember>| -> Result<Vec<Stream>> {
        arrays.into_iter().map(|array| Stream::open(&members, array)).collect()
    };
    let mut pieces = Pieces {
        kind,
        positions: Stream::open(&members, positions)?,
        fields: streams(dpv)?,
        object_fields: streams(dps)?,
        offsets,
        groups: (!groups.is_empty()).then_some((groups, group_fields)),
        streamline: 0,
        vertex: 0,
        next_object: 0,
        batch_rows: to_u64(options.batch_rows.max(1)),
    };
    Ok(FileReader::from_steps(header, move || pieces.next_piece()).with_notes(notes))
}

/// Refuses an array whose size differs from the counts of the header.
fn check_rows(array: &ArrayMember, rows: u64, count: &str) -> Result<()> {
    let size = u128::from(rows) * u128::from(array.width) * u128::from(array.dtype.size);
    if size == u128::from(array.size) {
        return Ok(());
    }
    let expected = format!("{size} bytes, as {count} of {HEADER} is {rows}");
    spot(&array.path).refuse(Class::CountMismatch, expected, array.size)
}

fn empty_member(name: &str, dtype: Dtype, width: u32) -> ArrayMember {
    let (path, folder, name) = (String::new(), String::new(), name.to_owned());
    ArrayMember { path, folder, name, dtype, width, size: 0 }
}

fn empty_fields(arrays: &[ArrayMember]) -> Result<Vec<Field>> {
    let fields = arrays.iter().map(|array| {
        Ok(Field::new(array.name.as_str(), new_column(array.dtype, array.width, Vec::new())?))
    });
    fields.collect()
}

/// Reads all bytes of a small array.
fn read_member(members: &Members, array: &ArrayMember, memory: u64) -> Result<Vec<u8>> {
    if array.size > memory {
        let expected = format!("at most {memory} bytes, which have to be in memory at once");
        let here = spot(&array.path).hint("raise --memory-limit");
        return here.refuse(Class::LimitExceeded, expected, array.size);
    }
    if array.size == 0 {
        return Ok(Vec::new());
    }
    let Some(mut bytes) = members.read(&array.path)? else { return Ok(Vec::new()) };
    let found = bytes.read_all(array.size)?;
    if found.len() as u64 != array.size {
        let expected = format!("{} bytes", array.size);
        return spot(&array.path).refuse(Class::Truncated, expected, found.len());
    }
    Ok(found)
}

/// Reads the integers of an array of one column.
fn read_integers(members: &Members, array: &ArrayMember, memory: u64) -> Result<Vec<u64>> {
    let (spot_here, expected) = (spot(&array.path), "one column of whole numbers");
    let is_integer = matches!(array.dtype.kind, DtypeKind::Int | DtypeKind::UInt);
    let is_column = is_integer && array.width == 1;
    spot_here.ensure(is_column, Class::BadShape, expected, &array.path)?;
    let expected = format_args!("a multiple of {} bytes", array.dtype.size);
    spot_here.ensure(array.rows().is_some(), Class::Misaligned, expected, array.size)?;
    let column = new_column(array.dtype, 1, read_member(members, array, memory)?)?;
    let number = |row| match column.value(row, 0) {
        zvf_model::Value::UInt(n) => Ok(n),
        zvf_model::Value::Int(n) => u64::try_from(n).map_err(|_negative| {
            spot(format!("{}, value {row}", array.path)).error(Class::Negative, "0 or more", n)
        }),
        _ => Ok(0),
    };
    (0..column.len()).map(number).collect()
}

/// Reads the first vertex of each streamline, and one past the last.
fn read_offsets(
    members: &Members,
    array: Option<&ArrayMember>,
    header: &TrxHeader,
    memory: u64,
    notes: &Notes,
) -> Result<Vec<u64>> {
    let Some(array) = array else {
        if header.streamlines == 0 && header.vertices == 0 {
            return Ok(vec![0]);
        }
        return spot("the file").refuse(Class::NotFound, "a member offsets.uint32", "none");
    };
    let place = |row: usize| format!("{}, value {row}", array.path);
    let mut offsets = read_integers(members, array, memory)?;
    let found = offsets.len() as u64;
    if found == header.streamlines && found > 0 {
        offsets.push(header.vertices);
        notes.push(format!("{} lacks its last value: it is taken for NB_VERTICES", array.path));
    } else if found.checked_sub(1) != Some(header.streamlines)
        && !(found == 0 && header.streamlines == 0)
    {
        let expected = format!("one value more than NB_STREAMLINES, {}", header.streamlines);
        return spot(&array.path).refuse(Class::CountMismatch, expected, found);
    }
    if offsets.is_empty() {
        offsets.push(0);
    }
    let found = offsets.first().map_or_else(String::new, u64::to_string);
    spot(place(0)).ensure(offsets.first() == Some(&0), Class::OutOfBounds, "0", found)?;
    for (row, [before, offset]) in (1..).zip(offsets.array_windows()) {
        if *offset > header.vertices {
            let expected = format!("at most NB_VERTICES, {}", header.vertices);
            return spot(place(row)).refuse(Class::OutOfBounds, expected, offset);
        }
        if before > offset {
            let expected = format!("at least {before}");
            return spot(place(row)).refuse(Class::NotMonotonic, expected, offset);
        }
    }
    let last = offsets.len() - 1;
    if offsets[last] != header.vertices {
        let expected = format!("NB_VERTICES, {}", header.vertices);
        return spot(place(last)).refuse(Class::CountMismatch, expected, offsets[last]);
    }
    Ok(offsets)
}

/// Reads all groups by name, their attributes as columns, and the pairs of a group and an attribute that it lacks.
fn read_groups(
    members: &Members,
    arrays: &[ArrayMember],
    header: &TrxHeader,
    memory: u64,
) -> Result<(Vec<Group>, Vec<Field>, Vec<serde_json::Value>)> {
    let mut groups = Vec::new();
    for array in arrays.iter().filter(|array| array.folder == "groups") {
        let mut ids = Vec::new();
        for (row, member) in read_integers(members, array, memory)?.into_iter().enumerate() {
            let id = i64::try_from(member).ok().filter(|_| member < header.streamlines);
            let place = format!("{}, value {row}", array.path);
            let expected = format_args!("a streamline below {}", header.streamlines);
            let id = spot(place).need(id, Class::OutOfBounds, expected, member)?;
            ids.push(ObjectId(id));
        }
        groups.push(Group { name: Some(array.name.clone()), members: ids });
    }
    let mut keys: Vec<&ArrayMember> = Vec::new(); // one for each name
    let group_arrays = || arrays.iter().filter_map(|a| Some((a.folder.strip_prefix("dpg/")?, a)));
    for (group, array) in group_arrays() {
        if !groups.iter().any(|listed| listed.name.as_deref() == Some(group)) {
            let expected = format!("a member groups/{group}.uint32");
            return spot(&array.path).refuse(Class::NotFound, expected, "none");
        }
        check_rows(array, 1, "a group has one row; the count")?;
        match keys.iter().find(|key| key.name == array.name) {
            None => keys.push(array),
            Some(key) if (key.dtype, key.width) == (array.dtype, array.width) => {}
            Some(key) => {
                let expected = format!("the type of {}", key.path);
                return spot(&array.path).refuse(Class::Unsupported, expected, &array.path);
            }
        }
    }
    keys.sort_by(|a, b| a.name.cmp(&b.name));
    let (mut fields, mut absent) = (Vec::new(), Vec::new());
    for key in keys {
        let mut bytes = Vec::new();
        for group in &groups {
            let name = group.name.as_deref().unwrap_or_default(); // all groups have one
            let group_array =
                group_arrays().find(|(group, array)| *group == name && array.name == key.name);
            match group_array {
                Some((_, array)) => bytes.extend(read_member(members, array, memory)?),
                None => {
                    absent.push(serde_json::json!([name, key.name]));
                    bytes.extend(missing_number(key.dtype).repeat(key.width as usize));
                }
            }
        }
        fields.push(Field::new(key.name.as_str(), new_column(key.dtype, key.width, bytes)?));
    }
    Ok((groups, fields, absent))
}

/// A reader of the rows of an array.
struct Stream {
    array: ArrayMember,
    bytes: Option<Bytes>,
}

impl Stream {
    fn open(members: &Members, array: ArrayMember) -> Result<Self> {
        let bytes = if array.size > 0 { members.read(&array.path)? } else { None };
        Ok(Self { array, bytes })
    }

    /// Reads the next rows.
    fn take_column(&mut self, rows: u64) -> Result<zvf_model::Column> {
        let stride = self.array.width as usize * self.array.dtype.size as usize;
        let mut buffer = vec![0; rows as usize * stride];
        if let Some(bytes) = self.bytes.as_mut().filter(|_| rows > 0) {
            bytes.read(&mut buffer, &self.array.path)?;
        }
        new_column(self.array.dtype, self.array.width, buffer)
    }

    fn take_field(&mut self, rows: u64) -> Result<Field> {
        let column = self.take_column(rows)?;
        Ok(Field::new(self.array.name.as_str(), column))
    }
}

/// The pieces of a file.
struct Pieces {
    kind: Kind,
    positions: Stream,
    fields: Vec<Stream>,
    object_fields: Vec<Stream>,
    offsets: Vec<u64>, // never descending, at least one; the last is the number of vertices
    groups: Option<(Vec<Group>, Vec<Field>)>,
    streamline: usize,  // of the next vertex
    vertex: u64,        // the next vertex
    next_object: usize, // the next streamline without a piece of objects
    batch_rows: u64,
}

impl Pieces {
    fn next_piece(&mut self) -> Result<Option<Piece>> {
        let streamlines = self.offsets.len() - 1;
        if self.next_object < self.streamline {
            let ids = self.next_object..self.streamline;
            let rows = ids.len() as u64;
            self.next_object = self.streamline;
            let fields: Result<Vec<_>, _> =
                self.object_fields.iter_mut().map(|stream| stream.take_field(rows)).collect();
            let ids = ids.map(|id| ObjectId(row_number(id))).collect();
            return Ok(Some(Piece::Objects { ids, fields: fields? }));
        }
        if self.streamline < streamlines {
            return self.read_vertices().map(Some);
        }
        let groups = self.groups.take();
        Ok(groups.map(|(groups, fields)| Piece::Groups { groups, fields }))
    }

    /// Reads the vertices of the next streamlines, or a part of a long one.
    fn read_vertices(&mut self) -> Result<Piece> {
        let start = self.vertex;
        let (mut ends, mut objects) = (vec![0], Vec::new());
        while let Some(end) = self.offsets.get(self.streamline + 1).copied() {
            let end = end.min(start.saturating_add(self.batch_rows)); // a saturated sum is no limit
            self.vertex = end;
            ends.push(saturating_usize(end - start)); // at most `batch_rows`
            objects.push(ObjectId(row_number(self.streamline)));
            if self.offsets[self.streamline + 1] > end {
                break; // the next batch continues the streamline
            }
            self.streamline += 1;
            if end - start >= self.batch_rows || objects.len() as u64 >= self.batch_rows {
                break;
            }
        }
        let rows = self.vertex - start;
        let mut batch = Batch::new(self.kind, self.positions.take_column(rows)?);
        for stream in &mut self.fields {
            batch = batch.with_field(stream.take_field(rows)?)?;
        }
        let parts = Parts::new(ends, objects)?;
        Ok(Piece::Vertices(batch.with_parts(parts)?))
    }
}
