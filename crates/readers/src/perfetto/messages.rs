//! Messages of Protocol Buffers, declared as in the `.proto` files that define them.

/// Declares messages: `optional uint64 iid = 1;` is a field `pub iid: Option<u64>`.
///
/// What differs from `.proto` files: a field whose type is another message has `message` before the type, `encoded` is
/// a message that is left encoded, `unpacked` is `repeated` with `packed = false`, and a `oneof` names its enum.
#[doc(hidden)]
#[macro_export]
macro_rules! proto_messages {
    ($($(#[$about:meta])* message $name:ident { $($fields:tt)* })*) => {
        $($crate::proto_messages!(@fields [$(#[$about])* $name] [] $($fields)*);)*
    };
    (@fields [$(#[$about:meta])* $name:ident] [$($done:tt)*]) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, ::prost::Message)]
        pub struct $name { $($done)* }
    };
    (@fields $message:tt $done:tt $(#[$about:meta])*
        unpacked $type:ident $name:ident = $tag:tt; $($rest:tt)*
    ) => {
        $crate::proto_messages!(@add $message $done [
            $(#[$about])* #[prost($type, repeated, packed = "false", tag = $tag)]
            pub $name: Vec<$crate::perfetto::messages::scalar::$type>,
        ] $($rest)*);
    };
    (@fields $message:tt $done:tt $(#[$about:meta])*
        $label:ident encoded $name:ident = $tag:tt; $($rest:tt)*
    ) => {
        $crate::proto_messages!(@add $message $done [
            $(#[$about])* #[prost(bytes = "bytes", $label, tag = $tag)]
            pub $name: $crate::perfetto::messages::label::$label<::prost::bytes::Bytes>,
        ] $($rest)*);
    };
    (@fields $message:tt $done:tt $(#[$about:meta])*
        $label:ident message $type:ident $name:ident = $tag:tt; $($rest:tt)*
    ) => {
        $crate::proto_messages!(@add $message $done [
            $(#[$about])* #[prost(message, $label, tag = $tag)]
            pub $name: $crate::perfetto::messages::label::$label<$type>,
        ] $($rest)*);
    };
    (@fields $message:tt $done:tt $(#[$about:meta])*
        $label:ident $type:ident $name:ident = $tag:tt; $($rest:tt)*
    ) => {
        $crate::proto_messages!(@add $message $done [
            $(#[$about])* #[prost($type, $label, tag = $tag)]
            pub $name: $crate::perfetto::messages::label::$label<$crate::perfetto::messages::scalar::$type>,
        ] $($rest)*);
    };
    (@fields $message:tt $done:tt
        oneof $enum:ident $name:ident { $($variant:ident($type:ident) = $tag:tt;)* } $($rest:tt)*
    ) => {
        #[derive(Clone, PartialEq, ::prost::Oneof)]
        pub enum $enum { $(#[prost(message, tag = $tag)] $variant($type),)* }

        $crate::proto_messages!(@add $message $done [
            #[prost(oneof($enum), tags($($tag),*))]
            pub $name: Option<$enum>,
        ] $($rest)*);
    };
    (@add $message:tt [$($done:tt)*] [$($field:tt)*] $($rest:tt)*) => {
        $crate::proto_messages!(@fields $message [$($done)* $($field)*] $($rest)*);
    };
}

/// The Rust types of fields, by their label.
#[allow(missing_docs, non_camel_case_types, reason = "the names are those of the language")]
pub mod label {
    pub type optional<T> = Option<T>;
    pub type repeated<T> = Vec<T>;
}

/// The Rust types of scalars.
#[allow(missing_docs, non_camel_case_types, reason = "the names are those of the language")]
pub mod scalar {
    pub type bool = std::primitive::bool;
    pub type bytes = Vec<u8>;
    pub type fixed64 = u64;
    pub type int32 = i32;
    pub type int64 = i64;
    pub type string = String;
    pub type uint32 = u32;
    pub type uint64 = u64;
}
