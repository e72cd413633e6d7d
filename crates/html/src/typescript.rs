//! Writes the page's types in TypeScript, from the Rust types.

use std::any::TypeId;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::{env, fs};

use ts_rs::{Config, TS, TypeVisitor};

use crate::blob::Column;
use crate::collect::detail::Kind;
use crate::fleet::FleetPage;
use crate::html::PageData;

/// The typed array for a column.
macro_rules! columns {
    ($($number:ty => $array:literal),*) => {$(
        impl TS for Column<$number> {
            type WithoutGenerics = Self;
            type OptionInnerType = Self;

            fn name(_: &Config) -> String {
                $array.to_owned()
            }

            fn inline(_: &Config) -> String {
                $array.to_owned()
            }
        }
    )*};
}

columns!(u8 => "Uint8Array", u16 => "Uint16Array", u32 => "Uint32Array", f32 => "Float32Array", f64 => "Float64Array");

/// Declares every type once.
struct Declarations {
    config: Config,
    seen: HashSet<TypeId>,
    /// By name, because the order in which dependencies are visited differs between builds.
    texts: BTreeMap<String, String>,
}

impl TypeVisitor for Declarations {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        if !self.seen.insert(TypeId::of::<T>()) {
            return;
        }
        // Types that TypeScript has need no declaration.
        if T::output_path().is_some() {
            let name = T::ident(&self.config);
            let declaration = T::decl(&self.config);
            // Numbers of such an enumeration are inlined when the page's program is built.
            let kind = if declaration.starts_with("enum") { "const " } else { "" };
            let docs = T::docs().unwrap_or_default();
            let text = format!("\n{docs}export {kind}{}\n", declaration.trim_end());
            assert!(self.texts.insert(name.clone(), text).is_none(), "two types are called {name}: rename one of them");
        }
        T::visit_dependencies(self);
        T::visit_generics(self);
    }
}

fn declarations() -> String {
    let config = Config::new().with_large_int("number");
    let head = "// Made by `UNSTARVE_WRITE=1 cargo test -p unstarve-html typescript` from the types in crates/html,\n\
                // crates/diagnose and crates/model. Do not edit.\n";
    let mut made = Declarations { config, seen: HashSet::new(), texts: BTreeMap::new() };
    made.visit::<PageData<'static>>();
    made.visit::<Kind>();
    made.visit::<FleetPage<'static>>();
    made.texts.values().fold(head.to_owned(), |text, declaration| text + declaration)
}

#[test]
fn the_pages_types_are_those_of_its_data() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/data.generated.ts");
    let made = declarations();
    if env::var_os("UNSTARVE_WRITE").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == made,
        "{} is not what the types of the page's data give. Run the test with UNSTARVE_WRITE=1, then `npm run check` and \
         `npm run build` in web/",
        file.display()
    );
}
