//! Every archived store of an old format, migrated: valid, and with the same answers to the same
//! queries.

mod answers;
mod parts;
mod same;
