//! An error either prints its source or returns it as `source`, never both: a printed chain would
//! otherwise repeat it.

use std::error::Error as _;
use std::io;

use zvf::format::{Class, Expected, FormatError, Part};
use zvf::join_causes;
use zvf::metadata::{Dtype, Root};
use zvf::model::{BadBatch, BadCode, Column};
use zvf::publish::PublishError;
use zvf::query::BadQuery;
use zvf::query::region::BadRegion;
use zvf::{Error, Key};

type Boxed = Box<dyn std::error::Error + Send + Sync>;

/// Returns errors of the operating system: by number, by kind, by text.
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
        PublishError::Refused(Class::InvalidArgument, "name: expected another".into()),
        PublishError::NoName("/".into()),
        PublishError::Cancelled,
        changed,
    ];
    errors.chain(system_errors().map(at)).chain(other_errors).collect()
}

/// Returns an error that prints its cause.
fn shown_error(cause: io::Error) -> Error {
    Error::custom(Class::Io, "the file cannot be read or written").because(cause).at_key("a")
}

/// Returns errors of every layer as `Error`, the type that the command and Python print.
fn zvf_errors() -> Vec<Error> {
    let key = Key::root().join("0/vertices/c/0").unwrap();
    let column = Column::new("uint32".parse::<Dtype>().unwrap(), 3, vec![0; 7].into()).unwrap_err();
    let mut errors = vec![
        Error::from(format_error()).at_key(&key).at_span(16, 40),
        Root::parse(b"[").unwrap_err().into(),
        Error::new(Class::BadTag, "version", "0.9", "1"),
        Error::new(Class::CountMismatch, "rows", 12, 11),
        Error::limit("keys", 10, 11),
        Error::missing(&key, "the array lists this chunk"),
        Error::unsupported("codec", "draco"),
        Error::custom(Class::Conflict, "words"),
        Error::codec(Class::Codec, "zstd", io::Error::other("bad block")),
        Error::from(column),
        Error::from(BadCode { code: Some(9), categories: 2 }),
        Error::from(BadQuery::NoObjects),
        Error::from(BadQuery::Region(BadRegion::NegativeRadius)),
        Error::from(BadBatch::Offsets),
    ];
    errors.extend(publish_errors().into_iter().map(Error::from));
    errors.extend(system_errors().map(|error| Error::io("read", error).at_key(&key)));
    errors.extend(system_errors().map(Error::from));
    errors.extend(system_errors().map(Error::scratch));
    errors.extend(system_errors().map(shown_error));
    errors
}

/// Returns every error of the published crates that can be constructed outside these crates.
fn errors() -> Vec<Boxed> {
    let mut errors: Vec<Boxed> = vec![format_error().into()];
    errors.extend(publish_errors().into_iter().map(Boxed::from));
    errors.extend(system_errors().map(zvf::edit::EditError::from).map(Boxed::from));
    #[cfg(feature = "serve")]
    errors.extend(serve_errors());
    errors.extend(zvf_errors().into_iter().map(Boxed::from));
    let placed = zvf_errors().into_iter().map(|error| error.at_key("0/vertices").at_object(3));
    errors.extend(placed.map(Boxed::from));
    errors
}

#[cfg(feature = "serve")]
fn serve_errors() -> Vec<Boxed> {
    use zvf_precomputed::encode::{LodMesh, encode_multilod};
    use zvf_serve::ServeError;

    let bad_index = LodMesh { positions: vec![0.0; 9], faces: vec![[0, 1, 7]], scale: 1.0 };
    let bad_index = encode_multilod(&[bad_index]).unwrap_err();
    let bad_position = LodMesh { positions: vec![f64::NAN; 9], faces: vec![[0, 1, 2]], scale: 1.0 };
    let bad_position = encode_multilod(&[bad_position]).unwrap_err();
    let mut errors: Vec<Boxed> = vec![bad_index.clone().into(), bad_position.clone().into()];
    errors.extend([Error::from(bad_index).into(), Error::from(bad_position).into()]);
    for error in zvf_errors() {
        let address = "brain.zarrvectors".to_owned();
        errors.push(ServeError::Store { address, source: error }.into());
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
    let error = Error::from(error);
    assert_eq!(error.to_string(), format!("Io, cannot write: {message}"));
    assert_eq!(join_causes(&error, error.source()), error.to_string());
    let [_, _, source] = system_errors();
    let error = shown_error(source);
    let text = format!("Io in a, the file cannot be read or written: {message}");
    assert_eq!(error.to_string(), text);
}
