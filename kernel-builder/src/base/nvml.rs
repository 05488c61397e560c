//! What NVIDIA's driver says of the GPUs while they work: clocks, temperature, power, and why a clock is held down.
//!
//! Owns: the driver's management library (NVML), loaded when it is first asked for.
//! Never: changes a setting; judges a figure.

use std::ffi::OsStr;

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use serde::Serialize;

/// The library's name where drivers install it; the name without a number belongs to development packages.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// The names of the driver's reasons, as `nvidia-smi --query-gpu=clocks_event_reasons...` has them.
const REASONS: &[(ThrottleReasons, &str)] = &[
    (ThrottleReasons::GPU_IDLE, IDLE),
    (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "applications_clocks_setting"),
    (ThrottleReasons::SW_POWER_CAP, "sw_power_cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hw_slowdown"),
    (ThrottleReasons::SYNC_BOOST, "sync_boost"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "sw_thermal_slowdown"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hw_thermal_slowdown"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "hw_power_brake_slowdown"),
    (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display_clock_setting"),
];

/// The reason of a GPU that has nothing to do.
pub const IDLE: &str = "gpu_idle";

/// One GPU at one moment; what the driver does not tell is absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Reading {
    /// The driver's number of the GPU.
    pub index: u32,
    /// Its name, as PyTorch has it too.
    pub name: String,
    /// `GPU-` and its UUID.
    pub uuid: Option<String>,
    /// The driver's version.
    pub driver: Option<String>,
    /// Compute capability, major and minor.
    pub capability: Option<(u32, u32)>,
    /// Clock of the multiprocessors, MHz.
    pub sm_mhz: Option<f64>,
    /// The highest clock that the multiprocessors can have, MHz.
    pub sm_most_mhz: Option<f64>,
    /// Clock of the memory, MHz.
    pub memory_mhz: Option<f64>,
    /// The highest clock that the memory can have, MHz.
    pub memory_most_mhz: Option<f64>,
    /// Width of the memory's bus, bits.
    pub bus_bits: Option<f64>,
    /// Temperature of the chip, degrees Celsius.
    pub celsius: Option<f64>,
    /// Power drawn, watts.
    pub watts: Option<f64>,
    /// Power from which on the clock is held down, watts.
    pub watts_most: Option<f64>,
    /// Why the clock is not higher, in words of `REASONS`.
    pub reasons: Vec<&'static str>,
}

impl Reading {
    /// Bytes a second that the memory can move at its highest clock: every line of the bus has two transfers a cycle.
    pub fn memory_bandwidth(&self) -> Option<f64> {
        let (megahertz, bits) = (self.memory_most_mhz?, self.bus_bits?);
        let rate = 2.0 * megahertz * 1e6 * bits / 8.0;
        (rate > 0.0).then_some(rate)
    }
}

/// The loaded library.
#[derive(Debug)]
pub struct Driver(Nvml);

impl Driver {
    /// Loads the library. `None`: this machine has none, or it finds no driver.
    pub fn open() -> Option<Self> {
        Nvml::builder().lib_path(OsStr::new(LIBRARY)).init().ok().map(Self)
    }

    /// The driver's version.
    pub fn version(&self) -> Option<String> {
        self.0.sys_driver_version().ok()
    }

    /// Every GPU as it is now.
    pub fn readings(&self) -> Vec<Reading> {
        let driver = self.version();
        (0..self.0.device_count().unwrap_or(0))
            .filter_map(|index| {
                let device = self.0.device_by_index(index).ok()?;
                let capability = device.cuda_compute_capability().ok();
                let number = |found: Option<u32>| found.map(f64::from);
                Some(Reading {
                    index,
                    name: device.name().ok()?,
                    uuid: device.uuid().ok(),
                    driver: driver.clone(),
                    capability: capability
                        .and_then(|it| Some((u32::try_from(it.major).ok()?, u32::try_from(it.minor).ok()?))),
                    sm_mhz: number(device.clock_info(Clock::SM).ok()),
                    sm_most_mhz: number(device.max_clock_info(Clock::SM).ok()),
                    memory_mhz: number(device.clock_info(Clock::Memory).ok()),
                    memory_most_mhz: number(device.max_clock_info(Clock::Memory).ok()),
                    bus_bits: number(device.memory_bus_width().ok()),
                    celsius: number(device.temperature(TemperatureSensor::Gpu).ok()),
                    watts: number(device.power_usage().ok()).map(|milliwatts| milliwatts / 1000.0),
                    watts_most: number(device.enforced_power_limit().ok())
                        .map(|milliwatts| milliwatts / 1000.0),
                    reasons: device.current_throttle_reasons().map(names_of).unwrap_or_default(),
                })
            })
            .collect()
    }
}

fn names_of(reasons: ThrottleReasons) -> Vec<&'static str> {
    REASONS.iter().filter(|(reason, _)| reasons.contains(*reason)).map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_their_names() {
        let reasons = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_SLOWDOWN;
        assert_eq!(names_of(reasons), ["sw_power_cap", "hw_slowdown"]);
        assert_eq!(names_of(ThrottleReasons::NONE), [""; 0]);
        let named = REASONS.iter().fold(ThrottleReasons::NONE, |all, (reason, _)| all | *reason);
        assert_eq!(named, ThrottleReasons::all(), "every reason of the driver has a name");
    }

    #[test]
    fn the_bandwidth_of_an_h200_is_4_9_terabytes_a_second() {
        let h200 = Reading { memory_most_mhz: Some(3201.0), bus_bits: Some(6144.0), ..Reading::default() };
        assert!((h200.memory_bandwidth().unwrap() - 4.916_736e12).abs() < 1.0);
        assert_eq!(Reading { bus_bits: None, ..h200 }.memory_bandwidth(), None);
    }

    #[test]
    fn a_machine_without_the_library_works() {
        // Where there is a driver, its GPUs have names.
        if let Some(driver) = Driver::open() {
            assert!(driver.readings().iter().all(|reading| !reading.name.is_empty()));
        }
    }
}
