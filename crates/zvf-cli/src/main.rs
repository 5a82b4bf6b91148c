//! The `zvf` program.
#![deny(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    limit_heap_arenas();
    zvf_cli::main_with(std::env::args_os())
}

/// Limits glibc to one heap arena per processor.
///
/// By default glibc creates up to eight per processor, a new one whenever a thread finds the others
/// in use, and memory that is freed in one arena is not reused by the others. With the threads of
/// the pools, the process would hold twice what `--memory-limit` allows.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no safe interface to the allocator's settings")]
fn limit_heap_arenas() {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let arenas = libc::c_int::try_from(processors).unwrap_or(libc::c_int::MAX);
    // SAFETY: the call sets a parameter of the allocator and takes no pointer, and no other thread
    // runs yet: this is the first statement of `main`. If it fails, the parameter is unchanged.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
}
