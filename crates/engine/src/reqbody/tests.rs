// SPDX-License-Identifier: BSD-2-Clause
//! Bodies that pass from one fetch to the next.

use super::*;

fn next(body: &ReqBody) -> Option<Vec<u8>> {
    match body.poll_next(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(Some(piece))) => Some(piece.to_vec()),
        Poll::Ready(Ok(None) | Err(_)) | Poll::Pending => None,
    }
}

#[test]
fn a_body_that_is_given_back_is_whole_for_the_next_fetch() {
    let body = ReqBody::new(ReqBodyState::Unread, None);
    body.lend();
    let shared = body.0.as_ref().unwrap();
    ReqBody::take(shared, Ok(Some(Buf::unaccounted(b"first".to_vec()))));
    body.give_back();
    assert!(body.is_unread() && body.waiting_bytes() == 5);
    body.lend();
    ReqBody::take(shared, Ok(Some(Buf::unaccounted(b" last".to_vec()))));
    let pieces = [next(&body), next(&body), next(&body)];
    assert_eq!(pieces, [Some(b"first".to_vec()), Some(b" last".to_vec()), None]);
}

#[test]
fn a_discarded_body_keeps_nothing() {
    let body = ReqBody::new(ReqBodyState::Unread, None);
    body.lend();
    ReqBody::take(body.0.as_ref().unwrap(), Ok(Some(Buf::unaccounted(b"first".to_vec()))));
    body.give_back();
    body.discarded();
    assert_eq!((body.waiting_bytes(), next(&body)), (0, None));
}
