//! The CUDA driver, loaded at run time: one context, its errors by name.
//!
//! Owns: the context and the stream, the words for what the driver refuses.
//! Never: decides what is run.

use std::ffi::{CStr, c_char};
use std::ptr;

use cudarc::driver::sys;

use crate::base::digest::hex;
use crate::device::wire::{DeviceProperties, OperationError, Origin};

/// The device that a worker uses: the first that `CUDA_VISIBLE_DEVICES` leaves.
const ORDINAL: i32 = 0;

/// What an operation gives, or why it failed.
pub(super) type Outcome<T> = Result<T, OperationError>;

/// A request that makes no sense.
pub(super) fn senseless(text: impl Into<String>) -> OperationError {
    OperationError { from: Origin::Request, code: 0, name: String::new(), text: text.into(), fatal: false }
}

/// The driver's answer as ours.
pub(super) fn done(result: sys::CUresult) -> Outcome<()> {
    match result {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        other => Err(trouble(other)),
    }
}

fn trouble(result: sys::CUresult) -> OperationError {
    let word = |ask: unsafe fn(sys::CUresult, *mut *const c_char) -> sys::CUresult| {
        let mut text = ptr::null();
        // SAFETY: the driver writes the address of a string of its own, or leaves the null pointer.
        unsafe {
            let known = ask(result, &raw mut text) == sys::CUresult::CUDA_SUCCESS && !text.is_null();
            known.then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    };
    OperationError {
        from: Origin::Driver,
        code: result as u32,
        name: word(sys::cuGetErrorName).unwrap_or_else(|| format!("CUDA_ERROR_{}", result as u32)),
        text: word(sys::cuGetErrorString).unwrap_or_else(|| "an error without a text".to_owned()),
        fatal: false,
    }
}

/// A context on the device, current in the thread that made it, with one stream.
pub(super) struct Context {
    device: sys::CUdevice,
    /// The stream of every operation; it does not wait for the default stream.
    pub(super) stream: sys::CUstream,
}

impl Context {
    /// Loads the driver and makes the context.
    pub(super) fn new() -> Outcome<Self> {
        // SAFETY: nothing is called but the loader; the library's initialiser is NVIDIA's.
        if !unsafe { sys::is_culib_present() } {
            return Err(OperationError {
                text: "there is no NVIDIA driver here (libcuda.so.1)".to_owned(),
                ..senseless("")
            });
        }
        let (mut device, mut context, mut stream) = (0, ptr::null_mut(), ptr::null_mut());
        // SAFETY: every pointer leads to a local variable of the type that the driver's header names.
        unsafe {
            done(sys::cuInit(0))?;
            done(sys::cuDeviceGet(&raw mut device, ORDINAL))?;
            done(sys::cuDevicePrimaryCtxSetFlags_v2(device, sys::CUctx_flags::CU_CTX_SCHED_SPIN as u32))?;
            done(sys::cuDevicePrimaryCtxRetain(&raw mut context, device))?;
            done(sys::cuCtxSetCurrent(context))?;
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            done(sys::cuStreamCreate(&raw mut stream, flags))?;
        }
        Ok(Self { device, stream })
    }

    /// Waits until nothing is left to do on any stream.
    pub(super) fn synchronise(&self) -> Outcome<()> {
        // SAFETY: the context is current.
        done(unsafe { sys::cuCtxSynchronize() })
    }

    /// Whether a failure took the context with it.
    pub(super) fn is_lost(&self) -> bool {
        self.synchronise().is_err()
    }

    /// Takes back what code on the device may have left set.
    pub(super) fn settle(&self) -> Outcome<()> {
        // SAFETY: the context is current. Devices without such lines refuse, and have nothing to reset.
        let _unsupported = unsafe { sys::cuCtxResetPersistingL2Cache() };
        self.synchronise()
    }

    /// What the device is.
    pub(super) fn about(&self) -> Outcome<DeviceProperties> {
        use sys::CUdevice_attribute as Of;
        let number = |attribute: Of| {
            let mut value = 0;
            // SAFETY: the driver writes one integer.
            done(unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, self.device) })?;
            Ok::<u32, OperationError>(u32::try_from(value).unwrap_or_default())
        };
        let text = |ask: unsafe fn(*mut c_char, i32, sys::CUdevice) -> sys::CUresult| {
            let mut bytes = [0 as c_char; 256];
            // SAFETY: the driver writes at most so many bytes, the last of them zero.
            done(unsafe { ask(bytes.as_mut_ptr(), 255, self.device) })?;
            // SAFETY: the array ends with a zero that nobody overwrote.
            Ok::<String, OperationError>(
                unsafe { CStr::from_ptr(bytes.as_ptr()) }.to_string_lossy().into_owned(),
            )
        };
        unsafe fn pci(text: *mut c_char, length: i32, device: sys::CUdevice) -> sys::CUresult {
            // SAFETY: as in the caller.
            unsafe { sys::cuDeviceGetPCIBusId(text, length, device) }
        }
        let (mut free, mut memory, mut driver) = (0, 0, 0);
        // SAFETY: each pointer leads to a local variable.
        unsafe {
            done(sys::cuMemGetInfo_v2(&raw mut free, &raw mut memory))?;
            done(sys::cuDriverGetVersion(&raw mut driver))?;
        }
        Ok(DeviceProperties {
            name: text(sys::cuDeviceGetName)?,
            capability: (
                number(Of::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                number(Of::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: number(Of::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            l2: u64::from(number(Of::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
            memory: memory as u64,
            free: free as u64,
            shared: number(Of::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            threads: number(Of::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            clock_khz: number(Of::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
            driver,
            pci: text(pci)?,
            uuid: uuid(self.device)?,
            visible: visible()?,
        })
    }
}

/// The UUIDs of all devices that this process sees.
fn visible() -> Outcome<Vec<String>> {
    let mut count = 0;
    // SAFETY: the driver writes one integer.
    done(unsafe { sys::cuDeviceGetCount(&raw mut count) })?;
    (0..count)
        .map(|ordinal| {
            let mut device = 0;
            // SAFETY: the driver writes one handle.
            done(unsafe { sys::cuDeviceGet(&raw mut device, ordinal) })?;
            uuid(device)
        })
        .collect()
}

fn uuid(device: sys::CUdevice) -> Outcome<String> {
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: the driver writes 16 bytes.
    done(unsafe { sys::cuDeviceGetUuid_v2(&raw mut uuid, device) })?;
    Ok(named(&uuid.bytes.map(|byte| byte as u8)))
}

/// A UUID as `CUDA_VISIBLE_DEVICES` takes it.
fn named(uuid: &[u8; 16]) -> String {
    let digits = hex(uuid);
    let [first, second, third, fourth] = [0..8, 8..12, 12..16, 16..20].map(|part| &digits[part]);
    format!("GPU-{first}-{second}-{third}-{fourth}-{}", &digits[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_the_form_of_nvidia_smi() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255];
        assert_eq!(named(&bytes), "GPU-01020304-0506-0708-090a-0b0c0d0e0fff");
    }
}
