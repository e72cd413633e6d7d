//! What each request to a part of a cluster is asked first: the token, and the version of the program.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::HeaderMap;
use http::header::USER_AGENT;
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::guests::Pass;
use crate::trust::{PROGRAM, Token};

/// For how long a query waits for the first executor: one that comes back asks each second.
const PATIENCE: Duration = Duration::from_secs(10);

/// Lets in who has the token and is of our version.
#[derive(Clone)]
pub struct Door {
    token: Token,
    ready: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl Door {
    /// Asks for this token.
    pub fn new(token: Token) -> Door {
        Door { token, ready: None }
    }

    /// Queries are let in only if somebody is there to answer them.
    pub fn with_ready(self, ready: impl Fn() -> bool + Send + Sync + 'static) -> Door {
        Door { ready: Some(Arc::new(ready)), ..self }
    }

    fn check(&self, headers: &HeaderMap, pass: Option<&Pass>) -> Result<(), Status> {
        let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let mut words = agent.split(' ');
        let program = words.next().unwrap_or_default();
        let shown = words.next().and_then(|word| word.strip_prefix("token/"));
        if !shown.is_some_and(|shown| self.token.is(shown)) {
            if let Some(pass) = pass {
                pass.refuse();
            }
            let why = match shown {
                Some(_) => "another token than the one that it has",
                None => "no token; expected --token-file, or the user who runs it",
            };
            return Err(Status::unauthenticated(why));
        }
        // Whatever else may be wrong with it.
        if let Some(pass) = pass {
            pass.know();
        }
        if program != PROGRAM {
            let other = if program.starts_with("unstarve-cluster/") { program } else { "another program" };
            return Err(Status::failed_precondition(format!(
                "it is {PROGRAM}, who asks is {other}; install the same version on all machines"
            )));
        }
        Ok(())
    }
}

impl<S> Layer<S> for Door {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { door: self.clone(), inner }
    }
}

/// A service behind a door.
#[derive(Clone)]
pub struct Guarded<S> {
    door: Door,
    inner: S,
}

impl<S> Service<http::Request<Body>> for Guarded<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if let Err(status) = self.door.check(request.headers(), request.extensions().get::<Pass>()) {
            return Box::pin(std::future::ready(Ok(status.into_http())));
        }
        // The one that is ready, not its copy.
        let copy = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, copy);
        match self.door.ready.clone().filter(|_| is_query(request.uri().path())) {
            None => Box::pin(inner.call(request)),
            Some(ready) => Box::pin(async move {
                if !within(PATIENCE, &*ready).await {
                    let why = "no executor has registered with it; start one with `unstarve cluster executor`";
                    return Ok(Status::unavailable(why).into_http());
                }
                inner.call(request).await
            }),
        }
    }
}

fn is_query(path: &str) -> bool {
    path.ends_with("/ExecuteQuery") || path.ends_with("/ExecuteQueryPush")
}

async fn within(time: Duration, ready: &(dyn Fn() -> bool + Send + Sync)) -> bool {
    const STEP: Duration = Duration::from_millis(100);
    for _ in 0..time.as_millis() / STEP.as_millis() {
        if ready() {
            return true;
        }
        tokio::time::sleep(STEP).await;
    }
    ready()
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn asked(door: &Door, agent: Option<&str>) -> Result<(), Code> {
        let mut headers = HeaderMap::new();
        if let Some(agent) = agent {
            headers.insert(USER_AGENT, agent.parse().expect("a header"));
        }
        door.check(&headers, None).map_err(|status| status.code())
    }

    #[test]
    fn only_who_has_the_token_and_the_version_is_let_in() {
        let text = "0f".repeat(32);
        let door = Door::new(Token::new(&text).expect("a token"));
        assert_eq!(asked(&door, Some(&format!("{PROGRAM} token/{text} tonic/0.14"))), Ok(()));
        for agent in [None, Some(PROGRAM), Some("token/x"), Some(&format!("{PROGRAM} token/{} x", "0e".repeat(32)))] {
            assert_eq!(asked(&door, agent), Err(Code::Unauthenticated), "{agent:?}");
        }
        let older = format!("unstarve-cluster/0.0.1 token/{text}");
        assert_eq!(asked(&door, Some(&older)), Err(Code::FailedPrecondition));
        let other = format!("curl/8 token/{text}");
        assert_eq!(asked(&door, Some(&other)), Err(Code::FailedPrecondition));
    }
}
