//! A server of a part of a cluster: where it listens, and how.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tonic::transport::{Identity, Server, ServerTlsConfig};

use crate::guests::Guests;

/// How often who is connected is asked whether he is there.
const ALIVE: Duration = Duration::from_secs(30);

/// Where to listen; a port of 0 is one that the kernel chooses.
///
/// # Errors
/// If the address cannot be had.
pub async fn bind(address: SocketAddr) -> Result<(Guests, SocketAddr)> {
    let listener = tokio::net::TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen at {address}"))?;
    let address = listener.local_addr()?;
    Ok((Guests::at(listener), address))
}

/// A server, with TLS if it has a certificate.
///
/// # Errors
/// If that is none.
pub fn server(identity: Option<&Identity>) -> Result<Server> {
    let server = Server::builder().http2_keepalive_interval(Some(ALIVE)).http2_keepalive_timeout(Some(ALIVE));
    match identity {
        Some(identity) => server
            .tls_config(ServerTlsConfig::new().identity(identity.clone()))
            .context("expected a certificate and its key (--tls-cert, --tls-key)"),
        None => Ok(server),
    }
}

/// Whether somebody has ended the program: by SIGTERM or SIGINT.
#[derive(Clone)]
pub struct Ended(watch::Receiver<bool>);

impl Ended {
    /// From now on.
    ///
    /// # Errors
    /// If signals cannot be received.
    pub fn new() -> Result<Ended> {
        let (sender, receiver) = watch::channel(false);
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            sender.send_replace(true);
            sender.closed().await;
        });
        Ok(Ended(receiver))
    }

    /// Until then.
    pub async fn wait(&self) {
        if self.0.clone().wait_for(|ended| *ended).await.is_err() {
            std::future::pending().await
        }
    }
}
