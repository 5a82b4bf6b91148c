//! Errors as JavaScript sees them: class, key, message, hint.

use serde_json::{Value, json};
use zvf_format::{Class, Diagnose, Diagnosis};
use zvf_model::ModelError;
use zvf_query::QueryError;
use zvf_store::StoreError;

/// Why something cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WasmError {
    /// The request makes no sense.
    #[error("InvalidArgument, {0}")]
    Request(String),
    /// The store, or its backend.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A level of it.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A question.
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl Diagnose for WasmError {
    fn diagnosis(&self) -> Diagnosis<'_> {
        match self {
            Self::Request(_) => Diagnosis::naming_class(Class::InvalidArgument, "query", self),
            Self::Store(error) => error.diagnosis(),
            Self::Model(error) => error.diagnosis(),
            Self::Query(error) => error.diagnosis(),
        }
    }
}

impl WasmError {
    /// Returns the stable name of what went wrong.
    #[must_use]
    pub fn class(&self) -> Class {
        self.diagnosis().class
    }

    /// Returns the error as a document.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let model = match self {
            Self::Model(error) => Some(error),
            Self::Query(error) => error.model(),
            Self::Request(_) | Self::Store(_) => None,
        };
        let array = model.and_then(ModelError::array).map(str::to_owned);
        let chunk = model.and_then(ModelError::chunk).map(|key| key.to_string().replace('.', "/"));
        let key = match (array, chunk) {
            (Some(array), Some(chunk)) => Some(format!("{array}/c/{chunk}")),
            (array, _) => array,
        };
        json!({
            "class": self.class().to_string(),
            "key": key,
            "message": self.to_string(),
            "hint": model.and_then(ModelError::hint),
        })
    }
}
