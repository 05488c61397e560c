//! TLS by rustls: a certificate chain and its key, from PEM files.
//!
//! Owns: reading both. Never: makes a certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is not what it should be.
    #[error("failed to read `{}` as PEM", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        #[source]
        cause: rustls::pki_types::pem::Error,
    },
    /// Certificate and key do not belong together.
    #[error("failed to use the certificate with its key")]
    Pair(#[from] rustls::Error),
}

/// What makes TLS of a connection.
pub fn acceptor(certificates: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let bad = |path: &Path| {
        let path = path.to_owned();
        move |cause: rustls::pki_types::pem::Error| TlsError::File { path, cause }
    };
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(certificates).map_err(bad(certificates))?.collect();
    let chain = chain.map_err(bad(certificates))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(bad(key))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
