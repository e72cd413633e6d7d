//! Deserializes a [`Step`]: `when` and `kernels` beside exactly one action.
//!
//! By hand, because `#[serde(flatten)]` cannot refuse unknown fields and loses the line of an error.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};

use super::{Action, Step};

impl<'de> serde::Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Step, D::Error> {
        deserializer.deserialize_map(StepVisitor)
    }
}

struct StepVisitor;

impl<'de> Visitor<'de> for StepVisitor {
    type Value = Step;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a step: one action (`null-blk`, `run`, `write`, …) and perhaps `when` and `kernels`")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Step, M::Error> {
        let (mut when, mut kernels, mut action) = (None, Vec::new(), None);
        while let Some(key) = map.next_key::<String>()? {
            if key == "when" {
                when = map.next_value()?;
            } else if key == "kernels" {
                kernels = map.next_value()?;
            } else if action.is_some() {
                return Err(de::Error::custom(format!("`{key}` is a second action: every step has one")));
            } else {
                action = Some(map.next_value_seed(ActionNamed(&key))?);
            }
        }
        let action = action.ok_or_else(|| de::Error::custom("a step without an action"))?;
        Ok(Step { when, kernels, action })
    }
}

/// Deserializes a value as the [`Action`] with this name.
struct ActionNamed<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for ActionNamed<'_> {
    type Value = Action;

    fn deserialize<D: Deserializer<'de>>(self, content: D) -> Result<Action, D::Error> {
        serde::Deserialize::deserialize(Variant { name: self.0, content })
    }
}

/// A variant of an enum whose name and content were read separately.
struct Variant<'a, D> {
    name: &'a str,
    content: D,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Variant<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_enum(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, D: Deserializer<'de>> de::EnumAccess<'de> for Variant<'_, D> {
    type Error = D::Error;
    type Variant = Content<D>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Content<D>), D::Error> {
        let name: StrDeserializer<'_, D::Error> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, Content(self.content)))
    }
}

struct Content<D>(D);

impl<'de, D: Deserializer<'de>> de::VariantAccess<'de> for Content<D> {
    type Error = D::Error;

    fn unit_variant(self) -> Result<(), D::Error> {
        serde::Deserialize::deserialize(self.0)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, D::Error> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct("Action", fields, visitor)
    }
}
