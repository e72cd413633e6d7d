//! What an executor hands to others: rows of its work directory, by the names of queries, and no other file.

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse,
    PollInfo, PutResult, SchemaResult, Ticket,
};
use ballista_core::serde::decode_protobuf;
use ballista_core::serde::scheduler::Action as Fetch;
use ballista_executor::flight_service::BallistaFlightService;
use futures::stream::BoxStream;
use tonic::{Request, Response, Status, Streaming};

/// Ballista's service, asked for nothing but rows.
pub struct Rows(BallistaFlightService);

impl Rows {
    /// Those below a work directory.
    pub fn below(work: &str) -> Rows {
        Rows(BallistaFlightService::new(work.to_owned()))
    }
}

/// Ballista makes a path of the query's name as it is: `/etc` or `..` would lead out of the work directory.
fn check(request: &[u8]) -> Result<(), Status> {
    let fetch = decode_protobuf(request).map_err(|_| Status::invalid_argument("not a request for rows"))?;
    let Fetch::FetchPartition { job_id, .. } = &fetch;
    let job = job_id.as_str();
    if job.is_empty() || !job.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
        return Err(Status::invalid_argument("no name of a query"));
    }
    Ok(())
}

type Answers<T> = BoxStream<'static, Result<T, Status>>;

fn not_asked<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("rows are fetched, nothing else"))
}

#[tonic::async_trait]
impl FlightService for Rows {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = <BallistaFlightService as FlightService>::DoGetStream;
    type DoPutStream = Answers<PutResult>;
    type DoActionStream = <BallistaFlightService as FlightService>::DoActionStream;
    type ListActionsStream = Answers<ActionType>;
    type DoExchangeStream = Answers<FlightData>;

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        check(&request.get_ref().ticket)?;
        self.0.do_get(request).await
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        check(&request.get_ref().body)?;
        self.0.do_action(request).await
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        not_asked()
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        not_asked()
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        not_asked()
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        not_asked()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        not_asked()
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        not_asked()
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        not_asked()
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoExchangeStream>, Status> {
        not_asked()
    }
}

#[cfg(test)]
mod tests {
    use ballista_core::serde::protobuf;
    use ballista_core::serde::scheduler::{ShuffleFileKind, ShuffleLayout};
    use prost::Message;

    use super::*;

    fn fetch(job: &str) -> Vec<u8> {
        let fetch = Fetch::FetchPartition {
            job_id: job.into(),
            stage_id: 1,
            partition_id: 2,
            host: "localhost".to_owned(),
            port: 1,
            file_id: None,
            layout: ShuffleLayout::Passthrough,
            file_kind: ShuffleFileKind::Data,
            byte_ranges: Vec::new(),
        };
        let fetch: protobuf::Action = fetch.try_into().expect("it can be sent");
        fetch.encode_to_vec()
    }

    #[tokio::test]
    async fn only_rows_of_queries_are_handed_out() {
        let top = tempfile::tempdir().expect("a place for files");
        let secret = top.path().join("secret/1/2");
        std::fs::create_dir_all(&secret).expect("it can be made");
        std::fs::write(secret.join("data.arrow"), "not for others").expect("it can be written");
        let work = top.path().join("work");
        std::fs::create_dir(&work).expect("it can be made");
        let rows = Rows::below(work.to_str().expect("UTF-8"));
        let asked = |job: String| {
            let action = Action { r#type: "IO_BLOCK_TRANSPORT".to_owned(), body: fetch(&job).into() };
            (Request::new(Ticket { ticket: fetch(&job).into() }), Request::new(action))
        };
        let absolute = top.path().join("secret").display().to_string();
        for job in ["../secret".to_owned(), absolute, "..".to_owned(), String::new(), "a/b".to_owned()] {
            let (ticket, action) = asked(job.clone());
            assert_eq!(rows.do_get(ticket).await.err().expect("refused").code(), tonic::Code::InvalidArgument, "{job}");
            assert_eq!(rows.do_action(action).await.err().expect("refused").code(), tonic::Code::InvalidArgument);
        }
        // Nor is there anything of a query that is not there.
        let (ticket, _) = asked("a1b2-c3".to_owned());
        assert_ne!(rows.do_get(ticket).await.err().expect("no file").code(), tonic::Code::InvalidArgument);
        assert!(rows.do_get(Request::new(Ticket { ticket: vec![0xff; 9].into() })).await.is_err());
    }
}
