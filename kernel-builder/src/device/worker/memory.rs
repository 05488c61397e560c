//! The buffers of a worker.
//!
//! Owns: which number is which address, and that no operation leaves its buffer. Never: looks at what a buffer holds.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use cudarc::driver::sys;

use super::driver::{Context, Outcome, done, senseless};
use crate::base::causes::chain;
use crate::base::digest::hex;
use crate::base::files::{self, FileError};
use crate::device::wire::{OperationError, Origin, Place, unhex};

/// Files and memory are copied in pieces of so many bytes.
const PIECE: usize = 32 << 20;

/// One buffer.
#[derive(Debug, Clone, Copy)]
struct Buffer {
    address: sys::CUdeviceptr,
    bytes: u64,
    owner: Owner,
}

/// Who gives the memory of a buffer back.
#[derive(Debug, Clone, Copy)]
enum Owner {
    /// This process, when the buffer is freed.
    Allocation,
    /// Another process.
    OtherProcess,
    /// The driver, with the machine code that it belongs to.
    Module,
}

/// All buffers by their numbers.
#[derive(Debug, Default)]
pub(super) struct Memory {
    buffers: BTreeMap<u32, Buffer>,
}

impl Memory {
    pub(super) fn allocate(&mut self, number: u32, bytes: u64) -> Outcome<()> {
        self.unused(number)?;
        let mut address = 0;
        // An empty tensor has an address, too.
        // SAFETY: the driver writes one address.
        done(unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes.max(1) as usize) })?;
        self.buffers.insert(number, Buffer { address, bytes, owner: Owner::Allocation });
        Ok(())
    }

    pub(super) fn free(&mut self, number: u32) -> Outcome<()> {
        let buffer = self.buffers.remove(&number).ok_or_else(|| unknown(number))?;
        // SAFETY: the address is one that the driver gave, and it is forgotten here.
        done(unsafe {
            match buffer.owner {
                Owner::Allocation => sys::cuMemFree_v2(buffer.address),
                Owner::OtherProcess => sys::cuIpcCloseMemHandle(buffer.address),
                Owner::Module => return Ok(()),
            }
        })
    }

    /// Names memory that belongs to machine code.
    pub(super) fn adopt(&mut self, number: u32, address: sys::CUdeviceptr, bytes: u64) -> Outcome<()> {
        self.unused(number)?;
        self.buffers.insert(number, Buffer { address, bytes, owner: Owner::Module });
        Ok(())
    }

    pub(super) fn export(&self, number: u32) -> Outcome<String> {
        let buffer = self.buffers.get(&number).ok_or_else(|| unknown(number))?;
        let mut handle = sys::CUipcMemHandle_st { reserved: [0; 64] };
        // SAFETY: the driver writes one handle.
        done(unsafe { sys::cuIpcGetMemHandle(&raw mut handle, buffer.address) })?;
        Ok(hex(&handle.reserved.map(|byte| byte as u8)))
    }

    pub(super) fn import(&mut self, number: u32, handle: &str, bytes: u64) -> Outcome<()> {
        self.unused(number)?;
        let handle: Option<[u8; 64]> = unhex(handle).and_then(|bytes| bytes.try_into().ok());
        let reserved = handle.ok_or_else(|| senseless("a handle has 64 bytes"))?.map(|byte| byte as _);
        let mut address = 0;
        let flags = sys::CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        // SAFETY: the driver writes one address.
        done(unsafe {
            sys::cuIpcOpenMemHandle_v2(&raw mut address, sys::CUipcMemHandle_st { reserved }, flags)
        })?;
        self.buffers.insert(number, Buffer { address, bytes, owner: Owner::OtherProcess });
        Ok(())
    }

    /// The address of a range, all of which lies in its buffer.
    pub(super) fn range(&self, at: Place, bytes: u64) -> Outcome<sys::CUdeviceptr> {
        let buffer = self.buffers.get(&at.buffer).ok_or_else(|| unknown(at.buffer))?;
        match at.offset.checked_add(bytes) {
            Some(end) if end <= buffer.bytes => Ok(buffer.address + at.offset),
            _ => Err(senseless(format!(
                "{bytes} bytes at {} do not lie in buffer {} of {} bytes",
                at.offset, at.buffer, buffer.bytes
            ))),
        }
    }

    pub(super) fn fill(&self, context: &Context, at: Place, bytes: u64, byte: u8) -> Outcome<()> {
        let address = self.range(at, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the range was checked.
        done(unsafe { sys::cuMemsetD8Async(address, byte, bytes as usize, context.stream) })
    }

    pub(super) fn copy(&self, context: &Context, to: Place, from: Place, bytes: u64) -> Outcome<()> {
        let (to, from) = (self.range(to, bytes)?, self.range(from, bytes)?);
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both ranges were checked.
        done(unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes as usize, context.stream) })
    }

    pub(super) fn peek(&self, context: &Context, at: Place, bytes: u64) -> Outcome<String> {
        let mut taken = vec![0; bytes as usize];
        self.read(context, at, &mut taken)?;
        Ok(hex(&taken))
    }

    pub(super) fn upload(
        &self,
        context: &Context,
        at: Place,
        bytes: u64,
        file: &Path,
        from: u64,
    ) -> Outcome<()> {
        self.range(at, bytes)?;
        let mut source = files::open(file).map_err(OperationError::from)?;
        let failed = |cause| OperationError::from(FileError { action: "read", path: file.to_owned(), cause });
        source.seek(SeekFrom::Start(from)).map_err(failed)?;
        let (mut place, mut left) = (at, bytes as usize);
        let mut piece = vec![0; left.min(PIECE)];
        while left > 0 {
            piece.truncate(left);
            source.read_exact(&mut piece).map_err(failed)?;
            self.write(context, place, &piece)?;
            place = place.plus(piece.len() as u64);
            left -= piece.len();
        }
        Ok(())
    }

    pub(super) fn dump(&self, context: &Context, file: &Path, ranges: &[(Place, u64)]) -> Outcome<()> {
        files::write_with(file, |target| {
            for (place, bytes) in ranges {
                let (mut place, mut left) = (*place, *bytes as usize);
                let mut piece = vec![0; left.min(PIECE)];
                while left > 0 {
                    piece.truncate(left);
                    self.read(context, place, &mut piece)?;
                    let written = target.write_all(&piece);
                    written.map_err(|cause| FileError { action: "write", path: file.to_owned(), cause })?;
                    place = place.plus(piece.len() as u64);
                    left -= piece.len();
                }
            }
            Ok(())
        })
    }

    fn write(&self, context: &Context, at: Place, bytes: &[u8]) -> Outcome<()> {
        let address = self.range(at, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the range was checked; the source outlives the copy, which is waited for.
        done(unsafe {
            sys::cuMemcpyHtoDAsync_v2(address, bytes.as_ptr().cast(), bytes.len(), context.stream)
        })?;
        context.synchronise()
    }

    fn read(&self, context: &Context, at: Place, bytes: &mut [u8]) -> Outcome<()> {
        let address = self.range(at, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the range was checked; the target outlives the copy, which is waited for.
        done(unsafe {
            sys::cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), address, bytes.len(), context.stream)
        })?;
        context.synchronise()
    }

    fn unused(&self, number: u32) -> Outcome<()> {
        match self.buffers.contains_key(&number) {
            true => Err(senseless(format!("buffer {number} already exists"))),
            false => Ok(()),
        }
    }
}

impl From<FileError> for OperationError {
    fn from(error: FileError) -> Self {
        Self { from: Origin::Files, text: chain(&error), ..senseless("") }
    }
}

fn unknown(number: u32) -> OperationError {
    senseless(format!("buffer {number} not found"))
}
