//! Rollouts on a real file system and against a real etcd, to the simplest target that fulfils the contract.

mod etcd;
mod etcd_server;
mod folder;
mod toy;
