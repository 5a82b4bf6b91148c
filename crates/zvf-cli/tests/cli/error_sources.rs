//! An error prints its source or links it, never both: a printed chain would otherwise repeat it.

use std::error::Error;
use std::io;

use zvf::convert::ConvertError;
use zvf::format::{Class, Expected, FormatError, Part, join_causes};
use zvf::metadata::{Dtype, Root};
use zvf::model::{BadBatch, BadCode, Column, ModelError, ObjectId};
use zvf::publish::PublishError;
use zvf::query::region::BadRegion;
use zvf::query::{BadQuery, QueryError};
use zvf::repair::RepairError;
use zvf::store::Op;
use zvf::tensor::TensorError;
use zvf::{Key, StoreError};

type Boxed = Box<dyn Error + Send + Sync>;

/// Returns errors of the operating system: a number, a kind, a text.
fn system_errors() -> [io::Error; 3] {
    let denied = io::Error::from_raw_os_error(13);
    [denied, io::ErrorKind::StorageFull.into(), io::Error::other("the disk is on fire")]
}

fn format_error() -> FormatError {
    let expected = Expected::Bytes(88);
    FormatError::new(Class::Truncated, Part::FragmentIndex, "ranges", 24, expected, 40_u8)
}

fn publish_errors() -> Vec<PublishError> {
    let at = |source| PublishError::IoAt { path: "0/zarr.json".into(), source };
    let errors = system_errors().map(PublishError::Io).into_iter();
    let errors = errors.chain(system_errors().map(PublishError::Unknown));
    let changed = PublishError::Changed { found: "nothing".into() };
    let other_errors = [
        PublishError::Taken { name: "a.zv".into() },
        PublishError::NameTooLong { found: 300 },
        PublishError::NoName("/".into()),
        PublishError::OtherDevice,
        PublishError::Cancelled,
        changed,
    ];
    errors.chain(system_errors().map(at)).chain(other_errors).collect()
}

fn store_errors() -> Vec<StoreError> {
    let key = Key::root().join("0/vertices/c/0").unwrap();
    let mut errors = vec![
        StoreError::from(format_error()).with_key(&key).with_span(16, 40),
        Root::parse(b"[").unwrap_err().into(),
        StoreError::invalid_value(Class::BadTag, Op::Open, "version", Expected::Rule("0.9"), "1"),
        StoreError::limit(Op::List, "keys", 10, 11),
        StoreError::missing(&key, "the array lists this chunk"),
        StoreError::unsupported(Op::Decode, "codec", "draco"),
        StoreError::custom(Class::Conflict, Op::Write, "words"),
        StoreError::codec(Class::Codec, "zstd", io::Error::other("bad block")),
    ];
    errors.extend(system_errors().map(|error| StoreError::io(Op::Read, error).with_key(&key)));
    errors.extend(publish_errors().into_iter().map(StoreError::from));
    errors
}

fn model_errors() -> Vec<ModelError> {
    let column = Column::new("uint32".parse::<Dtype>().unwrap(), 3, vec![0; 7].into()).unwrap_err();
    let mut errors: Vec<ModelError> = store_errors().into_iter().map(ModelError::from).collect();
    errors.extend([
        ModelError::from(format_error()),
        ModelError::from(Root::parse(b"[").unwrap_err()),
        ModelError::from(column),
        ModelError::from(BadCode { code: Some(9), categories: 2 }),
        ModelError::invalid_value(Class::CountMismatch, "rows", Expected::Exactly(12), 11_u8),
    ]);
    errors
        .into_iter()
        .map(|error| error.with_array("0/vertices").with_object(ObjectId(3)))
        .collect()
}

fn query_errors() -> Vec<QueryError> {
    let mut errors: Vec<QueryError> = model_errors().into_iter().map(QueryError::from).collect();
    errors.extend([
        QueryError::from(BadQuery::NoObjects),
        QueryError::from(BadQuery::Region(BadRegion::NegativeRadius)),
        QueryError::from(BadBatch::Offsets),
    ]);
    errors
}

fn convert_errors() -> Vec<ConvertError> {
    let code = BadCode { code: Some(9), categories: 2 };
    let mut errors = vec![
        ConvertError::Category { column: "label".into(), code },
        ConvertError::NoType { format: "CSV", what: "a mesh".into(), advice: "write PLY" },
    ];
    errors.extend(system_errors().map(ConvertError::Io));
    errors.extend(system_errors().map(ConvertError::Read));
    errors
}

fn repair_errors() -> Vec<RepairError> {
    let io = |source| RepairError::Io { path: "0/zarr.json".into(), source };
    let mut errors: Vec<RepairError> = store_errors().into_iter().map(RepairError::from).collect();
    errors.extend(system_errors().map(io));
    errors.push(RepairError::Changed { path: "0/zarr.json".into() });
    errors
}

