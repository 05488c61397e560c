//! Settings of the tunables, as devices have them.
//!
//! Owns: for which calls a setting is. Never: chooses one.

use std::collections::BTreeMap;

use crate::spec::OpSpec;
use crate::spec::tune::Tuning;
use crate::units::{Dtype, PythonName};

/// Settings of the tunables for calls on one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSettings {
    /// The device's name, for the comment.
    pub device: String,
    /// Its compute capability times ten: 90.
    pub capability: u32,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// What was measured, in the order in which it is asked.
    pub ranges: Vec<RangeSettings>,
}

/// The setting for a range of lengths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeSettings {
    /// What the type variables stand for.
    pub dtypes: BTreeMap<PythonName, Dtype>,
    /// The least and the greatest length of axes; one that is not named may have any.
    pub axes: BTreeMap<PythonName, [u64; 2]>,
    /// The lengths of these axes must be multiples of these numbers.
    pub multiples: BTreeMap<PythonName, u64>,
    /// A value for every tunable.
    pub tuning: Tuning,
}

/// Adds the defaults of compute capabilities to the measured settings. A measured setting comes first.
pub(super) fn with_defaults(op: &OpSpec, measured: &[DeviceSettings]) -> Vec<DeviceSettings> {
    let mut devices = measured.to_vec();
    for capability in op.tune.capabilities() {
        let rest = RangeSettings {
            dtypes: BTreeMap::new(),
            axes: BTreeMap::new(),
            multiples: BTreeMap::new(),
            tuning: op.tune.default_tuning_for(capability),
        };
        let known = devices.iter_mut().filter(|device| device.capability == capability);
        known.for_each(|device| device.ranges.push(rest.clone()));
        if devices.iter().all(|device| device.capability != capability) {
            devices.push(DeviceSettings {
                device: format!("GPUs of compute capability {}.{}", capability / 10, capability % 10),
                capability,
                multiprocessors: 0,
                ranges: vec![rest],
            });
        }
    }
    devices
}
