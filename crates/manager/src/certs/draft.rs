// SPDX-License-Identifier: BSD-2-Clause
//! What a bundle is made of, as it is at one moment. With many certificates making one takes seconds: a draft can be taken to another
//! thread, and what it is made of stays as it is there, whatever becomes of it here.

use std::sync::Arc;

use tls::bundle::{BundleBuilder, CertificateScope, List, Material};

use super::files::Fresh;
use super::{BundleCandidate, CertificateStanding, Certs, Current, Row};
use crate::fatal::errno_text;

#[derive(Debug)]
pub struct CertsDraft {
    scopes: Vec<CertificateScope>,
    lists: Vec<List>,
    rows: Arc<Vec<Row>>,
    current: Option<Arc<Current>>,
}

impl CertsDraft {
    pub fn of(certs: &Certs) -> CertsDraft {
        CertsDraft {
            scopes: certs.scopes.clone(),
            lists: certs.lists.iter().map(|listed| listed.list.clone()).collect(),
            rows: certs.rows.clone(),
            current: certs.current.clone(),
        }
    }

    pub fn is_of(&self, certs: &Certs) -> bool {
        // Who changes rows that somebody else has, too, gets others.
        Arc::ptr_eq(&self.rows, &certs.rows)
    }

    pub fn another(&self) -> CertsDraft {
        let CertsDraft { scopes, lists, rows, current } = self;
        CertsDraft { scopes: scopes.clone(), lists: lists.clone(), rows: rows.clone(), current: current.clone() }
    }

    /// A bundle of what there will be after a commit.
    ///
    /// # Errors
    /// In words.
    pub fn with_staged(&self) -> Result<BundleCandidate, String> {
        self.candidate(|row| row.standing != CertificateStanding::Discarded)
    }

    /// A bundle of what there is, with what was read again; what is staged stays so.
    ///
    /// # Errors
    /// In words.
    pub fn without_staged(&self) -> Result<BundleCandidate, String> {
        self.candidate(|row| {
            row.standing == CertificateStanding::Active
                || row.standing == CertificateStanding::Discarded && row.place.is_some()
        })
    }

    fn candidate(&self, is_in: impl Fn(&Row) -> bool) -> Result<BundleCandidate, String> {
        let mut builder = BundleBuilder::new(self.scopes.clone(), self.lists.iter().collect());
        let (mut places, mut next) = (Vec::with_capacity(self.rows.len()), 0);
        for row in self.rows.iter() {
            if !is_in(row) {
                places.push(None);
                continue;
            }
            let material = self.material(row).ok_or_else(|| format!("{}: its key is lost", row.entry.id))?;
            builder.add(&row.entry, material);
            places.push(Some(next));
            next += 1;
        }
        let file = sys::secret::seal("lacquer-certificates", &builder.build());
        let file = file.map_err(|e| format!("no memory for certificates: {}", errno_text(&e)))?;
        let current = Current::open(file)?;
        tls::keyring::check(&current.bundle)?;
        Ok(BundleCandidate { current, places })
    }

    fn material<'a>(&'a self, row: &'a Row) -> Option<Material<'a>> {
        if let Some(Fresh { pair, staple }) = &row.fresh {
            let chain = pair.chain.iter().map(Vec::as_slice).collect();
            return Some(Material { form: pair.form, key: &pair.key, chain, ocsp: &staple.answer });
        }
        let keyed = self.current.as_ref()?.bundle.keyed(row.place?)?;
        Some(Material { form: keyed.form, key: keyed.key, chain: keyed.chain, ocsp: keyed.ocsp })
    }
}