#[cfg(feature = "write")]
fn write_errors() -> Vec<zvf::write::WriteError> {
    use zvf::write::WriteError;

    let code = BadCode { code: Some(9), categories: 2 };
    let mut errors: Vec<WriteError> = store_errors().into_iter().map(WriteError::from).collect();
    errors.extend(model_errors().into_iter().map(WriteError::from));
    errors.extend([
        WriteError::from(format_error()),
        WriteError::from(BadBatch::Offsets),
        WriteError::Code { name: "label".into(), code },
    ]);
    errors.extend(system_errors().map(WriteError::Scratch));
    errors
}

/// Returns all errors as `zvf::Error`, by which the command and Python print them.
fn zvf_errors() -> Vec<zvf::Error> {
    let mut errors: Vec<zvf::Error> = Vec::new();
    errors.extend(store_errors().into_iter().map(zvf::Error::from));
    errors.extend(model_errors().into_iter().map(zvf::Error::from));
    errors.extend(query_errors().into_iter().map(zvf::Error::from));
    errors.extend(convert_errors().into_iter().map(zvf::Error::from));
    errors.extend(repair_errors().into_iter().map(zvf::Error::from));
    errors.extend(store_errors().into_iter().map(TensorError::from).map(zvf::Error::from));
    #[cfg(feature = "write")]
    errors.extend(write_errors().into_iter().map(zvf::Error::from));
    #[cfg(feature = "pyramid")]
    errors.extend(
        write_errors().into_iter().map(zvf::pyramid::PyramidError::from).map(zvf::Error::from),
    );
    #[cfg(feature = "render")]
    errors.extend(system_errors().map(zvf::render::RenderError::from).map(zvf::Error::from));
    errors
}

/// Returns every error of the published crates that can be constructed outside of them.
fn errors() -> Vec<Boxed> {
    fn boxed<E: Into<Boxed>>(errors: Vec<E>) -> impl Iterator<Item = Boxed> {
        errors.into_iter().map(Into::into)
    }
    let mut errors: Vec<Boxed> = vec![format_error().into()];
    errors.extend(boxed(publish_errors()));
    errors.extend(boxed(store_errors()));
    errors.extend(boxed(model_errors()));
    errors.extend(boxed(query_errors()));
    errors.extend(boxed(convert_errors()));
    errors.extend(boxed(repair_errors()));
    errors.extend(boxed(store_errors().into_iter().map(TensorError::from).collect()));
    #[cfg(feature = "write")]
    errors.extend(boxed(write_errors()));
    #[cfg(feature = "pyramid")]
    errors
        .extend(boxed(write_errors().into_iter().map(zvf::pyramid::PyramidError::from).collect()));
    #[cfg(feature = "render")]
    errors.extend(system_errors().map(zvf::render::RenderError::from).map(Boxed::from));
    #[cfg(feature = "edit")]
    errors.extend(system_errors().map(zvf::edit::EditError::from).map(Boxed::from));
    #[cfg(feature = "serve")]
    errors.extend(serve_errors());
    errors.extend(boxed(zvf_errors()));
    errors
}

#[cfg(feature = "serve")]
fn serve_errors() -> Vec<Boxed> {
    use zvf_precomputed::PrecomputedError;
    use zvf_precomputed::encode::{LodMesh, encode_multilod};
    use zvf_serve::ServeError;

    let bad_index = LodMesh { positions: vec![0.0; 9], faces: vec![[0, 1, 7]], scale: 1.0 };
    let bad_index = encode_multilod(&[bad_index]).unwrap_err();
    let bad_position = LodMesh { positions: vec![f64::NAN; 9], faces: vec![[0, 1, 2]], scale: 1.0 };
    let bad_position = encode_multilod(&[bad_position]).unwrap_err();
    let mut errors: Vec<Boxed> = vec![bad_index.clone().into(), bad_position.clone().into()];
    errors.extend([
        PrecomputedError::from(bad_index).into(),
        PrecomputedError::from(bad_position).into(),
    ]);
    for error in store_errors() {
        let address = "brain.zarrvectors".to_owned();
        errors.push(ServeError::Store { address, source: error.into() }.into());
    }
    for source in system_errors() {
        let address = "127.0.0.1:8080".parse().unwrap();
        errors.push(ServeError::Listen { address, source }.into());
    }
    for source in system_errors() {
        errors.push(ServeError::Client { folder: "client".into(), source }.into());
    }
    errors
}

#[test]
fn errors_do_not_print_the_source_that_they_link() {
    let mut linked = 0;
    for error in errors() {
        let text = error.to_string();
        let mut next = error.source();
        while let Some(source) = next {
            linked += 1;
            assert!(!text.contains(&source.to_string()), "{text:?} repeats its source {source:?}");
            next = source.source();
        }
    }
    assert!(linked > 50, "{linked} sources");
}

#[test]
fn system_errors_are_printed_once() {
    let message = "the disk is on fire";
    let [_, _, error] = system_errors();
    let error = zvf::Error::from(ConvertError::Io(error));
    assert_eq!(error.to_string(), format!("Io, cannot write: {message}"));
    assert_eq!(join_causes(&error, error.source()), error.to_string());
    let [_, _, source] = system_errors();
    let error = zvf::Error::from(RepairError::Io { path: "a".into(), source });
    let text = format!("Io in a, the file cannot be read or written: {message}");
    assert_eq!(error.to_string(), text);
}
