//! The `zvf` program.
#![deny(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    bound_heap();
    zvf_cli::main_with(std::env::args_os())
}

/// Bounds what glibc keeps of freed memory: one heap arena per processor, and with `--memory-limit`
/// no blocks in it that are larger than a part of the limit.
///
/// By default glibc creates up to eight arenas per processor, a new one whenever a thread finds the
/// others in use, and memory that is freed in one arena is not reused by the others. Blocks of up to
/// 32 MiB are in them too, and what stays between these keeps them from being returned. The process
/// would hold several times what `--memory-limit` allows.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no safe interface to the allocator's settings")]
fn bound_heap() {
    let number = |n: u64| libc::c_int::try_from(n).unwrap_or(libc::c_int::MAX);
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let words = words.collect::<Vec<_>>().join("="); // both spellings become one
    let size = words.split_once("--memory-limit=").and_then(|(_, after)| after.split('=').next());
    // SAFETY: the calls set parameters of the allocator and take no pointers, and no other thread
    // runs yet: this is the first statement of `main`. If one fails, its parameter is unchanged.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, number(processors as u64));
        if let Some(limit) = size.and_then(zvf::question::parse_size) {
            libc::mallopt(libc::M_MMAP_THRESHOLD, number((limit / 32).max(128 << 10)));
        }
    }
}
