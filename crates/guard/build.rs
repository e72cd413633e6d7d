//! Compiles the BPF program, if the feature `bpf` asks for it. Needs clang, libelf and zlib (`make setup`).

fn main() {
    #[cfg(feature = "bpf")]
    bpf();
}

#[cfg(feature = "bpf")]
fn bpf() {
    const SOURCE: &str = "src/bpf/births.bpf.c";
    println!("cargo:rerun-if-changed=src/bpf");
    // From libbpf-sys, which brings libbpf.
    let headers = std::env::var("DEP_BPF_INCLUDE").expect("libbpf-sys says where its headers are");
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let built = libbpf_cargo::SkeletonBuilder::new()
        .source(SOURCE)
        .clang_args([&format!("-I{headers}"), "-Wall", "-Werror", "-Wno-unknown-warning-option"])
        .build_and_generate(out.join("births.skel.rs"));
    if let Err(error) = built {
        println!("cargo:error={SOURCE}: {error:#}. `make setup` installs clang, libelf and zlib");
        std::process::exit(1);
    }
}
