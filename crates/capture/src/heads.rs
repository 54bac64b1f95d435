//! The heads of HTTP messages, of which the end may be missing.

/// The longest target that is kept, in bytes.
const MOST_TARGET: usize = 2_048;
/// The methods of RFC 9110 section 9 and PATCH (RFC 5789), with the space behind.
pub(crate) const METHODS: [&[u8]; 8] =
    [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"TRACE ", b"PATCH "];

/// The head of a request.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) host: Option<String>,
    pub(crate) range: Option<String>,
    /// The length of the request's body.
    pub(crate) body: u64,
}

impl Request {
    /// Reads a head, of which the end may be missing.
    pub(crate) fn parse(head: &[u8]) -> Option<Self> {
        if !METHODS.iter().any(|method| head.starts_with(method)) {
            return None;
        }
        let text = String::from_utf8_lossy(head);
        let mut words = text.lines().next()?.split(' ');
        let method = words.next()?.to_owned();
        let target: String = words.next()?.chars().take(MOST_TARGET).collect();
        let body = field(&text, "content-length").and_then(|length| length.parse().ok());
        Some(Self {
            method,
            target,
            host: field(&text, "host"),
            range: field(&text, "range"),
            body: body.unwrap_or(0),
        })
    }
}

/// The head of a response.
#[derive(Default)]
pub(crate) struct Response {
    pub(crate) status: Option<u16>,
    pub(crate) length: Option<u64>,
    pub(crate) kind: Option<String>,
    pub(crate) is_chunked: bool,
    pub(crate) is_encoded: bool,
}

impl Response {
    /// Reads a head, of which the end may be missing.
    pub(crate) fn parse(head: &[u8]) -> Self {
        let text = String::from_utf8_lossy(head);
        let status = text
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.split(' ').nth(1))
            .and_then(|word| word.get(..3)?.parse().ok());
        Self {
            status,
            length: field(&text, "content-length").and_then(|length| length.parse().ok()),
            kind: field(&text, "content-type").map(|kind| kind.to_ascii_lowercase()),
            is_chunked: field(&text, "transfer-encoding")
                .is_some_and(|coding| coding.to_ascii_lowercase().ends_with("chunked")),
            is_encoded: field(&text, "content-encoding").is_some_and(|coding| coding != "identity"),
        }
    }
}

/// Returns the value of a field. A last line without its end may be cut, so it does not count.
fn field(head: &str, name: &str) -> Option<String> {
    let whole = &head[..head.rfind('\n')?];
    whole.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().chars().take(MOST_TARGET).collect())
    })
}
