// SPDX-License-Identifier: BSD-2-Clause
//! `storage.list`: varnishd's line for each store, and what is to be known of one on a disk.

use cli::CliRequest;
use tables::Compat;
use tables::json::quote;
use tables::stores::DiskOptions;

use crate::manager::Manager;
use crate::reply::CliReply;
use crate::stores::StoreArg;

impl Manager {
    pub(crate) fn storage_list(&self, request: &CliRequest) -> CliReply {
        let rows = self.storage.stores.iter().map(|store| {
            let disk = self.storage.files.iter().find(|file| file.store == store.name).map(|file| file.options(store));
            (store, disk)
        });
        let kind = |store: &StoreArg| match self.params.compat() {
            Compat::V7_1 => store.kind.as_str().to_owned(),
            Compat::V9 => store.kind_text.clone(),
        };
        if request.wants_json() {
            let objects: Vec<String> =
                rows.map(|(store, disk)| store_object(store, &kind(store), disk.as_ref())).collect();
            return self.json(request, &format!(",\n{}", objects.join(",\n")));
        }
        let rows: String = rows.map(|(store, disk)| store_row(store, &kind(store), disk.as_ref())).collect();
        CliReply::ok(format!("Storage devices:\n{rows}"))
    }
}

/// A store for people: varnishd's line, and another of what is on a disk.
fn store_row(store: &StoreArg, kind: &str, disk: Option<&DiskOptions>) -> String {
    let row = format!("\tstorage.{} = {kind}\n", store.name);
    let Some(disk) = disk else { return row };
    let path = store.path.as_deref().map_or(String::new(), |path| path.display().to_string());
    let sizes = [("front", disk.front_bytes), ("index", disk.index_bytes)];
    let sizes: String = sizes.iter().filter_map(|(name, bytes)| Some(format!(" {name}={}", (*bytes)?))).collect();
    let keep = if disk.keep { " keep" } else { "" };
    let (direct, checks) = (disk.direct.as_str(), disk.checks.as_str());
    format!("{row}\t\t{path}{sizes} direct={direct} checks={checks}{keep}\n")
}

fn store_object(store: &StoreArg, kind: &str, disk: Option<&DiskOptions>) -> String {
    let mut members = vec![("name", quote(&store.name)), ("storage", quote(kind))];
    if let Some(disk) = disk {
        let number = |bytes: Option<u64>| bytes.map_or("null".to_owned(), |bytes| bytes.to_string());
        let path = store.path.as_deref().map_or(String::new(), |path| path.display().to_string());
        members.extend([
            ("path", quote(&path)),
            ("front", number(disk.front_bytes)),
            ("index", number(disk.index_bytes)),
            ("direct", quote(disk.direct.as_str())),
            ("checks", quote(disk.checks.as_str())),
            ("keep", disk.keep.to_string()),
        ]);
    }
    let members: Vec<String> = members.iter().map(|(name, value)| format!("  {}: {value}", quote(name))).collect();
    format!("{{\n{}\n}}", members.join(",\n"))
}
