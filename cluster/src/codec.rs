//! A table on its way to the scheduler: the files that its asker found. They are chosen once, by who asks; nobody looks at the store again.

use std::sync::Arc;

use ballista_core::serde::BallistaLogicalExtensionCodec;
use chrono::DateTime;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference, exec_datafusion_err, exec_err};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use object_store::ObjectMeta;
use object_store::path::Path;
use prost::Message;
use unstarve_sql::place::Part;
use unstarve_sql::scan::Files;

/// What travels of a table, its columns beside it.
#[derive(Clone, PartialEq, Message)]
struct Listing {
    #[prost(string, repeated, tag = "1")]
    stores: Vec<String>,
    #[prost(message, repeated, tag = "2")]
    files: Vec<File>,
}

/// A file. Most of its path is that of the one before.
#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(uint32, tag = "1")]
    store: u32,
    #[prost(uint32, tag = "2")]
    shared: u32,
    #[prost(string, tag = "3")]
    rest: String,
    #[prost(uint64, tag = "4")]
    size: u64,
    #[prost(int64, tag = "5")]
    modified_us: i64,
}

/// Ballista's codec, and tables of ours.
#[derive(Debug, Default)]
pub struct Codec(BallistaLogicalExtensionCodec);

fn encode(parts: &[Part]) -> Listing {
    let mut listing = Listing::default();
    let mut before = String::new();
    for Part { store, meta, .. } in parts {
        let store = store.as_str();
        let known = listing.stores.iter().position(|known| known == store);
        let at = known.unwrap_or_else(|| {
            listing.stores.push(store.to_owned());
            listing.stores.len() - 1
        });
        let path = meta.location.as_ref();
        let shared = shared(&before, path);
        listing.files.push(File {
            store: at as u32,
            shared: shared as u32,
            rest: path[shared..].to_owned(),
            size: meta.size,
            modified_us: meta.last_modified.timestamp_micros(),
        });
        before = path.to_owned();
    }
    listing
}

/// How many bytes two texts begin with alike, whole characters.
fn shared(one: &str, other: &str) -> usize {
    let alike = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    other.floor_char_boundary(alike)
}

fn decode(listing: &Listing) -> Result<Vec<Part>> {
    let bad = || exec_datafusion_err!("the list of files is damaged");
    let stores = listing.stores.iter().map(ObjectStoreUrl::parse).collect::<Result<Vec<_>>>()?;
    let mut before = String::new();
    let mut part = |file: &File| -> Result<Part> {
        before.truncate(if before.is_char_boundary(file.shared as usize) {
            file.shared as usize
        } else {
            return Err(bad());
        });
        before.push_str(&file.rest);
        // Only a path in its one form: none that leads up.
        let location = Path::parse(&before).map_err(|_| bad())?;
        let last_modified = DateTime::from_timestamp_micros(file.modified_us).ok_or_else(bad)?;
        let store = stores.get(file.store as usize).ok_or_else(bad)?.clone();
        let meta = ObjectMeta { location, last_modified, size: file.size, e_tag: None, version: None };
        Ok(Part::new(store, meta))
    };
    listing.files.iter().map(&mut part).collect()
}

impl LogicalExtensionCodec for Codec {
    fn try_decode(&self, bytes: &[u8], inputs: &[LogicalPlan], context: &TaskContext) -> Result<Extension> {
        self.0.try_decode(bytes, inputs, context)
    }

    fn try_encode(&self, node: &Extension, bytes: &mut Vec<u8>) -> Result<()> {
        self.0.try_encode(node, bytes)
    }

    fn try_decode_table_provider(
        &self,
        bytes: &[u8],
        _: &TableReference,
        schema: SchemaRef,
        _: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        let listing = Listing::decode(bytes).map_err(|_| exec_datafusion_err!("the list of files is damaged"))?;
        Ok(Arc::new(Files::new(schema, decode(&listing)?)))
    }

    fn try_encode_table_provider(
        &self,
        table: &TableReference,
        provider: Arc<dyn TableProvider>,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(files) = provider.downcast_ref::<Files>() else {
            return exec_err!("{table}: this table cannot be asked on a cluster");
        };
        encode(files.parts()).encode(bytes).map_err(|error| exec_datafusion_err!("{table}: {error}"))
    }

    fn try_decode_file_format(&self, bytes: &[u8], context: &TaskContext) -> Result<Arc<dyn FileFormatFactory>> {
        self.0.try_decode_file_format(bytes, context)
    }

    fn try_encode_file_format(&self, bytes: &mut Vec<u8>, format: Arc<dyn FileFormatFactory>) -> Result<()> {
        self.0.try_encode_file_format(bytes, format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(store: &str, path: &str, size: u64) -> Part {
        let last_modified = DateTime::from_timestamp_micros(1_764_000_000_123_456).expect("a moment");
        let meta = ObjectMeta { location: path.into(), last_modified, size, e_tag: None, version: None };
        Part::new(ObjectStoreUrl::parse(store).expect("a store"), meta)
    }

    #[test]
    fn a_list_of_files_arrives_as_it_was_sent() {
        let parts = [
            part("file:///", "srv/table=hosts/date=2026-11-23/hour=07/web1-é.parquet", 7),
            part("file:///", "srv/table=hosts/date=2026-11-23/hour=07/web1-è.parquet", 8),
            part("s3://fleet", "a", 9),
            part("file:///", "srv/table=hosts/date=2026-11-24/hour=07/web2.parquet", u64::MAX),
        ];
        let sent = encode(&parts);
        assert!(sent.files[3].rest.len() > 40 && sent.files[1].rest.len() < 20, "{sent:?}");
        let arrived = decode(&Listing::decode(&*sent.encode_to_vec()).expect("whole")).expect("whole");
        let plain = |part: &Part| (part.store.to_string(), part.meta.clone());
        assert_eq!(arrived.iter().map(plain).collect::<Vec<_>>(), parts.iter().map(plain).collect::<Vec<_>>());
    }

    /// What a message can have is what limits a query: files of a real name, a day of a thousand hosts.
    #[test]
    fn a_file_takes_little_of_a_message() {
        let name = |host: usize, hour: usize| {
            format!(
                "table=wait_rollup/date=2026-11-23/hour={hour:02}/host-{host:05}-c05a1cd7-{}.parquet",
                1_795_421_990_359_013_721_u64 + host as u64
            )
        };
        let parts: Vec<Part> = (0..24)
            .flat_map(|hour| {
                (0..1000).map(move |host| part("file:///", &format!("srv/unstarve/{}", name(host, hour)), 40_000))
            })
            .collect();
        let each = encode(&parts).encoded_len() / parts.len();
        assert!(each <= 80, "{each} bytes a file");
    }

    #[test]
    fn a_damaged_list_is_an_error() {
        let good = encode(&[part("file:///", "srv/é", 1), part("file:///", "srv/è", 1)]);
        let damaged = |change: &dyn Fn(&mut Listing)| {
            let mut listing = good.clone();
            change(&mut listing);
            decode(&listing).is_err()
        };
        assert!(!damaged(&|_| {}));
        assert!(damaged(&|listing| listing.files[1].shared = 99));
        assert!(damaged(&|listing| (listing.files[0].rest, listing.files[1].shared) = ("srv/é".to_owned(), 5)));
        assert!(damaged(&|listing| listing.files[0].store = 1));
        assert!(damaged(&|listing| listing.files[0].rest = "srv/../etc/passwd".to_owned()));
        assert!(damaged(&|listing| listing.stores[0] = "nothing".to_owned()));
    }
}
