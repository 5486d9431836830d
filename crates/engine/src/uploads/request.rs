// SPDX-License-Identifier: BSD-2-Clause
//! A request that begins, continues or ends an upload, and what the responses to it say about that upload.

use message::{Head, names, rfc9111};

use super::table::{ClientNetwork, UploadKey};

pub(super) const UPLOAD_OFFSET: &str = "Upload-Offset";
const UPLOAD_COMPLETE: &str = "Upload-Complete";

pub(crate) struct UploadRequest {
    host: Box<[u8]>,
    url: Box<[u8]>,
    method: UploadMethod,
    is_complete: Option<bool>,
    /// Name of the director that VCL has chosen for it.
    pub(super) director: Box<str>,
    pub(super) client: ClientNetwork,
    has_104: bool,
    pub(super) current: Option<CurrentUpload>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UploadMethod {
    Head,
    Delete,
    /// Any other, which may have a body.
    Sends,
}

/// The upload that a response has named, or that the request is for, and the name of its backend.
pub(super) struct CurrentUpload {
    pub key: UploadKey,
    pub holder: Box<str>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum UploadNews {
    /// The upload goes on at this URL.
    Named(Vec<u8>),
    GoesOn,
    Finished,
    Gone,
}

impl UploadRequest {
    pub(super) fn new(
        head: &Head,
        director: &str,
        client: ClientNetwork,
        current: Option<CurrentUpload>,
    ) -> UploadRequest {
        UploadRequest {
            host: head.get(names::HOST).unwrap_or_default().into(),
            url: head.url().into(),
            method: match head.method() {
                b"HEAD" => UploadMethod::Head,
                b"DELETE" => UploadMethod::Delete,
                _ => UploadMethod::Sends,
            },
            is_complete: is_complete(head),
            director: director.into(),
            client,
            has_104: false,
            current,
        }
    }

    pub(super) fn host(&self) -> &[u8] {
        &self.host
    }

    /// True if responses to a request with this head may name an upload.
    pub(super) fn may_begin(head: &Head) -> bool {
        !matches!(head.method(), b"GET" | b"HEAD") && head.has(UPLOAD_COMPLETE)
    }

    pub(super) fn hear(&mut self, response: &Head) -> Option<UploadNews> {
        let said = is_complete(response);
        match (response.status(), self.method) {
            (104, _) => {
                self.has_104 = true;
                Some(self.location(response).map_or(UploadNews::GoesOn, UploadNews::Named))
            }
            (404 | 410, _) | (200..=299, UploadMethod::Delete) => Some(UploadNews::Gone),
            // An ordinary resource, whatever it was before.
            (200..=399, UploadMethod::Head) if !response.has(UPLOAD_OFFSET) => Some(UploadNews::Gone),
            (200..=299, UploadMethod::Head) => said.map(UploadNews::of_flag),
            (200..=299, UploadMethod::Sends) => match said.or(self.is_complete)? {
                false if self.current.is_none() => self.named_at_last(response),
                is_complete => Some(UploadNews::of_flag(is_complete)),
            },
            _ => None,
        }
    }

    /// Origins that know no uploads answer with 201 and Location as well: a response must show that its origin knows them.
    fn named_at_last(&self, response: &Head) -> Option<UploadNews> {
        let is_of_upload = |name: &[u8]| name.get(..7).is_some_and(|first| first.eq_ignore_ascii_case(b"upload-"));
        let knows_uploads = self.has_104 || response.iter().any(|field| is_of_upload(field.name()));
        self.location(response).filter(|_| knows_uploads).map(UploadNews::Named)
    }

