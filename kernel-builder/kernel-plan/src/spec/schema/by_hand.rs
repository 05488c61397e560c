//! Types whose schemas are written by hand.
//!
//! Owns: the macro that gives them. Never: has a schema.

/// Gives types their schemas.
macro_rules! schemas {
    ($($type:ty => $schema:expr;)*) => { $(
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $schema
            }
        }
    )* };
}

pub(super) use schemas;
