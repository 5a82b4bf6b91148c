//! A handler for SIGBUS, the signal that reading a truncated mapped file raises.
//!
//! Opt-in for a library, because a handler belongs to the whole process. If the faulting address is
//! in one of our maps, the handler maps a page of zeros there, records it for that map and returns;
//! the read continues, and its result is discarded. Any other address, and a signal sent by a
//! process, goes to the previous handler; if the signal was ignored, sent signals still are.
//!
//! A handler may not lock or allocate, so the maps are in a fixed table of atomics. Each slot is
//! guarded by a counter that is odd while the slot is being written. The handler skips such a slot.
//! The slot of the faulting map is never being written, because the reader keeps that map alive.

mod place;

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use self::place::Slot;

/// Installs the handler, once per process; maps created earlier are not covered.
///
/// # Errors
///
/// When the operating system refuses.
#[expect(unsafe_code, reason = "signal handlers are set by the C library")]
pub fn install_sigbus_handler() -> io::Result<()> {
    static DONE: OnceLock<Result<(), i32>> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        let failed = || Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL));
        // SAFETY: all-zero bytes are a valid `sigaction`: no handler, no flags, an empty mask.
        let (mut old, mut new): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
        // SAFETY: asks for the current action only; `old` is valid for writing.
        if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut old) } != 0 {
            return failed();
        }
        // The handler must know the previous one before it can run.
        let _ = PREVIOUS.set(old);
        // SAFETY: asks the system for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        PAGE.store(usize::try_from(page).unwrap_or(4096), Ordering::Release);
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
        new.sa_sigaction = address_of(handler);
        // The previous handler gets the environment that it requested: the same blocked signals,
        // and the same restarting of system calls.
        new.sa_mask = old.sa_mask;
        new.sa_flags = libc::SA_SIGINFO
            | libc::SA_ONSTACK
            | (old.sa_flags & (libc::SA_RESTART | libc::SA_NODEFER));
        // SAFETY: `new` holds a handler of the three-argument form, as SA_SIGINFO says, that only does
        // what a handler may do; the old action was saved above.
        if unsafe { libc::sigaction(libc::SIGBUS, &raw const new, std::ptr::null_mut()) } != 0 {
            return failed();
        }
        INSTALLED.store(true, Ordering::Release);
        Ok(())
    });
    done.map_err(io::Error::from_raw_os_error)
}

/// The error when the table of watched maps is full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableFull;

/// Maximum number of watched maps: several handles that use their limit.
pub(crate) const MAX_WATCHED: usize = 1024;

