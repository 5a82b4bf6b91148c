//! Answers to questions about small stores, of which everything is known.

mod columns;
mod conditions;
mod examples;
mod levels;
mod made;
mod missing;
mod modes;
mod naive;
mod streams;
mod views;
