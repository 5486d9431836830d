// SPDX-License-Identifier: BSD-2-Clause
//! What the samples show, in words.

use crate::ladder::{self, Fit, LADDERS};
use crate::shot::{LossesSeen, ProbeSample};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ProbeCause {
    /// Attempts to connect stayed without an answer.
    Syn,
    /// Parts of the request were sent again.
    Request,
    /// Parts of the answer were lost on their way.
    Answer,
    /// The kernel saw nothing of that.
    Other,
    /// The kernel doesn't tell.
    Unknown,
}

impl ProbeCause {
    pub fn of(sample: &ProbeSample) -> ProbeCause {
        match sample.losses {
            Some(LossesSeen { syns: 1.., .. }) => ProbeCause::Syn,
            Some(LossesSeen { request: 1.., .. }) => ProbeCause::Request,
            Some(LossesSeen { answer: 1.., .. }) => ProbeCause::Answer,
            Some(_) => ProbeCause::Other,
            None => ProbeCause::Unknown,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            ProbeCause::Syn => "syn_lost",
            ProbeCause::Request => "request_lost",
            ProbeCause::Answer => "answer_lost",
            ProbeCause::Other => "no_loss_seen",
            ProbeCause::Unknown => "unknown",
        }
    }

    /// The words with which a line ends.
    pub fn in_words(self) -> &'static str {
        match self {
            ProbeCause::Syn => "connecting took more than one attempt",
            ProbeCause::Request => "the request was sent again",
            ProbeCause::Answer => "parts of the answer were lost",
            ProbeCause::Other => "no packet of ours was lost",
            ProbeCause::Unknown => "nobody knows",
        }
    }
}

/// A slow answer or a failed connection, as far as the verdict needs it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slow {
    /// Seconds beyond what an answer usually takes.
    pub excess: f64,
    pub cause: ProbeCause,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ProbeVerdict {
    /// One word for programs: `none`, `loss_repaired`, `syn_loss`, `data_loss`, `loss_likely`, `slow_server`, `unreachable`.
    pub finding: &'static str,
    /// A sentence or more.
    pub words: String,
    pub fit: Option<Fit>,
}

/// Connections whose packets were sent again, slow or not, by what was lost. One may be in several of them.
#[derive(Clone, Copy, Default, Debug)]
pub struct Lossy {
    /// A SYN, or the answer to it.
    pub connecting: u64,
    pub request: u64,
    pub answer: u64,
    pub any: u64,
}

impl Lossy {
    fn places(&self) -> String {
        let places = [(self.connecting, "connecting"), (self.request, "in requests"), (self.answer, "in answers")];
        let places: Vec<&str> = places.iter().filter(|(n, _)| *n > 0).map(|(_, place)| *place).collect();
        places.join(" and ")
    }
}

