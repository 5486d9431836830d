// SPDX-License-Identifier: BSD-2-Clause
//! The answer to `memory.list`: who holds how much. The rows add up to the whole, as the last ones are what is left over.

use std::fmt::Write;

use base::text::decimal_bytes;
use engine::Req;
use engine::bereq::Bereq;
use engine::current::TransactionKind;
use tables::json::quote;

use super::meter::MemoryUsage;
use crate::worker::Worker;

/// Bytes that an idle connection takes with its task, as measured; one that carries a request takes more.
const CONNECTION_BYTES: u64 = 1_700;

#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    bytes: u64,
    /// Number of the things, where they are things.
    count: Option<u64>,
    text: String,
}

#[derive(Debug)]
pub struct MemoryReport {
    usage: MemoryUsage,
    limit: Option<u64>,
    step: &'static str,
    rows: Vec<Row>,
}

struct HeapShares {
    stores: u64,
    index: u64,
    connections: u64,
    transactions: u64,
}

impl MemoryReport {
    pub fn gather(worker: &Worker) -> MemoryReport {
        let engine = &worker.engine;
        let (usage, footprint) = (worker.memory.meter.read(engine.cache.stores()), engine.cache.footprint());
        let mut rows = Vec::new();
        let (mut on_heap, mut paged) = (0, 0);
        for store in engine.cache.stores().all() {
            let (kept, arena) = (store.kept_bytes(), store.arena_bytes());
            let here = store.used_bytes().saturating_sub(store.paged_bytes());
            on_heap += here;
            // An arena isn't the worker's own memory.
            paged += if arena.is_some() { 0 } else { store.paged_bytes() + kept };
            let bytes = here + arena.unwrap_or(store.paged_bytes() + kept);
            let limit =
                store.limit_bytes().map_or("no limit".to_owned(), |limit| format!("limit {}", decimal_bytes(limit)));
            let text = format!("objects, and bodies on their way; {limit}; {} of free pages", decimal_bytes(kept));
            rows.push(Row { name: format!("storage.{}", store.name()), bytes, count: None, text });
        }
        let mut disk_buffers = 0;
        for (store, usage, locked) in worker.disks.usage() {
            // The index has pages of its own; what is on its way is in memory that the kernel holds, as far as there is some.
            let on_heap = (usage.buffer_bytes + usage.read_bytes).saturating_sub(locked);
            paged += usage.index_bytes + locked;
            disk_buffers += on_heap;
            let text = format!(
                "index {}, on their way to the disk {}, read from it {}, held for that {}",
                decimal_bytes(usage.index_bytes),
                decimal_bytes(usage.buffer_bytes),
                decimal_bytes(usage.read_bytes),
                decimal_bytes(locked)
            );
            let bytes = usage.index_bytes + locked + on_heap;
            rows.push(Row { name: format!("disk.{store}"), bytes, count: Some(usage.objects), text });
        }
        let live = |kind| worker.threads.lock().iter().map(|thread| thread.work.tally(kind).0).sum::<u64>();
        let (requests, fetches) = (live(TransactionKind::Request), live(TransactionKind::Fetch));
        let connections = engine.sessions.open().max(0) as u64;
        let shares = HeapShares {
            stores: on_heap,
            index: footprint.bytes() + disk_buffers,
            connections: connections * CONNECTION_BYTES,
            transactions: requests * Req::BYTES as u64 + fetches * Bereq::BYTES as u64,
        };
        let objects = engine.main.n_objectcore.get();
        let index = format!(
            "records {}, tables {}, expiry {}, eviction {}, memory of those gone {}",
            decimal_bytes(footprint.objcores),
            decimal_bytes(footprint.tables),
            decimal_bytes(footprint.expiry),
            decimal_bytes(footprint.eviction),
            decimal_bytes(footprint.tombstones)
        );
        rows.push(Row { name: "index".to_owned(), bytes: footprint.bytes(), count: Some(objects), text: index });
        let mut row = |name: &str, bytes, count, text: &str| {
            rows.push(Row { name: name.to_owned(), bytes, count, text: text.to_owned() });
        };
        row("connections", shares.connections, Some(connections), "of clients; about, idle ones");
        let text = "requests and fetches in progress; about, without what VCL makes";
        row("transactions", shares.transactions, Some(requests + fetches), text);
        let heap = sys::memory::heap_bytes();
        let (others, slack) = left_over(&shares, heap, usage.private.saturating_sub(paged));
        row("heap", others, None, "all else: VCL, modules, backends, bans, tags, buffers that threads keep");
        row("allocator", slack, None, "not in use: between blocks, and not given back yet; stacks");
        row("log", usage.monitored, None, "shared memory: vsl_space, counters");
        row("program", usage.program, None, "pages of the program and its libraries");
        row("manager", usage.manager, None, "the other process");
        let (limit, step) = (worker.memory.limit(), worker.memory.step());
        MemoryReport { usage, limit, step, rows }
    }

