//! The exit codes shared by all programs built on this library. The page of faults in the book is
//! generated from the same table.

use zvf_format::Class;

/// Returns the exit code of a program that ends with an error of this class.
///
/// ```
/// use zvf::format::Class;
///
/// assert_eq!(zvf::exit_code(Class::NotFound), 4);
/// assert_eq!(zvf::exit_code(Class::Checksum), 3);
/// ```
#[expect(clippy::wildcard_enum_match_arm, reason = "`is_damage` lists the classes of bytes")]
pub fn exit_code(class: Class) -> u8 {
    match class {
        Class::ExpectationFailed => 1,
        Class::InvalidKey | Class::InvalidArgument | Class::Unsupported => 2,
        class if class.is_damage() => 3,
        Class::NotFound
        | Class::AlreadyExists
        | Class::PermissionDenied
        | Class::Unauthenticated
        | Class::NoSpace => 4,
        // Running the command again opens the new version.
        Class::FileChanged | Class::Throttled | Class::Timeout | Class::Unavailable | Class::Io => {
            5
        }
        Class::Cancelled => 130,
        // Conflicts with other writers: `Conflict`, `WriterFenced` and similar classes.
        _ => 6,
    }
}
