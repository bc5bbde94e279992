//! Faults as `application/problem+json` (RFC 9457).

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Response, StatusCode};
use sagehost_telemetry::Label;
use sagehost_types::{Code, Fault};
use serde::Serialize;

use crate::edge::Outcome;

#[derive(Serialize)]
struct Problem<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    code: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    request_id: &'a str,
}

/// The response for a fault; `model` is its metric label.
pub(crate) fn problem(fault: &Fault, request_id: &str, model: Label) -> Response<Body> {
    let code = fault.code;
    let problem = Problem {
        r#type: format!("urn:sagehost:problem:{code}"),
        title: code.title(),
        status: code.http(),
        code: code.as_str(),
        detail: &fault.detail,
        field: fault.field.as_deref(),
        request_id,
    };
    // A struct of strings and one number always serialises; were it not so, the status still tells.
    let mut body = serde_json::to_vec(&problem).unwrap_or_default();
    body.push(b'\n');
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(wait) = retry_after(fault) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait));
    }
    response.extensions_mut().insert(Outcome { model, code: code.as_str() });
    response
}

/// Whole seconds, rounded up; those faults that a retry can cure always say when.
fn retry_after(fault: &Fault) -> Option<u64> {
    let curable = matches!(fault.code, Code::Overloaded | Code::Unavailable);
    let seconds = fault.retry_after.map(|wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
    seconds.or(curable.then_some(1)).map(|seconds| seconds.max(1))
}
