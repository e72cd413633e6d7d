//! Whom the parts of a cluster speak to: a token in each request, and TLS beyond this machine.
//!
//! Ballista's clients take no interceptor where they fetch rows. The one hook that all of them have changes the endpoint: its URI, TLS, times, and user agent. So
//! the token travels in the user agent, beside the version of the program (docs/decisions/0308).

use std::error::Error as _;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ballista_core::extension::EndpointOverrideFn;
use ballista_core::serde::protobuf::GetJobStatusParams;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status};

use crate::mine::{self, Elsewhere};

/// This program, as it calls itself to others.
pub const PROGRAM: &str = concat!("unstarve-cluster/", env!("CARGO_PKG_VERSION"));

/// The largest message: a plan names each file that is asked.
pub const MESSAGE: usize = 64 << 20;

/// Who does not answer for so long is not there.
const CONNECT: Duration = Duration::from_secs(5);
/// How often a connection is asked whether somebody is there, and how long it may take to answer.
const ALIVE: Duration = Duration::from_secs(10);

/// What is spoken with all parts of a cluster.
#[derive(clap::Args, Clone, Debug)]
pub struct Secrets {
    /// The token that each request has to have, in a file that others cannot read; needed beyond loopback and for parts of several users [default: one of this user, which
    /// the scheduler makes]. For example `openssl rand -hex 32`
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Speak TLS, to whom these authorities (PEM) know; needed beyond loopback
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
}

/// What who listens shows.
#[derive(clap::Args, Clone, Debug)]
pub struct Identified {
    /// The certificate to show, and those above it (PEM); needed beyond loopback
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "tls_ca")]
    pub tls_cert: Option<PathBuf>,
    /// Its key (PEM), in a file that others cannot read
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

impl Identified {
    /// The certificate and its key.
    ///
    /// # Errors
    /// If a file cannot be read, or the key can be read by others.
    pub fn read(&self) -> Result<Option<Identity>> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        Ok(Some(Identity::from_pem(read(certificate)?, secret(key)?)))
    }

    /// Whether it may be listened at an address.
    ///
    /// # Errors
    /// If others than this machine can reach it, and there is no TLS or no token.
    pub fn allows(&self, listen: SocketAddr, secrets: &Secrets) -> Result<()> {
        if listen.ip().is_loopback() || (self.tls_cert.is_some() && secrets.token_file.is_some()) {
            return Ok(());
        }
        bail!(
            "--listen {listen}: other machines reach this address; expected --token-file, --tls-ca, --tls-cert and --tls-key, or an address of loopback"
        )
    }
}

/// A text that only those have who may ask.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Those that can be guessed, or that a header cannot have, are refused.
    ///
    /// # Errors
    /// If it is too short or too long, or has other characters.
    pub fn new(text: &str) -> Result<Token> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+=".contains(&byte));
        if !is_plain || !(32..=512).contains(&text.len()) {
            bail!("expected a token of 32 to 512 letters, digits or -._~+=");
        }
        Ok(Token(text.to_owned()))
    }

    /// Whether somebody has it; how long that takes to find out says nothing about it.
    pub fn is(&self, text: &str) -> bool {
        subtle::ConstantTimeEq::ct_eq(self.0.as_bytes(), text.as_bytes()).into()
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The content of a file that only its owner, root or this user, and his group can read.
pub fn secret(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read;
    let opened = || -> std::io::Result<_> {
        let file = std::fs::File::open(path)?;
        let found = file.metadata()?;
        Ok((file, found))
    };
    let (file, found) = opened().with_context(|| format!("cannot read {}", path.display()))?;
    let us = rustix::process::geteuid().as_raw();
    if !found.is_file() || found.mode() & 0o027 != 0 || ![0, us].contains(&found.uid()) {
        bail!("{}: expected a file of root or this user, mode 640 or less", path.display());
    }
    let mut text = Vec::new();
    file.take(1 << 20).read_to_end(&mut text)?;
    Ok(text)
}

impl Secrets {
    /// The token that was given.
    fn given(&self) -> Result<Option<Token>> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let text = String::from_utf8(secret(path)?).unwrap_or_default();
        Token::new(text.trim()).map(Some).with_context(|| path.display().to_string())
    }

    /// The token that who comes in has to have: the one that was given, or this user's.
    ///
    /// # Errors
    /// If it cannot be read, can be read by others, is none, or cannot be made.
    pub fn token(&self) -> Result<Token> {
        self.given()?.map_or_else(mine::make, Ok)
    }

    /// How others are spoken to.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn speaker(&self) -> Result<Speaker> {
        let authority = self.tls_ca.as_deref().map(read).transpose()?.map(Certificate::from_pem);
        let (given, mine) = (self.given()?, mine::token);
        Ok(Speaker(Arc::new(Inner { mine: if given.is_none() { mine()? } else { None }, given, authority })))
    }
}

