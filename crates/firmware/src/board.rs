//! The exit of an emulated board: semihosting.

use core::panic::PanicInfo;

use cortex_m_rt::entry;
use cortex_m_semihosting::debug::{self, ExitStatus};
use cortex_m_semihosting::hio;

use crate::report;

#[entry]
fn main() -> ! {
    let printed = hio::hstdout().is_ok_and(|mut out| report::write(&mut out).is_ok());
    leave(if printed { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE })
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    leave(debug::EXIT_FAILURE)
}

/// Ends the emulator; real hardware without a debugger waits here.
fn leave(status: ExitStatus) -> ! {
    loop {
        debug::exit(status);
    }
}
