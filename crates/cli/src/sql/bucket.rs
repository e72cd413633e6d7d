//! Buckets: servers of the S3 API, which DuckDB reads with its extension `httpfs`.

use anyhow::{Result, bail};

use super::prelude::quoted;

/// How a bucket is reached. Keys come from the environment alone: without any, nobody is asked for some.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bucket {
    endpoint: Option<String>,
    is_tls: bool,
    key: Option<[String; 2]>,
    token: Option<String>,
    region: String,
}

/// Whether a place is in a bucket.
///
/// # Errors
/// If it is a URL of something else.
pub fn is_bucket(place: &str) -> Result<bool> {
    match place.split_once("://") {
        Some(("s3", _)) => Ok(true),
        Some(("file", _)) | None => Ok(false),
        Some((scheme, _)) => bail!("{place}: {scheme}:// is not read; expected a path, file://… or s3://BUCKET/PREFIX"),
    }
}

/// Whether rows may pass over the network as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clear {
    Allowed,
    Refused,
}

impl Bucket {
    /// As the usual variables say.
    ///
    /// # Errors
    /// If the endpoint would be spoken to in the clear, and that was not asked for.
    pub fn new(endpoint: Option<&str>, clear: Clear, variable: impl Fn(&str) -> Option<String>) -> Result<Bucket> {
        let of_environment = || ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"].iter().find_map(|name| variable(name));
        let endpoint = endpoint.map(str::to_owned).or_else(of_environment);
        let is_clear = endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
        let is_allowed = clear == Clear::Allowed || variable("AWS_ALLOW_HTTP").as_deref() == Some("true");
        if let Some(endpoint) = endpoint.as_deref().filter(|_| is_clear && !is_allowed) {
            bail!("{endpoint}: http sends keys and rows in the clear; --allow-http allows it");
        }
        let bare = |endpoint: &str| endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest).to_owned();
        let key = variable("AWS_ACCESS_KEY_ID").zip(variable("AWS_SECRET_ACCESS_KEY")).map(<[String; 2]>::from);
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        Ok(Bucket {
            endpoint: endpoint.as_deref().map(bare).map(|endpoint| endpoint.trim_end_matches('/').to_owned()),
            is_tls: !is_clear,
            key,
            token: variable("AWS_SESSION_TOKEN"),
            region: region.unwrap_or_else(|| "us-east-1".to_owned()),
        })
    }

    /// The statements that let DuckDB reach it.
    pub fn statements(&self) -> String {
        let mut secret = format!("type s3, provider config, region {}", quoted(&self.region));
        if let Some([id, secret_key]) = &self.key {
            secret += &format!(", key_id {}, secret {}", quoted(id), quoted(secret_key));
        }
        if let Some(token) = &self.token {
            secret += &format!(", session_token {}", quoted(token));
        }
        if let Some(endpoint) = &self.endpoint {
            secret += &format!(", endpoint {}, url_style 'path', use_ssl {}", quoted(endpoint), self.is_tls);
        }
        format!("load httpfs;\ncreate secret bucket ({secret});\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(known: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        move |name| known.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn nothing_is_sent_in_the_clear_unasked() {
        let none = variables(&[]);
        assert!(Bucket::new(Some("http://127.0.0.1:1"), Clear::Refused, &none).is_err());
        let bucket = Bucket::new(Some("http://127.0.0.1:1/"), Clear::Allowed, &none).expect("allowed");
        assert!(bucket.statements().contains("endpoint '127.0.0.1:1', url_style 'path', use_ssl false"));
        assert!(Bucket::new(None, Clear::Refused, variables(&[("AWS_ENDPOINT_URL", "http://a")])).is_err());
    }

    #[test]
    fn keys_come_from_the_environment_alone_and_are_quoted() {
        let known = variables(&[("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b'c"), ("AWS_REGION", "r")]);
        let said = Bucket::new(None, Clear::Refused, known).expect("a bucket").statements();
        assert!(said.contains("provider config, region 'r', key_id 'a', secret 'b''c'"), "{said}");
        let said = Bucket::new(None, Clear::Refused, variables(&[])).expect("a bucket").statements();
        assert!(!said.contains("key_id") && !said.contains("credential_chain"), "{said}");
    }

    #[test]
    fn other_schemes_are_refused() {
        assert!(is_bucket("gs://bucket/x").is_err());
        assert_eq!((is_bucket("s3://a/b").ok(), is_bucket("a/b").ok()), (Some(true), Some(false)));
    }
}