/// How others are spoken to.
#[derive(Clone)]
pub struct Speaker(Arc<Inner>);

struct Inner {
    given: Option<Token>,
    /// Only for who listens on this machine as this user or root.
    mine: Option<Token>,
    authority: Option<Certificate>,
}

/// Why a scheduler is not one to ask.
#[derive(Debug)]
pub enum Unheard {
    /// It may be there later.
    Absent(String),
    /// Another user of this machine listens there; it may be there later.
    Another(String),
    /// It does not want to.
    Refused(String),
}

impl fmt::Display for Unheard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unheard::Absent(why) => write!(f, "cannot be reached: {why}"),
            Unheard::Another(why) | Unheard::Refused(why) => write!(f, "refuses: {why}"),
        }
    }
}

impl Speaker {
    /// The same place, spoken to as we do.
    ///
    /// # Errors
    /// If the token or the rows would be sent in the clear.
    pub fn endpoint(&self, to: &Endpoint) -> Result<Endpoint> {
        let authority = to.uri().authority().context("expected HOST:PORT")?;
        if self.0.authority.is_none() && !is_loopback(authority.host()) {
            bail!("{authority}: rows would be sent in the clear to another machine; expected --tls-ca");
        }
        let token = match (&self.0.given, &self.0.mine) {
            (Some(given), _) => Some(given),
            (None, Some(mine)) if is_loopback(authority.host()) => {
                let port = authority.port_u16().context("expected HOST:PORT")?;
                mine::listens(authority.host(), port).with_context(|| authority.to_string())?;
                Some(mine)
            }
            _ => None,
        };
        let scheme = if self.0.authority.is_some() { "https" } else { "http" };
        let agent = match token {
            Some(token) => format!("{PROGRAM} token/{}", token.0),
            None => PROGRAM.to_owned(),
        };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{authority}"))?
            .user_agent(agent)?
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(ALIVE)
            .keep_alive_timeout(ALIVE)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(16 << 20)
            .initial_connection_window_size(64 << 20);
        Ok(match &self.0.authority {
            Some(authority) => endpoint.tls_config(ClientTlsConfig::new().ca_certificate(authority.clone()))?,
            None => endpoint,
        })
    }

    /// The same, as Ballista asks for it.
    pub fn hook(&self) -> EndpointOverrideFn {
        let speaker = self.clone();
        Arc::new(move |to| speaker.endpoint(&to).map_err(Into::into))
    }

