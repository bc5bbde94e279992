//! Versions of the WIT contract, one module each. A later version gets a module beside `v0_1`; this file then chooses by
//! the version that [`crate::inspect`] found.

pub(crate) mod v0_1;