/// A map in the table of the handler; removed when dropped.
#[derive(Debug)]
pub(crate) struct Watch(&'static Slot);

impl Watch {
    /// Watches `len` bytes at `start`; `None` if there is no handler.
    ///
    /// # Errors
    ///
    /// When the table is full: the caller then reads the file instead.
    pub(crate) fn new(start: usize, len: usize) -> Result<Option<Self>, TableFull> {
        if !INSTALLED.load(Ordering::Acquire) {
            return Ok(None);
        }
        let page = PAGE.load(Ordering::Acquire).max(1);
        // A map at the end of the address space: there is no page after it.
        let end = start.saturating_add(len).checked_next_multiple_of(page).unwrap_or(usize::MAX);
        for place in &PLACES {
            if !place.taken.swap(true, Ordering::AcqRel) {
                place.hit.store(false, Ordering::Release);
                place.write(start, end);
                return Ok(Some(Self(place)));
            }
        }
        Err(TableFull)
    }

    /// Returns whether a page of the map had to be replaced.
    pub(crate) fn was_hit(&self) -> bool {
        self.0.hit.load(Ordering::Acquire)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.write(0, 0);
        self.0.taken.store(false, Ordering::Release);
    }
}

/// Called by the system on the faulting thread, at any point of its execution.
#[expect(unsafe_code, reason = "the arguments come from the system, and so does the remedy")]
extern "C" fn on_sigbus(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the system passes a valid `siginfo_t`. A positive code says that the
    // kernel raised the signal, and only then is the address of the fault set.
    let fault = unsafe {
        match info.as_ref() {
            Some(info) if info.si_code > 0 => Some(info.si_addr().addr()),
            _ => None,
        }
    };
    if fault.is_some_and(map_zero_page) {
        return;
    }
    // SAFETY: the arguments are those that the system gave.
    unsafe { pass_on(signal, info, context, fault.is_none()) }
}

/// Maps a page of zeros at `address`, if it is in one of the maps.
#[expect(unsafe_code, reason = "replaces a page that can no longer be read")]
fn map_zero_page(address: usize) -> bool {
    let Some(place) = PLACES.iter().find(|place| place.holds(address)) else { return false };
    let page = PAGE.load(Ordering::Acquire).max(1);
    // Computed without a possible panic, as everything in a handler.
    let start = address.saturating_sub(address.checked_rem(page).unwrap_or(0));
    place.hit.store(true, Ordering::Release);
    // SAFETY: `errno` is a location of this thread; it is put back, because the code that was
    // interrupted may be about to look at it. The page lies in a map of ours that the thread that
    // failed keeps alive, is only read there, and cannot be read any more: zeros take nothing from
    // anyone. `mmap` is a single system call.
    unsafe {
        let errno = errno_place();
        let saved = errno.read();
        let mapped = libc::mmap(
            std::ptr::with_exposed_provenance_mut(start),
            page,
            libc::PROT_READ,
            libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANON,
            -1,
            0,
        );
        errno.write(saved);
        mapped != libc::MAP_FAILED
    }
}

/// Passes a signal on to the previous handler.
///
/// # Safety
///
/// The arguments must be those that the system passed to a handler of `signal`.
#[expect(unsafe_code, reason = "calls the handler that was there before, by its address")]
unsafe fn pass_on(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    was_sent: bool,
) {
    let previous = PREVIOUS.get();
    match previous.map(|old| (old.sa_sigaction, old.sa_flags)) {
        // The signal was ignored. A fault cannot be ignored: the read would fail again and again,
        // and without this handler the system would end the process.
        Some((libc::SIG_IGN, _)) if was_sent => {}
        Some((handler, flags)) if handler != libc::SIG_DFL && handler != libc::SIG_IGN => {
            let code = std::ptr::with_exposed_provenance::<()>(handler);
            // SAFETY: the address was given to the system as a handler, of the three-argument form when
            // SA_SIGINFO is set and of the one-argument form otherwise; the arguments are passed on.
            unsafe {
                if flags & libc::SA_SIGINFO != 0 {
                    let call: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                        std::mem::transmute(code);
                    call(signal, info, context);
                } else {
                    let call: extern "C" fn(i32) = std::mem::transmute(code);
                    call(signal);
                }
            }
        }
        // There is no other handler: the default action ends the process as soon as this handler
        // returns.
        _ => {
            // SAFETY: both may be called in a handler.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
    }
}

#[expect(clippy::as_conversions, reason = "there is no other way to the address of a function")]
fn address_of(handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void)) -> usize {
    let pointer: *const () = handler as *const ();
    pointer.expose_provenance()
}

/// Returns the address of `errno` of this thread.
#[expect(unsafe_code, reason = "the C library tells by a function")]
fn errno_place() -> *mut i32 {
    // SAFETY: the function takes nothing and always gives a valid location of this thread.
    unsafe {
        #[cfg(any(target_os = "linux", target_os = "emscripten", target_os = "hurd"))]
        let place = libc::__errno_location();
        #[cfg(any(target_os = "macos", target_os = "ios", target_os = "freebsd"))]
        let place = libc::__error();
        #[cfg(any(target_os = "android", target_os = "netbsd", target_os = "openbsd"))]
        let place = libc::__errno();
        place
    }
}

static INSTALLED: AtomicBool = AtomicBool::new(false);
static PAGE: AtomicUsize = AtomicUsize::new(4096);
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();
static PLACES: [Slot; MAX_WATCHED] = [const { Slot::new() }; MAX_WATCHED];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_released_and_run_out() {
        install_sigbus_handler().unwrap();
        let place = Slot::new();
        assert!(!place.holds(0) && !place.holds(1));
        place.write(4096, 8192);
        for (address, expected) in [(4095, false), (4096, true), (8191, true), (8192, false)] {
            assert_eq!(place.holds(address), expected, "{address}");
        }
        place.version.fetch_add(1, Ordering::Release);
        assert!(!place.holds(5000), "while it is being written");

        let mut all = Vec::new();
        // Far above any mapped address.
        while let Ok(watch) = Watch::new(usize::MAX - 8192, 4096) {
            all.push(watch.unwrap());
        }
        // Other tests of this process may use some slots.
        assert!(!all.is_empty() && all.len() <= MAX_WATCHED);
        drop(all);
        assert!(Watch::new(usize::MAX - 8192, 4096).unwrap().is_some());
    }
}
