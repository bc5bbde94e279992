//! Generated from `wit/v0.1`. One world that imports and exports everything, so that all roles share one set of types; only
//! the interfaces of a plugin's own role are looked up.

wasmtime::component::bindgen!({
    path: "../../wit/v0.1",
    inline: "
        package sagehost:host;
        world every {
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
    world: "sagehost:host/every",
    // Arguments of guests are lent, not copied into the generated types first.
    ownership: Borrowing { duplicate_if_necessary: true },
    imports: { default: trappable },
});
