//! The JSON Schema of the batch protocol.

use serde_json::{Value, json};

/// Returns the schema of requests, answers and events.
pub fn schema() -> Value {
    json!({})
}
