// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer plan`: what a queueing model says of workers, waiting places and memory, from service times that were measured.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod answers;
mod counters;
mod hitrate;
mod measured;
mod options;
mod queue;
mod report;

use accesslog::Gathering;
use toolkit::print;

use answers::PlanAnswers;
use hitrate::HitRateCurve;
use measured::Measured;
pub use options::TOOL;
use options::{PlanFormat, PlanOptions, PlanSource};

/// Runs it: `args` are the words after `lacquer plan`; the exit status. 1: the load is more than can be served; 2: nothing can be said.
///
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> i32 {
    TOOL.main(args, options::parse, |options| run(&options))
}

fn run(options: &PlanOptions) -> Result<i32, String> {
    let curve = options.simulated.as_deref().map(HitRateCurve::read).transpose()?;
    let measured = measured(options)?;
    let answers = PlanAnswers::new(options, &measured, curve.as_ref())?;
    let mut remarks = measured.remarks;
    remarks.extend(curve.and_then(|curve| curve.remark()));
    match options.format {
        PlanFormat::Text => print::foreign(report::text(options, &answers)),
        PlanFormat::Json => print::out(format_args!("{:#}\n", report::json(options, &answers, &remarks))),
    }
    if options.format == PlanFormat::Text {
        remarks.iter().for_each(|remark| TOOL.remark(remark));
    }
    Ok(i32::from(!answers.holds()))
}

fn measured(options: &PlanOptions) -> Result<Measured, String> {
    match &options.source {
        PlanSource::Told(classes) => {
            let all = classes.iter().map(|class| class.rate).sum();
            Ok(Measured { classes: classes.clone(), requests: options.requests.unwrap_or(all), remarks: Vec::new() })
        }
        PlanSource::Log(gathering) => {
            measured::classes(Gathering::clone(gathering), options.of, options.split, options.in_class.as_deref())
        }
        PlanSource::Counters { workdir, duration } => counters::classes(workdir, *duration),
    }
}
