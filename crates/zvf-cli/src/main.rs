//! The `zvf` program.
#![deny(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    limit_heap_arenas();
    zvf_cli::main_with(std::env::args_os())
}

/// Limits glibc to one heap arena for each processor.
///
/// By itself it makes up to eight for each, one for a thread that finds the others in use, and memory that is freed in an
/// arena is not used by the others. With the threads of the pools the process would hold twice what
/// `--memory-limit` allows.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no safe interface to the allocator's settings")]
fn limit_heap_arenas() {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let arenas = libc::c_int::try_from(processors).unwrap_or(libc::c_int::MAX);
    // SAFETY: the call changes a number of the allocator and takes no pointer, and no other thread runs yet: this is the first
    // statement of `main`. Where it fails, the number is as before.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
}
