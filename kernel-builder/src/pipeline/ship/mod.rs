//! From verified builds to what users load.

pub(crate) mod against;
pub(crate) mod destination;
pub(crate) mod layout;
pub(crate) mod load;
pub(crate) mod package;
pub(crate) mod prove;
pub(crate) mod rebuild;
