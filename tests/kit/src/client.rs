//! A small HTTP client for tests: JSON in, status and JSON out, whatever the status.

use std::time::Duration;

use serde_json::Value;

/// Keeps its connections.
pub struct Client {
    agent: ureq::Agent,
    base: String,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The content type.
    pub content_type: String,
    /// The body's text.
    pub text: String,
    /// The body, where it is JSON; else null.
    pub json: Value,
}

impl Client {
    /// A client of `http://address`.
    #[must_use]
    pub fn new(address: &str) -> Self {
        let config =
            ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(Duration::from_secs(60)));
        Self { agent: ureq::Agent::new_with_config(config.build()), base: format!("http://{address}") }
    }

    /// Sends JSON.
    ///
    /// # Errors
    /// Where no answer came.
    pub fn try_post(&self, path: &str, body: &Value) -> Result<Answer, ureq::Error> {
        read(self.agent.post(format!("{}{path}", self.base)).send_json(body)?)
    }

    /// Sends JSON.
    ///
    /// # Panics
    /// Where no answer came.
    #[must_use]
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.try_post(path, body).unwrap_or_else(|e| panic!("POST {path}: {e}"))
    }

    /// Sends any bytes with any content type.
    ///
    /// # Panics
    /// Where no answer came.
    #[must_use]
    pub fn post_raw(&self, path: &str, content_type: &str, body: &[u8]) -> Answer {
        let request = self.agent.post(format!("{}{path}", self.base)).header("content-type", content_type);
        request.send(body).and_then(read).unwrap_or_else(|e| panic!("POST {path}: {e}"))
    }

    /// Reads a page.
    ///
    /// # Errors
    /// Where no answer came.
    pub fn try_get(&self, path: &str) -> Result<Answer, ureq::Error> {
        read(self.agent.get(format!("{}{path}", self.base)).call()?)
    }

    /// Reads a page.
    ///
    /// # Panics
    /// Where no answer came.
    #[must_use]
    pub fn get(&self, path: &str) -> Answer {
        self.try_get(path).unwrap_or_else(|e| panic!("GET {path}: {e}"))
    }

    /// Predicts, and expects 200.
    ///
    /// # Panics
    /// Where the answer is another.
    #[must_use]
    pub fn predict(&self, body: &Value) -> Value {
        let answer = self.post("/v1/graphsage/predict", body);
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json
    }
}

fn read(mut response: ureq::http::Response<ureq::Body>) -> Result<Answer, ureq::Error> {
    let status = response.status().as_u16();
    let content_type =
        response.headers().get("content-type").and_then(|v| v.to_str().ok()).unwrap_or_default().to_string();
    let text = response.body_mut().with_config().limit(256 << 20).read_to_string()?;
    let json = serde_json::from_str(&text).unwrap_or(Value::Null);
    Ok(Answer { status, content_type, text, json })
}
