//! Queries on a store: a query is data, planning and answering are pure, and one await is between
//! them.
//!
//! ```text
//! Query   ->  Plan      which cells, before any of them is read
//!         ->  Answer    collected, under caps
//!         ->  stream    batch by batch, in bounded memory; dropping it cancels
//! ```
//!
//! A [`Reader`] is a warm handle: it caches the description of the store. It never writes, and it
//! does not know the backend or the layout.
//!
//! ```text
//! query, mode, region, predicate, data   the question
//! reader, level_cache                    the handle, and what it keeps of open levels
//! run                                    plan, fetch and gather: work units of one level, collected or streamed
//! select                                 which rows are in the answer: pure functions of loaded rows
//! answer, error                          what comes back
//! lineage, search                        vertices that stand for others at coarser levels; objects by id or value
//! ```

mod answer;
mod closest_name;
mod data;
mod error;
mod level_cache;
mod lineage;
mod mode;
pub mod predicate;
mod query;
mod reader;
pub mod region;
mod run;
mod search;
mod select;

pub use answer::{
    Answer, AttributeStatistics, Counts, Missing, QueryPlan, QueryStats, Statistics, Summary,
};
pub use error::BadQuery;
pub use mode::{Mode, UnknownMode};
pub use query::{Columns, LOCATION_FIELD, LevelRule, Order, Query, UnknownIds};
pub use reader::Reader;
pub use run::{NumberedAnswer, NumberedPart};
pub use search::FoundObject;
