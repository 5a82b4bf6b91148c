//! The reader of Zarr Vectors stores in a browser, with a small typed interface for JavaScript.
//!
//! ```text
//! Source (JavaScript)   get(key, range) -> bytes    fetch over HTTP, files of a dropped folder, a pack
//! StoreHandle           info                        what the store holds: axes, kinds, levels, attributes, groups
//!                       cells                       the chunks of a level
//!                       loadCell                    one chunk as arrays that can be transferred
//!                       object, search, count, plan what the command says
//!                       validateCell                whether one chunk is sound
//! ```
//!
//! It is the same reader as natively, layer by layer: zvf-query answers, zvf-store asks for bytes. One handle runs on one
//! thread; a page that wants more has several workers, each with its own. Everything but the bindings builds and is
//! tested natively.
//!
//! Not here: what is drawn and when (`viewer/`), threads, writing.

mod bridges;
mod cell;
mod describe;
mod error;
#[cfg(target_arch = "wasm32")]
mod js;
mod load;
mod lookup;
mod neighbours;
mod request;
mod sound;
#[cfg(target_arch = "wasm32")]
mod source;
mod thin;

pub use cell::{Attribute, Cell, NO_OBJECT};
pub use describe::{describe_cells, describe_store};
pub use error::error_to_json;
#[cfg(target_arch = "wasm32")]
pub use js::{StoreHandle, memory_bytes, open_store};
pub use load::load_cell;
pub use lookup::{count_rows, describe_group, describe_object, plan_query, search_objects};
pub use request::{CellRequest, Question};
pub use sound::validate_cell;
#[cfg(target_arch = "wasm32")]
pub use source::Source;
pub use thin::{sample_objects, thin_cell};
