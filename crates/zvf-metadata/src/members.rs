//! A single description of a document for reading and for writing a JSON object.
//!
//! A document lists its members once, in the order in which they are written ([`Document`]). The
//! first fault that reading meets is the one that is reported.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;
use zvf_format::{Class, Expected};

use super::Object;
use super::error::{At, MetadataError};
pub(super) use super::fields::Member;
use super::fields::{Fields, as_integer, float, list, wrong_value_error};

/// An object with known members. The default has those that may be absent.
pub(super) trait Document: Clone + Default {
    /// Passes each member to `m`, in the order in which they are written.
    fn members(&mut self, m: &mut Members<'_>);
}

/// Reads the document in `object`.
pub(super) fn read<D: Document>(at: &At<'_>, object: Object) -> Result<D, MetadataError> {
    read_fields(Fields::new(at, object))
}

/// Reads the document in `fields`.
fn read_fields<D: Document>(fields: Fields<'_>) -> Result<D, MetadataError> {
    let (mut document, mut m) = (D::default(), Members { form: Form::Read(fields), fault: None });
    document.members(&mut m);
    m.fault.map_or(Ok(document), Err)
}

/// The object that `document` is written as.
pub(super) fn write<D: Document>(document: &D) -> Object {
    let mut m = Members { form: Form::Write(Object::new()), fault: None };
    document.clone().members(&mut m);
    match m.form {
        Form::Write(object) => object,
        Form::Read(fields) => fields.into_remaining(),
    }
}

/// Reads or writes the members of one document.
pub(super) struct Members<'a> {
    form: Form<'a>,
    fault: Option<MetadataError>, // the first one
}

enum Form<'a> {
    Read(Fields<'a>),
    Write(Object),
}

impl Members<'_> {
    pub(super) const fn reads(&self) -> bool {
        matches!(self.form, Form::Read(_))
    }

    /// Reads a member, or writes it unless `write` returns nothing.
    pub(super) fn member<T>(
        &mut self,
        key: &'static str,
        member: &mut T,
        read: impl FnOnce(&mut Fields<'_>, &'static str) -> Result<T, MetadataError>,
        write: impl FnOnce(&T) -> Option<Value>,
    ) {
        match &mut self.form {
            Form::Read(fields) => match read(fields, key) {
                Ok(found) => *member = found,
                Err(fault) => {
                    self.fault.get_or_insert(fault);
                }
            },
            Form::Write(object) => {
                object.extend(write(member).map(|value| (key.to_owned(), value)));
            }
        }
    }

    pub(super) fn required<T: Member>(&mut self, key: &'static str, member: &mut T) {
        self.member(key, member, |f, key| f.require(key, T::read), |m| Some(m.to_value()));
    }

    pub(super) fn option<T: Member>(&mut self, key: &'static str, member: &mut Option<T>) {
        self.member(key, member, |f, key| f.take(key, T::read), |m| m.as_ref().map(T::to_value));
    }

    /// A member that is `null` when there is none.
    pub(super) fn nullable<T: Member>(&mut self, key: &'static str, member: &mut Option<T>) {
        let write = |m: &Option<T>| Some(m.as_ref().map_or(Value::Null, T::to_value));
        self.member(key, member, |f, key| f.take(key, T::read), write);
    }

    /// A member that is always written. If it is absent in the document, it keeps its default.
    pub(super) fn or_default<T: Member + Clone>(&mut self, key: &'static str, member: &mut T) {
        let default = member.clone();
        let read = |f: &mut Fields<'_>, key| Ok(f.take(key, T::read)?.unwrap_or(default));
        self.member(key, member, read, |member| Some(member.to_value()));
    }

    /// A member that is omitted if it equals `default`.
    pub(super) fn unless<T: Member + PartialEq + Clone>(
        &mut self,
        default: T,
        key: &'static str,
        member: &mut T,
    ) {
        let usual = default.clone();
        let read = |f: &mut Fields<'_>, key| Ok(f.take(key, T::read)?.unwrap_or(usual));
        self.member(key, member, read, |member| (*member != default).then(|| member.to_value()));
    }

    /// The tag of an array, which has another name in older versions.
    pub(super) fn tag(&mut self, tag: &mut Option<String>) {
        self.accept(OLD_TAG, "zv_array");
        self.option("zv_array", tag);
    }

    /// Reads `old` as `key`.
    pub(super) fn accept(&mut self, old: &'static str, key: &'static str) {
        if let Form::Read(fields) = &mut self.form {
            fields.accept(old, key);
        }
    }

    /// All other members.
    pub(super) fn extras(&mut self, extras: &mut Object) {
        match &mut self.form {
            Form::Read(fields) => *extras = core::mem::take(&mut fields.left),
            Form::Write(object) => {
                for (key, value) in extras {
                    if !object.contains_key(key) {
                        object.insert(key.clone(), value.clone());
                    }
                }
            }
        }
    }
}

/// Reads an object whose keys and values are those of a list.
pub(super) fn entries<T>(
    at: &At<'_>,
    value: Value,
    read: impl Fn(&At<'_>, String, Value) -> Result<T, MetadataError>,
) -> Result<Vec<T>, MetadataError> {
    Object::read(at, value)?.into_iter().map(|(key, value)| read(at, key, value)).collect()
}

impl<D: Document> Member for D {
    fn read(at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        read_fields(Fields::from_value(at, value)?)
    }

    fn to_value(&self) -> Value {
        Value::Object(write(self))
    }
}

impl Member for String {
    fn read(at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        let Value::String(text) = value else {
            return Err(wrong_value_error(at, "a string", &value));
        };
        Ok(text)
    }

    fn to_value(&self) -> Value {
        self.as_str().into()
    }
}

impl Member for bool {
    fn read(at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        value.as_bool().ok_or_else(|| wrong_value_error(at, "true or false", &value))
    }

    fn to_value(&self) -> Value {
        (*self).into()
    }
}

impl Member for i64 {
    fn read(at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        as_integer(&value).ok_or_else(|| wrong_value_error(at, "a whole number of 64 bits", &value))
    }

    fn to_value(&self) -> Value {
        (*self).into()
    }
}

impl Member for u64 {
    fn read(at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        if let Some(n) = value.as_u64() {
            return Ok(n);
        }
        let n = i64::read(at, value)?;
        Self::try_from(n)
            .map_err(|_source| MetadataError::new(Class::Negative, at, Expected::AtLeast(0), n))
    }

    fn to_value(&self) -> Value {
        (*self).into()
    }
}

impl Member for f64 {
    fn read(at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        value.as_f64().ok_or_else(|| wrong_value_error(at, "a number", &value))
    }

    fn to_value(&self) -> Value {
        float(*self)
    }
}

impl Member for Value {
    fn read(_at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        Ok(value)
    }

    fn to_value(&self) -> Value {
        self.clone()
    }
}

impl Member for Object {
    fn read(at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        let Value::Object(object) = value else {
            return Err(wrong_value_error(at, "an object", &value));
        };
        Ok(object)
    }

    fn to_value(&self) -> Value {
        self.clone().into()
    }
}

impl<T: Member> Member for Vec<T> {
    fn read(at: &At<'_>, value: Value) -> Result<Self, MetadataError> {
        list(at, value, T::read)
    }

    fn to_value(&self) -> Value {
        Value::Array(self.iter().map(T::to_value).collect())
    }
}

/// The older spelling of the key of a tag.
pub(super) const OLD_TAG: &str = "zvf_array";
