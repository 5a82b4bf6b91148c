//! The attributes of objects.

use async_recursion::async_recursion as boxed;
use zvf_error::Result;
use zvf_store::Listing;

use crate::open::list_nodes;
use crate::{LevelReader, RowAttribute};

impl LevelReader {
    /// Returns the attribute of objects called `name`, by row of the object index; `None` if there
    /// is none.
    ///
    /// # Errors
    ///
    /// When its document lacks information that is needed to read it.
    #[boxed]
    pub async fn object_attribute(&self, name: &str) -> Result<Option<RowAttribute>> {
        let array = self.node().dense(&format!("object_attributes/{name}")).await?;
        array.map(|array| RowAttribute::new(name, array)).transpose()
    }

    /// Returns all attributes of objects.
    ///
    /// # Errors
    ///
    /// When the document of one is missing, or lacks information that is needed to read it.
    #[boxed]
    pub async fn object_attributes(&self) -> Result<Vec<RowAttribute>> {
        RowAttribute::open_all(self.node(), "object_attributes").await
    }

    /// Returns the names of the attributes of objects, and whether the list is complete.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    #[boxed]
    pub async fn object_attribute_names(&self) -> Result<Listing> {
        list_nodes(self.node(), "object_attributes").await
    }
}
