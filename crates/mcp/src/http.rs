//! HTTP on a loopback address, for clients that know a token.

use std::convert::Infallible;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use unstarve_files::trust::{How, TrustError, parent};

use crate::server::Server;

/// Where it is served.
pub const PATH: &str = "/mcp";
/// Connections at once; others wait.
const MAX_CONNECTIONS: usize = 128;
const MAX_BODY_BYTES: usize = 1 << 20;
const MAX_HEADER_BYTES: usize = 64 << 10;
const HEADER_TIME_LIMIT: Duration = Duration::from_secs(2);
/// A shorter one could be guessed.
const MIN_TOKEN_BYTES: usize = 16;
const MAX_TOKEN_BYTES: u64 = 4096;

/// Why a token is not believed.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error(transparent)]
    Untrusted(#[from] TrustError),
    #[error("cannot read the token: {0}")]
    Io(#[from] io::Error),
    #[error("others can read the token: chmod 600 {0}")]
    Readable(String),
    #[error(
        "the token must have 16 to 4096 visible ASCII characters on one line; to make one: head -c 24 /dev/urandom | base64"
    )]
    Unusable,
}

/// What clients have to send.
pub struct Token(String);

impl Token {
    /// Reads it from a file that nobody else can read or write.
    ///
    /// # Errors
    /// If others can, or it is no token.
    pub fn read(path: &Path) -> Result<Token, TokenError> {
        let (directory, name) = parent(path)?;
        let file = directory.file(&name, How::Read)?;
        if rustix::fs::fstat(&file).map_err(io::Error::from)?.st_mode & 0o077 != 0 {
            return Err(TokenError::Readable(unstarve_model::clean_bytes(path.as_os_str().as_encoded_bytes())));
        }
        let mut text = String::new();
        file.take(MAX_TOKEN_BYTES + 2).read_to_string(&mut text)?;
        let token = text.trim_end_matches(['\r', '\n']);
        let length = MIN_TOKEN_BYTES..=usize::try_from(MAX_TOKEN_BYTES).unwrap_or(usize::MAX);
        let is_usable = length.contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
        if is_usable { Ok(Token(token.to_owned())) } else { Err(TokenError::Unusable) }
    }

    /// Takes as long for any other token of this length.
    fn is_in(&self, headers: &http::HeaderMap) -> bool {
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(only), None) = (given.next(), given.next()) else { return false };
        let Some((scheme, token)) = only.to_str().ok().and_then(|value| value.split_once(' ')) else { return false };
        scheme.eq_ignore_ascii_case("bearer") && bool::from(token.as_bytes().ct_eq(self.0.as_bytes()))
    }
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Serves until it is stopped.
///
/// # Errors
/// If it cannot listen there.
pub async fn serve(
    server: Server,
    address: SocketAddr,
    token: Token,
    announce: impl FnOnce(SocketAddr),
) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    announce(address);
    // Without sessions nothing is kept of a client.
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts([address.to_string(), format!("localhost:{}", address.port())])
        .enforce_origin_validation()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_BODY_BYTES);
    let service =
        StreamableHttpService::new(move || Ok(server.clone()), Arc::new(NeverSessionManager::default()), config);
    let (token, turns) = (Arc::new(token), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
    loop {
        let turn = Arc::clone(&turns).acquire_owned().await.map_err(io::Error::other)?;
        // One that went away meanwhile, or no descriptor for it.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (service, token) = (service.clone(), Arc::clone(&token));
        tokio::spawn(async move {
            let answer = service_fn(move |request| answered(service.clone(), Arc::clone(&token), request));
            let mut connection = http1::Builder::new();
            connection.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME_LIMIT).max_buf_size(MAX_HEADER_BYTES);
            // A client that goes away is no matter.
            let _ = connection.serve_connection(TokioIo::new(stream), answer).await;
            drop(turn);
        });
    }
}

async fn answered(
    service: StreamableHttpService<Server, NeverSessionManager>,
    token: Arc<Token>,
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    if !token.is_in(request.headers()) {
        let mut refused =
            plain(StatusCode::UNAUTHORIZED, "Send the token of --token-file: Authorization: Bearer TOKEN\n");
        // Who has no token keeps no connection, of which there are few.
        refused.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
        refused.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        return Ok(refused);
    }
    if request.uri().path() != PATH {
        return Ok(plain(StatusCode::NOT_FOUND, "Served at /mcp\n"));
    }
    Ok(service.handle(request).await)
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_that_others_can_read_is_refused() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("token");
        write(&path, "0123456789abcdef\n").expect("written");
        for (mode, is_believed) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o660, false)] {
            set_permissions(&path, Permissions::from_mode(mode)).expect("set");
            assert_eq!(Token::read(&path).is_ok(), is_believed, "{mode:o}");
        }
        set_permissions(&path, Permissions::from_mode(0o600)).expect("set");
        for text in ["", "short", "with a blank 0123456789", "0123456789abcdef\nsecond line 0123"] {
            write(&path, text).expect("written");
            assert!(matches!(Token::read(&path), Err(TokenError::Unusable)), "{text}");
        }
        std::os::unix::fs::symlink(&path, place.path().join("link")).expect("made");
        write(&path, "0123456789abcdef").expect("written");
        assert!(Token::read(&place.path().join("link")).is_ok(), "a link of ours to a file of ours");
    }

    #[test]
    fn only_the_token_is_let_in() {
        let token = Token("0123456789abcdef".to_owned());
        let is_in = |values: &[&str]| {
            let mut headers = http::HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, value.parse().expect("a value"));
            }
            token.is_in(&headers)
        };
        assert!(is_in(&["Bearer 0123456789abcdef"]) && is_in(&["bearer 0123456789abcdef"]));
        for values in
            [&[][..], &["Bearer 0123456789abcdeF"], &["Bearer "], &["Basic 0123456789abcdef"], &["0123456789abcdef"]]
        {
            assert!(!is_in(values), "{values:?}");
        }
        assert!(!is_in(&["Bearer 0123456789abcdef", "Bearer 0123456789abcdef"]));
    }
}
