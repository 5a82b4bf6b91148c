//! Every archived store of an old format, migrated: sound, and the same answers to the same questions.

mod answers;
mod parts;
mod same;
