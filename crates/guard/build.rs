//! Compiles the BPF programs, if the feature `bpf` asks for it. Needs clang, libelf and zlib (`make setup`).

fn main() {
    #[cfg(feature = "bpf")]
    unstarve_bpf::compile(&["births", "waits"], &[]);
}
