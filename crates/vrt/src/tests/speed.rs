// SPDX-License-Identifier: BSD-2-Clause
//! How long a `vcl_recv` takes: `VCL_SPEED_FILES="a.vcl b.vcl" VCL_SPEED_TRACE=trace.tsv cargo test --release -p vrt
//! speed -- --ignored --nocapture`. A line of the trace is URL, host and User-Agent, separated by tabs.

use std::time::Duration;

use tables::vclsubs::Method;

use super::world::VrtWorld;

const ROUNDS: usize = 15;

#[test]
#[ignore = "a measurement, not a test: needs files and a release build"]
fn speed_of_vcl_recv() {
    let trace = std::fs::read_to_string(std::env::var("VCL_SPEED_TRACE").expect("VCL_SPEED_TRACE")).expect("a trace");
    let requests: Vec<Vec<&str>> = trace.lines().map(|line| line.split('\t').collect()).collect();
    for file in std::env::var("VCL_SPEED_FILES").expect("VCL_SPEED_FILES").split_whitespace() {
        let text = std::fs::read_to_string(file).expect("a VCL");
        let best = [false, true].map(|optimise| {
            let mut world = VrtWorld::with(&text, optimise).expect("it compiles");
            // The shortest time of each request: what else the machine does falls on some rounds only.
            let mut best = vec![Duration::MAX; requests.len()];
            for _ in 0..ROUNDS {
                one_round(&mut world, &requests, &mut best);
            }
            best.iter().sum::<Duration>()
        });
        let each = |time: Duration| time.as_nanos() as u64 / requests.len() as u64;
        println!("{file}: plain {} ns, optimised {} ns a vcl_recv", each(best[0]), each(best[1]));
    }
}

/// Each request once; `best` gets the time of its `vcl_recv` alone, when that is shorter than before.
fn one_round(world: &mut VrtWorld, requests: &[Vec<&str>], best: &mut [Duration]) {
    for (request, best) in requests.iter().zip(best) {
        world.ctx.req.start_request(b"GET", request[0].as_bytes(), b"HTTP/1.1").unwrap();
        world.ctx.req.set("Host", request[1]).unwrap();
        world.ctx.req.set("User-Agent", request[2]).unwrap();
        world.ctx.req.set("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8").unwrap();
        world.ctx.req.set("Accept-Encoding", "gzip").unwrap();
        world.ctx.req.set("X-Forwarded-For", "127.0.0.1").unwrap();
        let begin = base::clock::now();
        world.finish(Method::Recv);
        *best = (*best).min(begin.elapsed());
        world.ctx.log.flush();
    }
}
