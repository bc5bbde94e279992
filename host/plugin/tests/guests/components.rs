//! Components made by hand: core modules in the text format against the canonical ABI, so that a guest can do exactly what
//! a test needs, down to answers that no bindings generator would let it give.

use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Memory, an allocator that starts over after each call, and a `configure` that refuses a first setting that is a flag,
/// spins on a number and takes everything else. Answers are written from address 1024 on.
const PRELUDE: &str = r#"
  (memory (export "memory") 2)
  (global $heap (mut i32) (i32.const 8192))
  (data (i32.const 512) "refused")
  (data (i32.const 544) "weight")
  (func $alloc (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
    (global.set $heap (i32.add (local.get $at) (local.get $size)))
    (block $fits
      (loop $more
        (br_if $fits (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
        (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then unreachable))
        (br $more)))
    (local.get $at))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (call $alloc (local.get 3)))
  (func $reset (global.set $heap (i32.const 8192)))
  (func (export "sagehost:plugin/configure@0.1.0#configure") (param $list i32) (param $len i32) (result i32)
    (i32.store (i32.const 1024) (i32.const 0))
    (if (local.get $len) (then
      (if (i32.eqz (i32.load8_u offset=8 (local.get $list))) (then
        (i32.store (i32.const 1024) (i32.const 1))
        (i32.store (i32.const 1028) (i32.const 512))
        (i32.store (i32.const 1032) (i32.const 7))))
      (if (i32.eq (i32.load8_u offset=8 (local.get $list)) (i32.const 1)) (then (loop $spin (br $spin))))))
    (i32.const 1024))
  (func (export "cabi_post_sagehost:plugin/configure@0.1.0#configure") (param i32) (call $reset))
"#;

const WIT: [&str; 2] = ["types.wit", "roles.wit"];

fn resolve(patch: impl Fn(&str) -> String, extra: &str) -> (Resolve, Vec<wit_parser::PackageId>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/v0.1");
    let mut map = wit_parser::SourceMap::default();
    for file in WIT {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        map.push_str(file, patch(&text));
    }
    let mut resolve = Resolve::default();
    let group = map.parse().map_err(|(_, error)| error).unwrap();
    let mut packages = vec![resolve.push_group(group).unwrap()];
    if !extra.is_empty() {
        packages = vec![resolve.push_str("extra.wit", extra).unwrap()];
    }
    (resolve, packages)
}

/// Makes a component of a core module for a world.
fn encode(text: &str, world: &str, patch: impl Fn(&str) -> String, extra: &str) -> Vec<u8> {
    let (resolve, packages) = resolve(patch, extra);
    let world = resolve.select_world(&packages, Some(world)).unwrap();
    let mut module = wat::parse_str(text).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap()
}

fn role(world: &str, imports: &str, body: &str) -> Vec<u8> {
    encode(&format!("(module {imports} {PRELUDE} {body})"), world, str::to_owned, "")
}

const LOG: &str = r#"(import "sagehost:plugin/log@0.1.0" "write" (func $log (param i32 i32 i32)))"#;

/// What the pre-processor does by the value of the first feature; anything else: copies the values, missing ones as 0.
pub(crate) mod mode {
    pub(crate) const TRAP: f32 = 1.0;
    pub(crate) const SPIN: f32 = 2.0;
    pub(crate) const GROW: f32 = 3.0;
    pub(crate) const CALL_HOST: f32 = 4.0;
    pub(crate) const SHORT: f32 = 5.0;
    pub(crate) const NAN: f32 = 6.0;
    pub(crate) const RECURSE: f32 = 7.0;
    pub(crate) const OUT_OF_BOUNDS: f32 = 8.0;
    pub(crate) const BAD_TEXT: f32 = 9.0;
    /// 20 to 23: the contract's errors in their order.
    pub(crate) const ERROR: f32 = 20.0;
}

pub(crate) fn pre_processor() -> Vec<u8> {
    role("pre-processor", LOG, PRE_PROCESSOR)
}

const PRE_PROCESSOR: &str = r#"
  (func $recurse (param i32) (result i32)
    (i32.add (call $recurse (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
  (func $give_up (export "give_up") unreachable)
  (func (export "sagehost:plugin/preparing@0.1.0#prepare")
    (param i32 i32 i32 i32 i64 i32 i32 i32) (param $list i32) (param $len i32) (result i32)
    (local $mode i32) (local $values i32) (local $i i32)
    (if (local.get $len) (then
      (local.set $mode (i32.trunc_sat_f32_s (f32.load offset=12 (local.get $list))))))
    (if (i32.eq (local.get $mode) (i32.const 1)) (then (call $give_up)))
    (if (i32.eq (local.get $mode) (i32.const 2)) (then (loop $spin (br $spin))))
    (if (i32.eq (local.get $mode) (i32.const 3)) (then
      (loop $grow
        (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then unreachable))
        (br $grow))))
    (if (i32.eq (local.get $mode) (i32.const 4)) (then
      (loop $call (call $log (i32.const 0) (i32.const 512) (i32.const 7)) (br $call))))
    (if (i32.eq (local.get $mode) (i32.const 7)) (then (drop (call $recurse (i32.const 0)))))
    (if (i32.ge_s (local.get $mode) (i32.const 20)) (then
      (i32.store (i32.const 1024) (i32.const 1))
      (i32.store (i32.const 1028) (i32.sub (local.get $mode) (i32.const 20)))
      (i32.store (i32.const 1032) (i32.const 512))
      (i32.store (i32.const 1036) (i32.const 7))
      (return (i32.const 1024))))
    (local.set $values (call $alloc (i32.mul (local.get $len) (i32.const 4))))
    (block $done
      (loop $copy
        (br_if $done (i32.ge_u (local.get $i) (local.get $len)))
        (f32.store
          (i32.add (local.get $values) (i32.mul (local.get $i) (i32.const 4)))
          (if (result f32)
            (i32.load8_u offset=8 (i32.add (local.get $list) (i32.mul (local.get $i) (i32.const 16))))
            (then (f32.load offset=12 (i32.add (local.get $list) (i32.mul (local.get $i) (i32.const 16)))))
            (else (f32.const 0))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $copy)))
    (if (i32.eq (local.get $mode) (i32.const 5)) (then
      (local.set $len (i32.sub (local.get $len) (i32.const 1)))))
    (if (i32.eq (local.get $mode) (i32.const 6)) (then (f32.store (local.get $values) (f32.const nan))))
    (if (i32.eq (local.get $mode) (i32.const 8)) (then (local.set $values (i32.const 0x7ffffff0))))
    (if (i32.eq (local.get $mode) (i32.const 9)) (then
      (i32.store (i32.const 2048) (i32.const 0xffffffff))
      (call $log (i32.const 0) (i32.const 2048) (i32.const 4))))
    (i32.store (i32.const 1024) (i32.const 0))
    (i32.store (i32.const 1028) (local.get $values))
    (i32.store (i32.const 1032) (local.get $len))
    (i32.const 1024))
  (func (export "cabi_post_sagehost:plugin/preparing@0.1.0#prepare") (param i32) (call $reset))
"#;

/// Decides: score is the first score, the decision is the policy's name, the reasons are the evidence's keys.
pub(crate) fn post_processor() -> Vec<u8> {
    role(
        "post-processor",
        "",
        r#"
  (func (export "sagehost:plugin/deciding@0.1.0#decide") (param $args i32) (result i32)
    (i32.store (i32.const 1024) (i32.const 0))
    (f64.store (i32.const 1032) (f64.promote_f32 (f32.load (i32.load offset=64 (local.get $args)))))
    (i32.store (i32.const 1040) (i32.load offset=120 (local.get $args)))
    (i32.store (i32.const 1044) (i32.load offset=124 (local.get $args)))
    (i32.store (i32.const 1048) (i32.load offset=88 (local.get $args)))
    (i32.store (i32.const 1052) (i32.load offset=92 (local.get $args)))
    (i32.const 1024))
  (func (export "cabi_post_sagehost:plugin/deciding@0.1.0#decide") (param i32) (call $reset))
"#,
    )
}

/// Says that it has 2²⁰ reasons, all of them the same megabyte of memory.
pub(crate) fn amplifier() -> Vec<u8> {
    role(
        "post-processor",
        "",
        r#"
  (func (export "sagehost:plugin/deciding@0.1.0#decide") (param $args i32) (result i32)
    (local $list i32) (local $i i32)
    (local.set $list (call $alloc (i32.const 1048576)))
    (block $done
      (loop $more
        (br_if $done (i32.ge_u (local.get $i) (i32.const 1048576)))
        (i32.store (i32.add (local.get $list) (local.get $i)) (i32.const 0))
        (i32.store offset=4 (i32.add (local.get $list) (local.get $i)) (i32.const 1048576))
        (local.set $i (i32.add (local.get $i) (i32.const 8)))
        (br $more)))
    (i32.store (i32.const 1024) (i32.const 0))
    (f64.store (i32.const 1032) (f64.const 0.5))
    (i32.store (i32.const 1040) (i32.const 512))
    (i32.store (i32.const 1044) (i32.const 7))
    (i32.store (i32.const 1048) (local.get $list))
    (i32.store (i32.const 1052) (i32.const 131072))
    (i32.const 1024))
"#,
    )
}

const GRAPH: &str = r#"
  (import "sagehost:plugin/graph@0.1.0" "sample" (func $sample (param i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "sagehost:plugin/graph@0.1.0" "pick"
    (func $pick (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "sagehost:plugin/graph@0.1.0" "edge-times" (func $edge_times (param i32 i32 i32 i32)))
  (import "sagehost:plugin/graph@0.1.0" "edge-column" (func $edge_column (param i32 i32 i32 i32 i32 i32)))
"#;

/// What the sampler does by the fan-out of the first hop; below 1000: it has the host sample.
pub(crate) mod peek {
    /// Samples as if every seed were asked about at the end of time.
    pub(crate) const LATER: i32 = 1000;
    /// Picks position 1 of every seed.
    pub(crate) const PICK: i32 = 1001;
    /// Reads the time of edge 2 of relation 0.
    pub(crate) const TIME: i32 = 1002;
    /// Reads column `weight` of edge 2 of relation 0.
    pub(crate) const COLUMN: i32 = 1003;
    /// Hands over fewer as-of times than nodes.
    pub(crate) const UNEVEN: i32 = 1004;
    /// Calls the host for ever.
    pub(crate) const FOR_EVER: i32 = 1005;
    /// Answers no block.
    pub(crate) const NOTHING: i32 = 1006;
}

pub(crate) fn sampler() -> Vec<u8> {
    role("sampler", GRAPH, SAMPLER)
}

const SAMPLER: &str = r#"
  (func (export "sagehost:plugin/sampling@0.1.0#sample")
    (param i32 i32 i32) (param $nodes i32) (param $nodes_len i32) (param $times i32) (param $times_len i32)
    (param $hops i32) (param $hops_len i32) (param $growth i32) (result i32)
    (local $fanout i32) (local $i i32)
    (local.set $fanout (i32.load offset=8 (local.get $hops)))
    (i64.store (i32.const 3072) (i64.const 2))
    (if (i32.eq (local.get $fanout) (i32.const 1000)) (then
      (loop $each
        (i64.store (i32.add (local.get $times) (i32.mul (local.get $i) (i32.const 8)))
          (i64.const 0x7fffffffffffffff))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $each (i32.lt_u (local.get $i) (local.get $times_len))))))
    (if (i32.eq (local.get $fanout) (i32.const 1004)) (then
      (local.set $times_len (i32.sub (local.get $times_len) (i32.const 1)))))
    (if (i32.eq (local.get $fanout) (i32.const 1005)) (then
      (loop $spin
        (call $edge_times (i32.const 0) (i32.const 3072) (i32.const 0) (i32.const 2048))
        (br $spin))))
    (if (i32.eq (local.get $fanout) (i32.const 1001)) (then
      (i32.store (i32.const 3080) (i32.const 0))
      (i32.store (i32.const 3084) (i32.const 1))
      (i32.store (i32.const 3088) (i32.const 1))
      (call $pick (i32.const 0) (i32.const 0) (local.get $nodes) (i32.const 1) (local.get $times) (i32.const 1)
        (i32.const 3080) (i32.const 2) (i32.const 3088) (i32.const 1) (i32.const 2048)))
    (else (if (i32.eq (local.get $fanout) (i32.const 1002)) (then
      (call $edge_times (i32.const 0) (i32.const 3072) (i32.const 1) (i32.const 2048)))
    (else (if (i32.eq (local.get $fanout) (i32.const 1003)) (then
      (call $edge_column (i32.const 0) (i32.const 544) (i32.const 6) (i32.const 3072) (i32.const 1)
        (i32.const 2048)))
    (else
      (call $sample (i32.load (i32.load (local.get $hops))) (i32.const 0)
        (local.get $nodes) (local.get $nodes_len) (local.get $times) (local.get $times_len)
        (local.get $fanout) (i32.const 0) (i32.const 2048))))))))
    ;; An error of the host's is the answer, as it is.
    (if (i32.load8_u (i32.const 2048)) (then (return (i32.const 2048))))
    (i32.store (i32.const 1024) (i32.const 0))
    (i32.store (i32.const 1028) (i32.const 2052))
    (i32.store (i32.const 1032) (i32.ne (local.get $fanout) (i32.const 1006)))
    ;; Times or values would be no block: that the host gave them is answered as no block at all.
    (if (i32.or (i32.eq (local.get $fanout) (i32.const 1002)) (i32.eq (local.get $fanout) (i32.const 1003))) (then
      (i32.store (i32.const 1032) (i32.const 0))))
    (i32.const 1024))
  (func (export "cabi_post_sagehost:plugin/sampling@0.1.0#sample") (param i32) (call $reset))
"#;

/// Answers with the column `weight` of the block's edges; in layer 9 it tries to draw a sample.
pub(crate) fn edge_weigher() -> Vec<u8> {
    role(
        "edge-weigher",
        GRAPH,
        r#"
  (func (export "sagehost:plugin/weighing@0.1.0#weigh")
    (param i32 i32 i32) (param $layer i32) (param $relation i32) (param $hop i32)
    (param $nodes i32) (param $nodes_len i32) (param $times i32) (param $times_len i32)
    (param i32 i32) (param i32 i32) (param $edges i32) (param $edges_len i32) (result i32)
    (if (i32.eq (local.get $layer) (i32.const 9)) (then
      (call $sample (local.get $relation) (local.get $hop) (local.get $nodes) (local.get $nodes_len)
        (local.get $times) (local.get $times_len) (i32.const 1) (i32.const 0) (i32.const 2048)))
    (else
      (call $edge_column (local.get $relation) (i32.const 544) (i32.const 6)
        (local.get $edges) (local.get $edges_len) (i32.const 2048))))
    (i32.const 2048))
  (func (export "cabi_post_sagehost:plugin/weighing@0.1.0#weigh") (param i32) (call $reset))
"#,
    )
}

const REDUCER: &str = r#"
  (func (export "sagehost:plugin/reducing@0.1.0#reduce")
    (param i32 i32 i32) (param $layer i32) (param $dim i32) (param $offsets i32) (param $offsets_len i32)
    (param $rows i32) (param $rows_len i32) (result i32)
    (i32.store (i32.const 1024) (i32.const 0))
    (i32.store (i32.const 1028) (local.get $rows))
    (i32.store (i32.const 1032)
      (i32.mul (i32.sub (local.get $offsets_len) (i32.const 1)) (i32.add (local.get $dim) (local.get $layer))))
    (i32.const 1024))
  (func (export "cabi_post_sagehost:plugin/reducing@0.1.0#reduce") (param i32) (call $reset))
"#;

/// Answers with the first rows; in layers above 0 with too many numbers.
pub(crate) fn reducer() -> Vec<u8> {
    role("reducer", "", REDUCER)
}

/// A reducer that wants to read the graph, which its world does not offer.
pub(crate) fn reducer_with_graph() -> Vec<u8> {
    let import = r#"(import "sagehost:plugin/graph@0.1.0" "edge-times" (func (param i32 i32 i32 i32)))"#;
    let world = "package test:greedy; world greedy { include sagehost:plugin/reducer@0.1.0; \
                 import sagehost:plugin/graph@0.1.0; }";
    encode(&format!("(module {import} {PRELUDE} {REDUCER})"), "greedy", str::to_owned, world)
}

/// A pre-processor that wants files.
pub(crate) fn pre_processor_with_files() -> Vec<u8> {
    let import = r#"(import "test:files/files" "open" (func (param i32) (result i32)))"#;
    let world = "package test:files; interface files { open: func(handle: u32) -> u32; } \
                 world greedy { include sagehost:plugin/pre-processor@0.1.0; import files; }";
    encode(&format!("(module {import} {LOG} {PRELUDE} {PRE_PROCESSOR})"), "greedy", str::to_owned, world)
}

/// A pre-processor of a later version of the contract.
pub(crate) fn pre_processor_of_0_2() -> Vec<u8> {
    let later = |text: &str| text.replace("@0.1.0", "@0.2.0");
    let text = later(&format!("(module {LOG} {PRELUDE} {PRE_PROCESSOR})"));
    encode(&text, "pre-processor", later, "")
}

/// A pre-processor whose `log.write` has other types than the contract's.
pub(crate) fn pre_processor_of_other_types() -> Vec<u8> {
    let other = |text: &str| text.replace("write: func(level: level, message: string)", "write: func(level: level)");
    let import = r#"(import "sagehost:plugin/log@0.1.0" "write" (func $write (param i32)))
      (func $log (param i32 i32 i32) (call $write (local.get 0)))"#;
    encode(&format!("(module {import} {PRELUDE} {PRE_PROCESSOR})"), "pre-processor", other, "")
}

/// A pre-processor whose `prepare` answers with other numbers than the contract's.
pub(crate) fn pre_processor_of_other_answers() -> Vec<u8> {
    let other =
        |text: &str| text.replace("request: request) -> result<list<f32>", "request: request) -> result<list<u32>");
    encode(&format!("(module {LOG} {PRELUDE} {PRE_PROCESSOR})"), "pre-processor", other, "")
}

/// A component of a world that has nothing to do with sagehost.
pub(crate) fn other_world() -> Vec<u8> {
    let world = "package other:thing; world thing { export run: func(); }";
    encode(r#"(module (func (export "run")))"#, "thing", str::to_owned, world)
}

/// A module that nothing made a component of.
pub(crate) fn core_module() -> Vec<u8> {
    wat::parse_str("(module (func (export \"run\")))").unwrap()
}
