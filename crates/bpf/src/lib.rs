//! For build scripts: compiles BPF programs and generates their Rust skeletons. `include/kernel.h` contains the kernel
//! types that all these programs use.

/// The headers by name. Their content is compiled into this crate instead of read from its source path: a build
/// directory may serve several checkouts, and the one this crate was compiled in may be gone.
#[cfg(feature = "compile")]
const HEADER_FILES: [(&str, &str); 2] =
    [("kernel.h", include_str!("../include/kernel.h")), ("log2.h", include_str!("../include/log2.h"))];

/// Generates `NAME.skel.rs` in cargo's output directory from each `src/bpf/NAME.bpf.c` of the package being built.
///
/// `generated` has further headers, by name and text, that the package makes itself.
///
/// The package must depend on `libbpf-sys`, whose build script names the directory of libbpf's headers. If a program
/// does not compile, the error is printed as cargo's and the build script ends.
#[cfg(feature = "compile")]
pub fn compile(names: &[&str], generated: &[(&str, &str)]) {
    println!("cargo:rerun-if-changed=src/bpf");
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| fail(&format!("{name} is not set")));
    // Set by libbpf-sys, which contains libbpf.
    let headers = variable("DEP_BPF_INCLUDE");
    let out = std::path::PathBuf::from(variable("OUT_DIR"));
    let ours = out.join("include");
    let package = variable("CARGO_MANIFEST_DIR");
    let written = std::fs::create_dir_all(&ours).and_then(|()| {
        HEADER_FILES.iter().chain(generated).try_for_each(|(name, text)| std::fs::write(ours.join(name), text))
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
                // Types record their source file: this keeps the bytes the same wherever they are built.
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
