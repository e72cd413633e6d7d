//! Compiles the BPF programs, if the feature `bpf` asks for it. Needs clang, libelf and zlib (`make setup`).

fn main() {
    #[cfg(feature = "bpf")]
    bpf();
}

#[cfg(feature = "bpf")]
fn bpf() {
    println!("cargo:rerun-if-changed=src/bpf");
    // From libbpf-sys, which brings libbpf.
    let headers = std::env::var("DEP_BPF_INCLUDE").expect("libbpf-sys says where its headers are");
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for name in ["births", "waits"] {
        let source = format!("src/bpf/{name}.bpf.c");
        let built = libbpf_cargo::SkeletonBuilder::new()
            .source(&source)
            .clang_args([&format!("-I{headers}"), "-Wall", "-Werror", "-Wno-unknown-warning-option"])
            .build_and_generate(out.join(format!("{name}.skel.rs")));
        if let Err(error) = built {
            println!("cargo:error={source}: {error:#}. `make setup` installs clang, libelf and zlib");
            std::process::exit(1);
        }
    }
}
