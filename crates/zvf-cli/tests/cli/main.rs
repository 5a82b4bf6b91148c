//! The command as users run it, on stores that were written by the reference implementation.

mod answers;
mod faults;
mod files;
mod remote;
mod stores;
mod validate;
mod views;