    pub fn text(&self) -> String {
        let all = decimal_bytes(self.usage.bytes());
        let mut out = match self.limit {
            Some(limit) => format!("{all} of {} (memory_limit), step: {}\n", decimal_bytes(limit), self.step),
            None => format!("{all} (no memory_limit)\n"),
        };
        for row in &self.rows {
            let count = row.count.map_or(String::new(), |count| count.to_string());
            let _ = writeln!(out, "{:<20} {:>9} {count:>9}  {}", row.name, decimal_bytes(row.bytes), row.text);
        }
        out
    }

    /// The member of `memory.list -j`'s array.
    pub fn json(&self) -> String {
        let number = |value: Option<u64>| value.map_or("null".to_owned(), |value| value.to_string());
        let rows: Vec<String> = self
            .rows
            .iter()
            .map(|row| {
                let (name, text) = (quote(&row.name), quote(&row.text));
                let count = number(row.count);
                format!("    {{ \"name\": {name}, \"bytes\": {}, \"count\": {count}, \"text\": {text} }}", row.bytes)
            })
            .collect();
        format!(
            ",\n{{\n  \"used\": {},\n  \"limit\": {},\n  \"step\": {},\n  \"holders\": [\n{}\n  ]\n}}",
            self.usage.bytes(),
            number(self.limit),
            quote(self.step),
            rows.join(",\n")
        )
    }
}

/// Splits `private` bytes of memory, `heap` of which the heap's users hold: into heap memory that is nobody's share,
/// and memory that nobody holds. A build that doesn't count the heap has no second part.
fn left_over(shares: &HeapShares, heap: u64, private: u64) -> (u64, u64) {
    let HeapShares { stores, index, connections, transactions } = *shares;
    let known = stores + index + connections + transactions;
    // Memory that was never written to is held and not there.
    let held = if heap == 0 { private } else { heap.min(private) };
    (held.saturating_sub(known), private.saturating_sub(held.max(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_over_makes_the_sum_whole() {
        let shares = |stores| HeapShares { stores, index: 20, connections: 3, transactions: 2 };
        assert_eq!(left_over(&shares(100), 200, 300), (75, 100));
        assert_eq!(left_over(&shares(100), 0, 300), (175, 0), "the heap isn't counted");
        assert_eq!(left_over(&shares(400), 200, 300), (0, 0), "a guess that is too high");
        assert_eq!(left_over(&shares(100), 400, 300), (175, 0), "held and never written to");
    }

    #[test]
    fn json_and_text_say_the_same() {
        let row = Row { name: "storage.s0".to_owned(), bytes: 1000, count: Some(2), text: "a \"b\"".to_owned() };
        let usage = MemoryUsage { private: 5000, ..MemoryUsage::default() };
        let mut report = MemoryReport { usage, limit: None, step: "none", rows: vec![row] };
        assert_eq!(report.text(), "5.0 kB (no memory_limit)\nstorage.s0              1.0 kB         2  a \"b\"\n");
        report.limit = Some(6000);
        assert!(report.text().starts_with("5.0 kB of 6.0 kB (memory_limit), step: none\n"));
        let json = report.json();
        assert!(json.contains("\"used\": 5000,\n  \"limit\": 6000,"), "{json}");
        assert!(json.contains(r#"{ "name": "storage.s0", "bytes": 1000, "count": 2, "text": "a \"b\"" }"#), "{json}");
    }
}
