//! Buckets of S3 and of other servers of its API.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};

/// How buckets are reached.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reach {
    /// Where, if not as the environment says.
    pub endpoint: Option<String>,
    /// Whether http may be spoken.
    pub http: Http,
}

/// Whether http was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Http {
    /// Only by the environment, if at all.
    #[default]
    Unasked,
    /// It was.
    Asked,
}

/// A server that does not answer is tried again for so long: somebody waits for the rows.
const MAX_RETRY_TIME: Duration = Duration::from_secs(20);
const TRIES: usize = 4;

/// Opens a bucket, with the credentials, region and endpoint of the environment (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, …) or the machine's role.
///
/// # Errors
/// If something of these is wrong, or http would be spoken without being asked for.
pub fn open(bucket: &str, reach: &Reach) -> Result<Arc<dyn ObjectStore>> {
    let backoff = BackoffConfig { max_backoff: Duration::from_secs(3), ..BackoffConfig::default() };
    let retry = RetryConfig { backoff, max_retries: TRIES, retry_timeout: MAX_RETRY_TIME };
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
    if let Some(endpoint) = &reach.endpoint {
        builder = builder.with_endpoint(endpoint).with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    if reach.http == Http::Asked {
        builder = builder.with_allow_http(true);
    }
    let value = |key: AmazonS3ConfigKey| builder.get_config_value(&key);
    let endpoint = value(AmazonS3ConfigKey::S3Endpoint).or_else(|| value(AmazonS3ConfigKey::Endpoint));
    let is_allowed =
        value(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp)).is_some_and(|allowed| allowed == "true");
    if let Some(endpoint) = endpoint.filter(|endpoint| endpoint.starts_with("http://") && !is_allowed) {
        bail!("{endpoint}: http sends rows in the clear; expected https://, or --allow-http (AWS_ALLOW_HTTP=true)");
    }
    Ok(Arc::new(builder.build()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_is_spoken_only_if_it_was_asked_for() {
        let reach = |endpoint: &str, http| Reach { endpoint: Some(endpoint.to_owned()), http };
        let error = open("fleet", &reach("http://127.0.0.1:9000", Http::Unasked)).expect_err("refused").to_string();
        assert!(error.contains("--allow-http") && error.contains("127.0.0.1:9000"), "{error}");
        assert!(open("fleet", &reach("http://127.0.0.1:9000", Http::Asked)).is_ok());
        assert!(open("fleet", &reach("https://127.0.0.1:9000", Http::Unasked)).is_ok());
    }
}
