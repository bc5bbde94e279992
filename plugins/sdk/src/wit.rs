//! Bindings made by wit-bindgen from `wit/v0.1`.
//!
//! All roles at once, so that a [`Block`](crate::Block) is one type whatever the role. What a plugin is a component *of*,
//! one of the WIT's worlds, its export macro says: `build.rs` encodes each world, the macro puts it into the plugin.

#![allow(missing_docs, unreachable_pub, reason = "generated; the WIT files hold the documentation")]
#![allow(unsafe_code, reason = "generated: the canonical ABI moves raw pointers across the border")]
#![allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]

wit_bindgen::generate!({
    inline: "
        package sagehost:sdk;
        world every-role {
            import sagehost:plugin/types@0.1.0;
            import sagehost:plugin/graph@0.1.0;
            import sagehost:plugin/log@0.1.0;
            export sagehost:plugin/configure@0.1.0;
            export sagehost:plugin/sampling@0.1.0;
            export sagehost:plugin/weighing@0.1.0;
            export sagehost:plugin/reducing@0.1.0;
            export sagehost:plugin/preparing@0.1.0;
            export sagehost:plugin/deciding@0.1.0;
        }
    ",
    path: "../../wit/v0.1",
    additional_derives: [PartialEq],
    pub_export_macro: true,
    generate_all,
});

include!(concat!(env!("OUT_DIR"), "/worlds.rs"));
