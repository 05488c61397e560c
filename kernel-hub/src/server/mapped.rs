//! Files that go from the page cache to a socket without passing through this process (sendfile).
//!
//! Owns: hyper gets bytes of a mapping, which nobody touches; the socket knows where they come from and asks the system
//! to send them. Whoever does touch them, such as TLS, finds the file's content there: slower, and right.
//! Never: maps a file that changes: blobs are written once, under another name.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Bytes;
use rustix::fs::sendfile;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Where mappings begin in a file: a multiple of every page size in use.
const ALIGNMENT: u64 = 64 * 1024;

/// The mappings of one connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Mappings(Arc<Mutex<Vec<Region>>>);

/// Addresses, and what lies there.
#[derive(Debug, Clone)]
struct Region {
    start: usize,
    length: usize,
    file: Arc<File>,
    /// Of the first address, in the file.
    offset: u64,
}

/// A part of a file as addresses of this process, as long as the value is there.
#[derive(Debug)]
pub(super) struct Mapping {
    region: Region,
    home: Mappings,
}

impl Mappings {
    /// Maps `length` bytes from `start`; an error means that they have to be read.
    pub(super) fn map(&self, file: Arc<File>, start: u64, length: u64) -> io::Result<Arc<Mapping>> {
        let offset = start - start % ALIGNMENT;
        let length = usize::try_from(start - offset + length).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address of the system's choice concerns no other memory. It is read-only, and
        // the file is a blob: this program never writes to one that has its name.
        let address = unsafe {
            mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE, &*file, offset)?
        };
        let region = Region { start: address.addr(), length, file, offset };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(region.clone());
        // The address is kept as a number, since a pointer would tie the value to one thread.
        let _exposed = address.expose_provenance();
        Ok(Arc::new(Mapping { region, home: self.clone() }))
    }

    /// The file and the place in it that lie at this address.
    pub(super) fn at(&self, bytes: &[u8]) -> Option<Source> {
        let address = bytes.as_ptr().addr();
        let regions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let region =
            regions.iter().find(|region| (region.start..region.start + region.length).contains(&address))?;
        let inside = address - region.start;
        let length = bytes.len().min(region.length - inside);
        Some(Source { file: region.file.clone(), offset: region.offset + inside as u64, length })
    }
}

/// What is to be sent in place of bytes of a mapping.
#[derive(Debug)]
pub(super) struct Source {
    file: Arc<File>,
    offset: u64,
    length: usize,
}

impl Source {
    /// Sends as much as the socket takes now.
    pub(super) fn send(&self, socket: impl AsFd) -> io::Result<usize> {
        let mut offset = self.offset;
        match sendfile(socket, &*self.file, Some(&mut offset), self.length)? {
            // The file has become shorter: the answer cannot be what its head says.
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            sent => Ok(sent),
        }
    }
}

impl Mapping {
    /// `length` bytes from `at`, both of the file.
    pub(super) fn bytes(self: &Arc<Self>, at: u64, length: usize) -> Option<Bytes> {
        let from = usize::try_from(at.checked_sub(self.region.offset)?).ok()?;
        let fits = from.checked_add(length).is_some_and(|end| end <= self.region.length);
        fits.then(|| Bytes::from_owner(Slice { mapping: self.clone(), from, length }))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let mut regions = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
        regions.retain(|region| region.start != self.region.start);
        let address = std::ptr::with_exposed_provenance_mut(self.region.start);
        // SAFETY: the address and the length are those of `map`; slices keep this value, so none is left.
        let _nothing_to_do = unsafe { munmap(address, self.region.length) };
    }
}

/// A part of a mapping.
struct Slice {
    mapping: Arc<Mapping>,
    from: usize,
    length: usize,
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        let start = std::ptr::with_exposed_provenance::<u8>(self.mapping.region.start + self.from);
        // SAFETY: `bytes` has seen that the range is in the mapping, which lives as long as this value; nobody writes
        // to it.
        unsafe { std::slice::from_raw_parts(start, self.length) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_sent_is_what_lies_there() {
        let content: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        let mappings = Mappings::default();
        let mapping = mappings.map(Arc::new(file), 70_000, 230_000).unwrap();
        let bytes = mapping.bytes(100_000, 5_000).unwrap();
        assert!(mapping.bytes(299_999, 2).is_none() && mapping.bytes(10, 1).is_none());
        let (socket, mut other) = UnixStream::pair().unwrap();
        assert_eq!(mappings.at(&bytes).unwrap().send(&socket).unwrap(), 5_000);
        let mut sent = vec![0; 5_000];
        other.read_exact(&mut sent).unwrap();
        assert!(sent == content[100_000..105_000] && sent == bytes[..]);
        // Bytes of elsewhere are nobody's, and a mapping goes with its last bytes.
        assert!(mappings.at(&sent).is_none());
        drop(mapping);
        assert!(mappings.at(&bytes[7..]).is_some());
        drop(bytes);
        assert!(mappings.0.lock().unwrap().is_empty());
    }
}
