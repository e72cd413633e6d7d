//! `unstarve mcp`: the door for agents. Commands of this program as tools of the Model Context Protocol, its book and its
//! words as resources.
//!
//! A call runs this program again ([`child`]) with arguments from a table ([`tool`]) and files that were opened below allowed
//! directories ([`places`]). Its text goes out in parts of bounded size ([`answer`]). Nothing is analysed here.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![expect(missing_docs, reason = "read by this crate alone, but for `serve`")]

mod answer;
mod book;
mod child;
mod facts;
mod http;
mod places;
mod plans;
mod record;
mod server;
mod tool;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use tokio::signal::unix::{SignalKind, signal};

use places::Places;
use server::Server;

pub use answer::{BYTES_OF_A_TOKEN, MAX_ANSWER_BYTES, MAX_ANSWER_TOKENS};
pub use book::{PAGES, Page};
pub use http::TokenError;

/// What a server may do, and where it listens.
pub struct Config {
    /// Directories below which files may be read.
    pub allowed: Vec<PathBuf>,
    /// Whether plans may be carried out.
    pub may_fix: bool,
    /// A loopback address, and the file with the token; standard input and output without.
    pub http: Option<(SocketAddr, PathBuf)>,
}

/// Why it cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    #[error("--allow {0}")]
    Place(io::Error),
    #[error("--http {0}: only a loopback address is served, as in 127.0.0.1:{port}; for others use an SSH tunnel", port = .0.port())]
    NoLoopback(SocketAddr),
    #[error("--token-file: {0}")]
    Token(#[from] TokenError),
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    #[error("the client does not speak the Model Context Protocol: {0}")]
    Client(Box<ServerInitializeError>),
    #[error("cannot serve: {0}")]
    System(#[from] io::Error),
}

/// Serves until the client is gone, or a signal ends it. `announce` gets the address of HTTP.
///
/// # Errors
/// If it cannot serve.
pub fn serve(config: Config, announce: impl FnOnce(&str)) -> Result<(), ServeError> {
    let places = Places::open(&config.allowed).map_err(ServeError::Place)?;
    let http = match config.http {
        Some((address, _)) if !address.ip().is_loopback() => return Err(ServeError::NoLoopback(address)),
        Some((address, file)) => Some((address, http::Token::read(&file)?)),
        None => None,
    };
    let server = Server::new(places, config.may_fix);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let serving = async {
            match http {
                Some((address, token)) => {
                    let listening = |at: SocketAddr| announce(&format!("http://{at}{}", http::PATH));
                    http::serve(server, address, token, listening)
                        .await
                        .map_err(|error| ServeError::Listen(address, error))
                }
                None => stdio(server).await,
            }
        };
        // What still runs ends with the runtime.
        tokio::select! {
            outcome = serving => outcome,
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        }
    });
    // Standard input may still be read, by a thread that nothing can stop.
    runtime.shutdown_background();
    outcome
}

async fn stdio(server: Server) -> Result<(), ServeError> {
    match server.serve(rmcp::transport::stdio()).await {
        Ok(running) => running.waiting().await.map(drop).map_err(|error| io::Error::other(error).into()),
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(ServeError::Client(Box::new(error))),
    }
}