    fn location(&self, response: &Head) -> Option<Vec<u8>> {
        rfc9111::location(response, &self.host, &self.url)
    }
}

impl UploadNews {
    fn of_flag(is_complete: bool) -> Self {
        if is_complete { UploadNews::Finished } else { UploadNews::GoesOn }
    }
}

fn is_complete(head: &Head) -> Option<bool> {
    match head.get(UPLOAD_COMPLETE)? {
        b"?1" => Some(true),
        b"?0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "Location: /upload/1";
    const OFFSET: &str = "Upload-Offset: 10";

    fn request(method: &str, fields: &[&str], is_current: bool) -> UploadRequest {
        let mut head = Head::new();
        head.start_request(method.as_bytes(), b"/files?x", b"HTTP/1.1").unwrap();
        ["Host: a.example"].iter().chain(fields).for_each(|line| head.append_line(line.as_bytes()).unwrap());
        let current = is_current.then(|| CurrentUpload { key: 1, holder: "s1".into() });
        UploadRequest::new(&head, "d", None, current)
    }

    fn hear(request: &mut UploadRequest, (status, fields): (u16, &[&str])) -> String {
        let mut head = Head::new();
        head.start_response(b"HTTP/1.1", status).unwrap();
        fields.iter().for_each(|line| head.append_line(line.as_bytes()).unwrap());
        match request.hear(&head) {
            Some(UploadNews::Named(url)) => String::from_utf8(url).unwrap(),
            Some(news) => format!("{news:?}"),
            None => "-".to_owned(),
        }
    }

    #[track_caller]
    fn check(mut request: UploadRequest, response: (u16, &[&str]), expected: &str) {
        assert_eq!(hear(&mut request, response), expected, "{response:?}");
    }

    #[test]
    fn responses_name_uploads() {
        let whole = || request("POST", &["Upload-Complete: ?1"], false);
        let part = || request("POST", &["Upload-Complete: ?0"], false);
        check(whole(), (104, &[HERE]), "/upload/1");
        check(whole(), (104, &["Location: https://A.EXAMPLE/u/../upload/1"]), "/upload/1");
        check(whole(), (104, &["Location: upload"]), "/upload");
        check(whole(), (104, &["Location: https://b.example/upload/1"]), "GoesOn");
        check(whole(), (104, &[OFFSET]), "GoesOn");
        check(part(), (201, &[HERE, "Upload-Complete: ?0"]), "/upload/1");
        check(part(), (201, &[HERE, "upload-limit: max-size=10"]), "/upload/1");
        check(part(), (200, &[HERE, "Upload-Complete: ?1"]), "Finished");
        // This is what was made of the whole upload.
        check(whole(), (201, &[HERE, OFFSET]), "Finished");
        check(part(), (307, &[HERE, OFFSET]), "-");
    }

    #[test]
    fn a_url_of_an_origin_that_knows_no_uploads_is_none() {
        let mut part = request("POST", &["Upload-Complete: ?0"], false);
        assert_eq!(hear(&mut part, (201, &[HERE, "Uploaded: yes"])), "-");
        assert_eq!(hear(&mut part, (104, &[])), "GoesOn");
        assert_eq!(hear(&mut part, (201, &[HERE])), "/upload/1", "a 104 shows it, too");
    }

    #[test]
    fn only_the_holder_says_how_an_upload_goes_on() {
        let head = || request("HEAD", &[], true);
        check(head(), (204, &[OFFSET, "Upload-Complete: ?0"]), "GoesOn");
        check(head(), (204, &[OFFSET, "Upload-Complete: ?1"]), "Finished");
        check(head(), (204, &[OFFSET]), "-");
        check(head(), (200, &["Upload-Complete: ?0"]), "Gone");
        check(head(), (304, &[]), "Gone");
        check(head(), (404, &[]), "Gone");
        check(head(), (410, &[OFFSET]), "Gone");
        check(head(), (403, &[]), "-");
        check(head(), (503, &[]), "-");
        let patch = |complete: &str| request("PATCH", &[OFFSET, complete], true);
        check(patch("Upload-Complete: ?0"), (204, &[HERE]), "GoesOn");
        check(patch("Upload-Complete: ?0"), (204, &["Upload-Complete: ?1"]), "Finished");
        check(patch("Upload-Complete: ?1"), (200, &[]), "Finished");
        check(patch("Upload-Complete: ?1"), (200, &["Upload-Complete: ?0"]), "GoesOn");
        check(patch("Upload-Complete: ?1"), (409, &[OFFSET]), "-");
        check(patch("X: y"), (200, &[]), "-");
        check(request("DELETE", &[], true), (204, &[]), "Gone");
        check(request("DELETE", &[], true), (500, &[]), "-");
    }
}
