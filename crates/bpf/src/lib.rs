//! For build scripts: compiles BPF programs and makes their Rust skeletons. `include/kernel.h` has the few kernel types that all
//! programs here read.

/// The headers by name. They are part of this crate's compiled code and not a path of it: a directory for builds may serve
/// several checkouts, and the checkout that a crate was compiled in may be gone.
#[cfg(feature = "compile")]
const HEADERS: [(&str, &str); 2] =
    [("kernel.h", include_str!("../include/kernel.h")), ("log2.h", include_str!("../include/log2.h"))];

/// Makes `NAME.skel.rs` in cargo's output directory from each `src/bpf/NAME.bpf.c` of the package being built.
///
/// Headers that a package generates are given by name and text, beside those of this crate.
///
/// A package that calls this depends on `libbpf-sys`, whose build script names the directory of libbpf's headers. A program that
/// does not compile is reported as cargo's error, and ends the build script.
#[cfg(feature = "compile")]
pub fn compile(names: &[&str], generated: &[(&str, &str)]) {
    println!("cargo:rerun-if-changed=src/bpf");
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| fail(&format!("{name} is not set")));
    // From libbpf-sys, which brings libbpf.
    let headers = variable("DEP_BPF_INCLUDE");
    let out = std::path::PathBuf::from(variable("OUT_DIR"));
    let ours = out.join("include");
    let package = variable("CARGO_MANIFEST_DIR");
    let written = std::fs::create_dir_all(&ours).and_then(|()| {
        HEADERS.iter().chain(generated).try_for_each(|(name, text)| std::fs::write(ours.join(name), text))
    });
    if let Err(error) = written {
        fail(&format!("{}: {error}", ours.display()));
    }
    for name in names {
        let source = format!("src/bpf/{name}.bpf.c");
        let built = libbpf_cargo::SkeletonBuilder::new()
            .source(&source)
            .clang_args([
                &format!("-I{headers}"),
                &format!("-I{}", ours.display()),
                // Types name the files that they are from: the same bytes wherever they are built.
                &format!("-ffile-prefix-map={}=.", out.display()),
                &format!("-ffile-prefix-map={headers}=libbpf"),
                &format!("-ffile-prefix-map={package}=."),
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
