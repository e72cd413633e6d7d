//! For build scripts: compiles BPF programs and makes their Rust skeletons. `include/kernel.h` has the few kernel types that all
//! programs here read.

/// Where `kernel.h` is.
pub const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

/// Makes `NAME.skel.rs` in cargo's output directory from each `src/bpf/NAME.bpf.c` of the package being built.
///
/// A package that calls this depends on `libbpf-sys`, whose build script names the directory of libbpf's headers. A program that
/// does not compile is reported as cargo's error, and ends the build script.
#[cfg(feature = "compile")]
pub fn compile(names: &[&str]) {
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-changed={INCLUDE}");
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| fail(&format!("{name} is not set")));
    // From libbpf-sys, which brings libbpf.
    let headers = variable("DEP_BPF_INCLUDE");
    let out = std::path::PathBuf::from(variable("OUT_DIR"));
    for name in names {
        let source = format!("src/bpf/{name}.bpf.c");
        let built = libbpf_cargo::SkeletonBuilder::new()
            .source(&source)
            .clang_args([
                &format!("-I{headers}"),
                &format!("-I{INCLUDE}"),
                "-Wall",
                "-Werror",
                "-Wno-unknown-warning-option",
            ])
            .build_and_generate(out.join(format!("{name}.skel.rs")));
        if let Err(error) = built {
            fail(&format!("{source}: {error:#}. `make setup` installs clang, libelf and zlib"));
        }
    }
}

#[cfg(feature = "compile")]
fn fail(message: &str) -> ! {
    println!("cargo:error={message}");
    std::process::exit(1)
}
