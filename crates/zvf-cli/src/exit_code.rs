//! The exit codes of the command; the page of faults in the book is made of the same table.

use super::Class;

/// The exit code of a command that ends with a fault of this class.
#[expect(clippy::wildcard_enum_match_arm, reason = "classes of bytes are told by `is_damage`")]
pub(crate) fn exit_code(class: Class) -> u8 {
    match class {
        Class::ExpectationFailed => FINDINGS,
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
        // Another writer: `Conflict` and its kin.
        _ => 6,
    }
}

/// What was looked for and found, or what a script expects and does not hold.
pub(crate) const FINDINGS: u8 = 1;
