//! Questions to a store: a query is data, planning and answering are pure, and one await lies between.

pub mod predicate;
pub mod region;