/// Judges: `requests` in all, of which `failed` gave no answer; `slow_from` seconds count as slow.
pub fn judge(requests: u64, failed: u64, slow: &[Slow], lossy: Lossy, slow_from: f64) -> ProbeVerdict {
    let times: Vec<f64> = slow.iter().map(|slow| slow.excess).collect();
    let fit = ladder::fit(&times, slow_from);
    let count = |cause| slow.iter().filter(|slow| slow.cause == cause).count();
    let (syn, data) = (count(ProbeCause::Syn), count(ProbeCause::Request) + count(ProbeCause::Answer));
    let unseen = slow.len() - syn - data;
    let share = |n: usize| format!("{n} of {} slow answers", slow.len());
    let (finding, mut words) = if requests == 0 {
        ("none", "Nothing was sent.".to_owned())
    } else if failed == requests {
        ("unreachable", "No request had an answer: this is no question of single packets.".to_owned())
    } else if slow.is_empty() && lossy.any > 0 {
        let words = format!(
            "Packets are lost ({} of {requests} connections, {}); none made an answer slow yet.",
            lossy.any,
            lossy.places()
        );
        ("loss_repaired", words)
    } else if slow.is_empty() {
        ("none", "No finding: no answer was slow, and no packet was lost that the kernel knows of.".to_owned())
    } else if syn > 0 && syn >= data {
        let words = format!(
            "Packets are lost while connections are made: {} had to send their SYN again (the SYN or its answer was lost, \
             or the server's listen queue was full).",
            share(syn)
        );
        ("syn_loss", words)
    } else if data > 0 {
        let words =
            format!("Packets are lost on connections that stand: {} had data that was sent again.", share(data));
        ("data_loss", words)
    } else if let Some(fit) = &fit {
        let words = format!(
            "Packets are probably lost: {} came when lost {} is sent again, though the kernel of this side saw no loss{}.",
            share(fit.on),
            LADDERS[fit.ladder].what,
            if LADDERS[fit.ladder].what == "data" { " (a lost answer is the server's to send again)" } else { "" }
        );
        ("loss_likely", words)
    } else {
        let words = format!(
            "No packet of ours was lost in {}, and their times stand on no ladder: the server was slow.",
            share(unseen)
        );
        ("slow_server", words)
    };
    if let Some(fit) = &fit {
        let ladder = &LADDERS[fit.ladder];
        let rungs: Vec<String> = fit.rungs.iter().map(|(rung, n)| format!("{n} near {rung} s")).collect();
        words.push_str(&format!(" Times: {} ({}, {}).", rungs.join(", "), ladder.what, ladder.of));
    }
    let quick = lossy.any.saturating_sub((syn + data) as u64);
    if !slow.is_empty() && quick > 0 {
        words.push_str(&format!(
            " {quick} more of {requests} connections lost packets, and their answers weren't slow."
        ));
    }
    if failed > 0 && failed < requests {
        words.push_str(&format!(" {failed} of {requests} requests failed."));
    }
    ProbeVerdict { finding, words, fit }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(excess: f64, cause: ProbeCause) -> Slow {
        Slow { excess, cause }
    }

    #[test]
    fn what_the_kernel_saw_counts_first() {
        let none = Lossy::default();
        let syn = judge(
            100,
            0,
            &[slow(1.01, ProbeCause::Syn), slow(3.02, ProbeCause::Syn), slow(1.0, ProbeCause::Syn)],
            none,
            0.5,
        );
        assert_eq!((syn.finding, syn.fit.unwrap().ladder), ("syn_loss", 0));
        let data = judge(100, 0, &[slow(0.9, ProbeCause::Request), slow(0.6, ProbeCause::Answer)], none, 0.5);
        assert_eq!((data.finding, data.fit), ("data_loss", None));
        let server = judge(100, 0, &[slow(0.9, ProbeCause::Other), slow(0.7, ProbeCause::Other)], none, 0.5);
        assert_eq!(server.finding, "slow_server");
    }

    #[test]
    fn times_tell_where_the_kernel_does_not() {
        for (rungs, from) in [([1.0, 3.0, 7.0], 1.0), ([3.0, 9.0, 21.0], 3.0)] {
            let all: Vec<Slow> = rungs.iter().map(|&rung| slow(rung + 0.004, ProbeCause::Unknown)).collect();
            let verdict = judge(1000, 0, &all, Lossy::default(), 0.5);
            assert_eq!((verdict.finding, LADDERS[verdict.fit.unwrap().ladder].rungs[0]), ("loss_likely", from));
        }
    }

    #[test]
    fn no_finding_without_slow_answers() {
        let none = Lossy::default();
        assert_eq!(judge(1000, 0, &[], none, 0.5).finding, "none");
        assert_eq!(judge(10, 10, &[], none, 0.5).finding, "unreachable");
        assert!(judge(10, 1, &[], none, 0.5).words.contains("1 of 10"));
    }

    #[test]
    fn losses_are_told_though_no_answer_was_slow() {
        let lossy = Lossy { answer: 26, any: 26, ..Lossy::default() };
        let verdict = judge(300, 0, &[], lossy, 0.5);
        assert_eq!(verdict.finding, "loss_repaired");
        assert_eq!(
            verdict.words,
            "Packets are lost (26 of 300 connections, in answers); none made an answer slow yet."
        );
        let both = Lossy { connecting: 1, request: 2, any: 2, ..Lossy::default() };
        assert!(judge(300, 0, &[], both, 0.5).words.contains("(2 of 300 connections, connecting and in requests)"));
        let server = judge(300, 0, &[slow(0.9, ProbeCause::Other)], lossy, 0.5);
        assert_eq!(server.finding, "slow_server");
        assert!(server.words.ends_with("26 more of 300 connections lost packets, and their answers weren't slow."));
    }
}
