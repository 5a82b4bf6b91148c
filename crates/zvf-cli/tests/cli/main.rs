//! The command as users run it, on stores that were written by the reference implementation.

mod answers;
mod faults;
mod files;
mod rearranged;
mod remote;
mod stores;
mod views;
