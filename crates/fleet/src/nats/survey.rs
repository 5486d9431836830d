// SPDX-License-Identifier: BSD-2-Clause
//! Settings of a NATS server and of the log's stream there by which entries may be lost.

use serde_json::{Value, json};

use super::{NO_STREAM, Session};
use crate::survey::ServerFact;

/// Names of the facts, and of the stream's settings.
const SETTINGS: [(&str, &str); 4] =
    [("replicas", "num_replicas"), ("storage", "storage"), ("discard", "discard"), ("max_age", "max_age")];

impl Session {
    pub(super) fn survey(&mut self) -> Vec<ServerFact> {
        let version = match self.version.as_str() {
            "" => Err("the server doesn't say its version".to_owned()),
            version => Ok(base::text::printable(version)),
        };
        let config = self.config();
        let settings = SETTINGS.into_iter().map(|(name, key)| {
            let value = config.as_ref().map_err(Clone::clone).and_then(|config| match &config[key] {
                Value::Null => Err(format!("the stream {} says nothing about {key}", self.stream)),
                Value::String(text) => Ok(base::text::printable(text)),
                other => Ok(other.to_string()),
            });
            ServerFact { name, value }
        });
        std::iter::once(ServerFact { name: "version", value: version }).chain(settings.collect::<Vec<_>>()).collect()
    }

    /// The stream's settings. Doesn't make the stream.
    fn config(&mut self) -> Result<Value, String> {
        let question = format!("STREAM.INFO.{}", self.stream);
        let mut info =
            self.ask(&question, &Value::Null).map_err(|fault| match fault.0.starts_with("Permissions Violation") {
                true => format!("{question}: {fault}; allow the user to publish to $JS.API.{question}"),
                false => format!("{question}: {fault}"),
            })?;
        match info["error"]["err_code"] {
            Value::Null => Ok(info["config"].take()),
            ref code if *code == json!(NO_STREAM) => Err(format!("there is no stream {} yet", self.stream)),
            _ => Err(format!(
                "{question}: {}",
                base::text::printable(info["error"]["description"].as_str().unwrap_or("an error"))
            )),
        }
    }
}
