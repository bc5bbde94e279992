//! Reading a request's body: its type, its size and how long it takes, each bounded.

use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use sagehost_types::{Code, Fault};

use crate::json::brief;

/// Checks that the body is said to be plain JSON.
pub(crate) fn check_type(headers: &HeaderMap) -> Result<(), Fault> {
    let refuse = |detail: String| Err(Fault::new(Code::UnsupportedMediaType, detail));
    if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
        let encoding = brief(encoding.to_str().unwrap_or("?")).into_owned();
        return refuse(format!("content-encoding `{encoding}` is not understood; send the body as it is"));
    }
    let given = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?")).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    match essence.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false if given.is_empty() => refuse("no content-type given; send `content-type: application/json`".into()),
        false => refuse(format!("content-type `{}` is not understood; send `application/json`", brief(given))),
    }
}

/// Reads the whole body.
///
/// # Errors
/// [`Code::TooLarge`] as soon as it is known, [`Code::RequestTimeout`] when it does not arrive in time, [`Code::Cancelled`]
/// when it breaks off.
pub(crate) async fn read(body: Body, limit: usize, timeout: Duration) -> Result<Vec<u8>, Fault> {
    let too_large = || Fault::new(Code::TooLarge, format!("the body is larger than {limit} bytes"));
    // What the client announced: refused before any of it is read.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let announced = body.size_hint().exact().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
    let all = async move {
        let mut body = body;
        let mut bytes = Vec::with_capacity(announced.min(limit));
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let frame = frame.map_err(|_| Fault::new(Code::Cancelled, "the body broke off before its end"))?;
            // Trailers are of no use here.
            let Ok(data) = frame.into_data() else { continue };
            if data.len() > limit.saturating_sub(bytes.len()) {
                return Err(too_large());
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    };
    tokio::time::timeout(timeout, all).await.unwrap_or_else(|_| {
        Err(Fault::new(Code::RequestTimeout, format!("the body did not arrive within {timeout:?}")))
    })
}
