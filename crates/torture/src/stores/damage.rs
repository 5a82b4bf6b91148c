//! One random damage to a store, as disks, copies and other programs cause it.

use bytes::Bytes;
use serde_json::Value;

use archives::random::Random;

/// A path and its contents.
type File = (String, Bytes);

/// The kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// One byte of an object that is not a document.
    Byte,
    /// One value of a document.
    Field,
    /// A missing object.
    Missing,
    /// A truncated object.
    Truncated,
    /// Two exchanged objects of one array.
    Swapped,
}

/// One damage: the new contents of objects, or their removal.
pub(crate) struct Damage {
    pub(crate) kind: Kind,
    pub(crate) changes: Vec<(String, Option<Bytes>)>,
    pub(crate) words: String,
}

impl Damage {
    fn new(kind: Kind, path: &str, bytes: Option<Bytes>, words: String) -> Self {
        Self { kind, changes: vec![(path.to_owned(), bytes)], words }
    }

    /// Returns the damaged part of the store: the kind of array, or the key of a document.
    pub(crate) fn damaged_part(&self) -> String {
        let path = self.changes.first().map_or("", |(path, _)| path.as_str());
        if self.kind == Kind::Field {
            return self.words.rsplit(' ').next().unwrap_or_default().to_owned();
        }
        let plain = |part: &&str| part.parse::<i64>().is_err() && *part != "c";
        let parts: Vec<&str> = path.split('/').filter(plain).take(2).collect();
        parts.join("/")
    }
}

/// Returns a random damage that is possible in this store.
pub(crate) fn choose_damage(files: &[File], random: &mut Random) -> Option<Damage> {
    let kinds = [Kind::Byte, Kind::Field, Kind::Missing, Kind::Truncated, Kind::Swapped];
    let kind = random.choose(&kinds);
    let (documents, others): (Vec<&File>, Vec<&File>) =
        files.iter().partition(|(path, _)| path.ends_with("zarr.json"));
    match kind {
        Kind::Byte => flip_bit(pick_file(&others, random)?, random),
        Kind::Field => change_field(pick_file(&documents, random)?, random),
        Kind::Missing => {
            let (path, _) = &files[random.next_below(files.len())];
            Some(Damage::new(kind, path, None, format!("{path} gone")))
        }
        Kind::Truncated => {
            let (path, bytes) = &files[random.next_below(files.len())];
            let len = random.next_below(bytes.len().max(1));
            let words = format!("{path} cut to {len} bytes");
            Some(Damage::new(kind, path, Some(bytes.slice(..len)), words))
        }
        Kind::Swapped => swap_objects(&others, random),
    }
}

fn pick_file<'a>(files: &[&'a File], random: &mut Random) -> Option<&'a File> {
    (!files.is_empty()).then(|| random.choose(files))
}

fn flip_bit((path, bytes): &File, random: &mut Random) -> Option<Damage> {
    if bytes.is_empty() {
        return None;
    }
    let (at, mut damaged) = (random.next_below(bytes.len()), bytes.to_vec());
    let bit = random.next_below(8);
    damaged[at] ^= 1 << bit;
    let words = format!("{path} byte {at} bit {bit}");
    Some(Damage::new(Kind::Byte, path, Some(damaged.into()), words))
}

/// Changes one value of a document slightly, to another type, or removes it.
fn change_field((path, bytes): &File, random: &mut Random) -> Option<Damage> {
    let mut document: Value = serde_json::from_slice(bytes).ok()?;
    let mut pointers = Vec::new();
    collect_pointers(&document, String::new(), &mut pointers);
    let pointer = pointers[random.next_below(pointers.len())].clone();
    let how = if random.next_below(4) == 0 {
        let (parent, key) = pointer.rsplit_once('/')?;
        match document.pointer_mut(parent)? {
            Value::Object(object) => drop(object.remove(key)),
            Value::Array(items) => drop(items.remove(key.parse().ok()?)),
            _ => return None,
        }
        "taken out"
    } else {
        let value = document.pointer_mut(&pointer)?;
        *value = change_value(value, random);
        "changed"
    };
    let text = serde_json::to_vec(&document).ok()?;
    // The last component is the key, without indices of lists.
    let key: Vec<&str> = pointer.split('/').filter(|part| part.parse::<u64>().is_err()).collect();
    let words = format!("{path} {how}: {pointer} {}", key.last().unwrap_or(&""));
    Some(Damage::new(Kind::Field, path, Some(text.into()), words))
}

/// Collects the paths of all values except the document itself.
fn collect_pointers(value: &Value, at: String, pointers: &mut Vec<String>) {
    if !at.is_empty() {
        pointers.push(at.clone());
    }
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let key = key.replace('~', "~0").replace('/', "~1");
                collect_pointers(value, format!("{at}/{key}"), pointers);
            }
        }
        Value::Array(items) => {
            for (i, value) in items.iter().enumerate() {
                collect_pointers(value, format!("{at}/{i}"), pointers);
            }
        }
        _ => {}
    }
}

fn change_value(value: &Value, random: &mut Random) -> Value {
    match value {
        Value::Number(number) => match random.next_below(3) {
            0 => Value::from(number.as_f64().unwrap_or(0.0) + 1.0),
            1 => Value::from(-1),
            _ => number.as_i64().map_or(Value::from(1e300), |n| Value::from(n.wrapping_add(1))),
        },
        Value::String(text) => match random.next_below(2) {
            0 => Value::from(format!("{text}x")),
            _ => Value::from(7),
        },
        Value::Bool(flag) => Value::from(!flag),
        Value::Null => Value::from(1),
        Value::Array(items) => Value::Array(items.iter().skip(1).cloned().collect()),
        Value::Object(_) => Value::from("gone"),
    }
}

/// Exchanges two different objects of one folder of chunks.
fn swap_objects(others: &[&File], random: &mut Random) -> Option<Damage> {
    let (path, bytes) = pick_file(others, random)?;
    let (array, _) = path.split_once("/c/")?;
    let start = format!("{array}/c/");
    let is_sibling = |file: &&&File| file.0.starts_with(&start) && file.1 != *bytes;
    let siblings: Vec<&File> = others.iter().filter(is_sibling).copied().collect();
    let (sibling, sibling_bytes) = pick_file(&siblings, random)?;
    let words = format!("{path} and {sibling} swapped");
    let changes =
        vec![(path.clone(), Some(sibling_bytes.clone())), (sibling.clone(), Some(bytes.clone()))];
    Some(Damage { kind: Kind::Swapped, changes, words })
}