    /// A scheduler that is there, has our version, and knows our token.
    ///
    /// # Errors
    /// If one of these is not so.
    pub async fn greet(&self, scheduler: &str) -> Result<SchedulerGrpcClient<Channel>, Unheard> {
        let to = Endpoint::from_shared(format!("http://{scheduler}")).map_err(|error| refused(&error))?;
        let endpoint = self.endpoint(&to).map_err(|error| match error.downcast_ref() {
            Some(Elsewhere::Nobody) => Unheard::Absent(Elsewhere::Nobody.to_string()),
            Some(another @ Elsewhere::Another(_)) => Unheard::Another(another.to_string()),
            _ => Unheard::Refused(format!("{error:#}")),
        })?;
        // The channel makes new connections by itself, long after who listens was looked at.
        let connected =
            match self.0.given.is_none() && self.0.mine.is_some() && to.uri().host().is_some_and(is_loopback) {
                true => endpoint.connect_with_connector(tower::service_fn(mine::connect)).await,
                false => endpoint.connect().await,
            };
        let channel = connected.map_err(|error| Unheard::Absent(chain(&error)))?;
        let mut client =
            SchedulerGrpcClient::new(channel).max_decoding_message_size(MESSAGE).max_encoding_message_size(MESSAGE);
        // Of no job: whoever answers has let us in.
        let asked = client.get_job_status(GetJobStatusParams { job_id: String::new() });
        match tokio::time::timeout(CONNECT, asked).await {
            Err(_) => Err(Unheard::Absent(format!("no answer within {CONNECT:?}"))),
            Ok(Ok(_)) => Ok(client),
            Ok(Err(status)) => match status.code() {
                Code::Unauthenticated | Code::FailedPrecondition | Code::Unimplemented => {
                    Err(Unheard::Refused(status.message().to_owned()))
                }
                _ => Err(Unheard::Absent(said(&status))),
            },
        }
    }
}

/// What a status is about. Its own text has the causes as code writes them.
fn said(status: &Status) -> String {
    let mut text = status.message().to_owned();
    if let Some(cause) = status.source().map(chain).filter(|cause| !text.contains(cause.as_str())) {
        text = if text.is_empty() { cause } else { format!("{text}: {cause}") };
    }
    text
}

fn refused(error: &dyn std::error::Error) -> Unheard {
    Unheard::Refused(chain(error))
}

/// An error with what caused it: that of a connection says only that there is none.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Whether a host is this machine, by its name alone.
fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speaker(token: Option<&str>, authority: Option<&str>) -> Speaker {
        let token = token.map(|token| Token::new(token).expect("a token"));
        Speaker(Arc::new(Inner { given: token, mine: None, authority: authority.map(Certificate::from_pem) }))
    }

    #[test]
    fn nothing_is_sent_in_the_clear_to_other_machines() {
        let to = |uri: &'static str| speaker(None, None).endpoint(&Endpoint::from_static(uri));
        for uri in ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "http://127.9.9.9:1"] {
            assert!(to(uri).is_ok(), "{uri}");
        }
        for uri in ["http://10.0.0.1:1", "http://localhost.example.org:1", "http://[fe80::1]:1", "http://0.0.0.0:1"] {
            let error = to(uri).expect_err("refused").to_string();
            assert!(error.contains("--tls-ca") && error.contains(uri.trim_start_matches("http://")), "{error}");
        }
    }

    #[test]
    fn a_token_cannot_be_guessed_and_fits_into_a_header() {
        assert!(Token::new(&"a".repeat(31)).is_err() && Token::new(&"a b".repeat(20)).is_err());
        assert!(Token::new(&"a\n".repeat(20)).is_err() && Token::new(&"é".repeat(40)).is_err());
        let token = Token::new(&"0f".repeat(32)).expect("a token");
        assert!(token.is(&"0f".repeat(32)) && !token.is(&"0f".repeat(31)) && !token.is(""));
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn who_listens_to_other_machines_shows_who_he_is_and_asks_who_they_are() {
        let file = Some(PathBuf::from("/file"));
        let none = Secrets { token_file: None, tls_ca: None };
        let both = Secrets { token_file: file.clone(), tls_ca: file.clone() };
        let bare = Identified { tls_cert: None, tls_key: None };
        let known = Identified { tls_cert: file.clone(), tls_key: file };
        let at = |address: &str| address.parse::<SocketAddr>().expect("an address");
        assert!(bare.allows(at("127.0.0.1:0"), &none).is_ok() && bare.allows(at("[::1]:0"), &none).is_ok());
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:50050"] {
            assert!(bare.allows(at(address), &none).is_err() && bare.allows(at(address), &both).is_err());
            assert!(known.allows(at(address), &none).is_err() && known.allows(at(address), &both).is_ok());
        }
    }
}
