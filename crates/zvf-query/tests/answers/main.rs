//! Answers to queries of small stores with known content.

mod cancel;
mod chunks;
mod columns;
mod conditions;
mod counts;
mod examples;
mod fixtures;
mod levels;
mod missing;
mod modes;
mod naive;
mod overlap;
mod rounds;
mod streams;
mod views;
