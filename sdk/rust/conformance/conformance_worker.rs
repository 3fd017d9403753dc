//! The conformance worker of the Rust SDK: does what docs/reference/conformance.md says.
//!
//!     cargo build --example conformance_worker
//!     millstream conform --profile conformance/profile.yaml -- target/debug/examples/conformance_worker

mod time_commands;

use millstream::{
    App, Context, EmitOptions, Gathered, HandlerError, HandlerResult, Header, Int64, Join, Lookup, Output, Range, Raw, Record,
    Rows, Store,
};
use std::time::Duration;

static STORES: [Store<Raw, Raw>; 4] = [
    Store::new("counts", Raw, Raw),
    Store::new("archive", Raw, Raw),
    Store::new("scripts", Raw, Raw),
    Store::new("nowhere", Raw, Raw),
];
static OUTPUTS: [Output<Raw, Raw>; 4] = [
    Output::new("out", Raw, Raw),
    Output::new("reads", Raw, Raw),
    Output::new("loop", Raw, Raw),
    Output::new("nowhere", Raw, Raw),
];
static PEOPLE: Join<Raw, Raw> = Join::new("people", Raw, Raw);
static RATES: Lookup<Raw, Raw> = Lookup::new("rates", Raw, Raw);
static GATHERED: Gathered<Vec<String>> = Gathered::new();

fn store(name: &str) -> Result<&'static Store<Raw, Raw>, HandlerError> {
    STORES.iter().find(|store| store.name() == name).ok_or_else(|| HandlerError::msg(format!("no store {name:?}")))
}

fn output(name: &str) -> Result<&'static Output<Raw, Raw>, HandlerError> {
    OUTPUTS.iter().find(|output| output.name() == name).ok_or_else(|| HandlerError::msg(format!("no output {name:?}")))
}

/// A word of a script: ~ is null, % alone is empty, %ff a byte.
fn word(text: &str) -> Result<Option<Vec<u8>>, HandlerError> {
    if text == "~" {
        return Ok(None);
    }
    if text == "%" {
        return Ok(Some(Vec::new()));
    }
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2).ok_or_else(|| HandlerError::msg(format!("{text:?} ends in the middle of a byte")))?;
        bytes.push(u8::from_str_radix(digits, 16)?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    Ok(Some(bytes))
}

fn show(ctx: &mut Context, key: Option<&[u8]>, value: Option<&[u8]>) -> HandlerResult {
    Ok(output("reads")?.emit(ctx, key, value)?)
}

fn get(ctx: &mut Context, own: Option<&[u8]>, from: &Store<Raw, Raw>, key: Option<&str>) -> HandlerResult {
    let other = key.map(word).transpose()?.flatten();
    let value = match &other {
        Some(key) => from.get_key(ctx, key)?,
        None => from.get(ctx)?,
    };
    let value = value.map(<[u8]>::to_vec);
    show(ctx, other.as_deref().or(own), value.as_deref())
}

fn get_many(ctx: &mut Context, from: &Store<Raw, Raw>, keys: &[&str]) -> HandlerResult {
    let keys = keys.iter().map(|key| Ok(word(key)?.unwrap_or_default())).collect::<Result<Vec<_>, HandlerError>>()?;
    let values = from.get_many(ctx, keys.iter().map(|key| &key[..]))?;
    let values: Vec<_> = values.into_iter().map(|value| value.map(<[u8]>::to_vec)).collect();
    for (key, value) in keys.iter().zip(values) {
        show(ctx, Some(key), value.as_deref())?;
    }
    Ok(())
}

fn join(ctx: &mut Context, own: Option<&[u8]>, key: Option<&str>) -> HandlerResult {
    let other = key.map(word).transpose()?.flatten();
    let value = match &other {
        Some(key) => PEOPLE.get_key(ctx, key)?,
        None => PEOPLE.get(ctx)?,
    };
    let value = value.map(<[u8]>::to_vec);
    show(ctx, other.as_deref().or(own), value.as_deref())
}

fn lookup(ctx: &mut Context, key: &str) -> HandlerResult {
    let key = word(key)?.unwrap_or_default();
    let value = RATES.get(ctx, &key)?.map(<[u8]>::to_vec);
    show(ctx, Some(&key), value.as_deref())
}

/// FROM TO LIMIT forward|reverse
fn scan<F>(ctx: &mut Context, words: &[&str], over: F) -> HandlerResult
where
    F: FnOnce(&mut Context, Range<'_, [u8]>) -> Result<Rows<'static, Raw, Raw>, millstream::Error>,
{
    let (from, to) = (word(words[0])?, word(words[1])?);
    let mut range = Range::all();
    if let Some(from) = &from {
        range = range.from(&from[..]);
    }
    if let Some(to) = &to {
        range = range.to(&to[..]);
    }
    let limit: usize = words[2].parse()?;
    if limit > 0 {
        range = range.limit(limit);
    }
    if words[3] == "reverse" {
        range = range.reverse();
    }
    let mut rows = over(ctx, range)?;
    while let Some((key, value)) = rows.next(ctx)? {
        show(ctx, Some(key), Some(value))?;
    }
    Ok(())
}

fn count(ctx: &mut Context, key: Option<&[u8]>, counts: &Store<Raw, Raw>) -> HandlerResult {
    let before: i64 = match counts.get(ctx)? {
        Some(digits) => std::str::from_utf8(digits)?.parse()?,
        None => 0,
    };
    let after = (before + 1).to_string().into_bytes();
    counts.put(ctx, &after)?;
    Ok(output("out")?.emit(ctx, key, &after[..])?)
}

fn emit(ctx: &mut Context, words: &[&str]) -> HandlerResult {
    let mut options = EmitOptions::new();
    if let Some(time) = words.get(3).filter(|text| **text != "~") {
        options = options.timestamp(time.parse()?);
    }
    if let Some(partition) = words.get(4).filter(|text| **text != "~") {
        options = options.partition(partition.parse()?);
    }
    let mut headers = Vec::new();
    for header in words.iter().skip(5) {
        let (name, value) = header.split_once('=').unwrap_or((header, "%"));
        headers.push((name, word(value)?));
    }
    let options = options.headers(headers.iter().map(|(name, value)| Header { name: name.as_bytes(), value: value.as_deref() }));
    let (key, value) = (word(words[1])?, word(words[2])?);
    Ok(output(words[0])?.emit_with(ctx, key.as_deref(), value.as_deref(), &options)?)
}

fn info(ctx: &mut Context, record: &Record<Raw, Raw>) -> HandlerResult {
    let facts = format!("{} {} {} {} {}", record.input(), record.task(), record.offset(), record.timestamp(), record.attempt());
    Ok(output("out")?.emit(ctx, None, facts.as_bytes())?)
}

/// `key`: of the record, the timer or the window at hand.
fn run(ctx: &mut Context, key: Option<&[u8]>, line: &str) -> HandlerResult {
    let words: Vec<&str> = line.split(' ').collect();
    if let Some(result) = time_commands::run(ctx, key, &words) {
        return result;
    }
    match (words[0], &words[1..]) {
        ("get", [name, other @ ..]) => get(ctx, key, store(name)?, other.first().copied()),
        ("join", ["people", other @ ..]) => join(ctx, key, other.first().copied()),
        ("lookup", ["rates", other]) => lookup(ctx, other),
        ("scan_table", ["rates", rest @ ..]) => scan(ctx, rest, |ctx, range| RATES.scan(ctx, range)),
        ("gather", [text]) => {
            let text = String::from_utf8_lossy(&word(text)?.unwrap_or_default()).into_owned();
            GATHERED.change(ctx, |texts| texts.push(text));
            Ok(())
        }
        ("get_many", [name, keys @ ..]) => get_many(ctx, store(name)?, keys),
        ("scan", [name, rest @ ..]) => {
            let over = store(name)?;
            scan(ctx, rest, |ctx, range| over.scan(ctx, range))
        }
        ("count", [name]) => count(ctx, key, store(name)?),
        ("set", [name, value]) => Ok(store(name)?.put(ctx, &word(value)?.unwrap_or_default())?),
        ("set", [name, value, other]) => {
            Ok(store(name)?.put_key(ctx, &word(other)?.unwrap_or_default(), &word(value)?.unwrap_or_default())?)
        }
        ("set_size", [name, size]) => Ok(store(name)?.put(ctx, &vec![b'x'; size.parse()?])?),
        ("delete", [name]) => Ok(store(name)?.delete(ctx)?),
        ("delete", [name, other]) => Ok(store(name)?.delete_key(ctx, &word(other)?.unwrap_or_default())?),
        ("emit", rest) => emit(ctx, rest),
        ("emit_size", [name, size]) => Ok(output(name)?.emit(ctx, key, &vec![b'x'; size.parse()?][..])?),
        ("fail", [text]) => Err(HandlerError::msg(String::from_utf8_lossy(&word(text)?.unwrap_or_default()))),
        ("fail_size", [size]) => Err(HandlerError::msg("x".repeat(size.parse()?))),
        ("reject", [text]) => Err(HandlerError::reject(String::from_utf8_lossy(&word(text)?.unwrap_or_default()))),
        ("sleep", [milliseconds]) => {
            std::thread::sleep(Duration::from_millis(milliseconds.parse()?));
            Ok(())
        }
        ("crash", []) => std::process::exit(3),
        _ => Err(HandlerError::msg(format!("no command {line:?}"))),
    }
}

/// What a timer or a closing window does: the script that its key has in `scripts`.
fn run_stored(ctx: &mut Context, key: Option<&[u8]>) -> HandlerResult {
    let Some(script) = store("scripts")?.get(ctx)?.map(<[u8]>::to_vec) else { return Ok(()) };
    std::str::from_utf8(&script)?.split('\n').try_for_each(|line| run(ctx, key, line))
}

fn send_gathered(ctx: &mut Context) -> HandlerResult {
    for text in GATHERED.take(ctx) {
        match text.strip_prefix("count:") {
            Some(key) => {
                let before: i64 = match store("counts")?.get_key(ctx, key.as_bytes())? {
                    Some(digits) => std::str::from_utf8(digits)?.parse()?,
                    None => 0,
                };
                store("counts")?.put_key(ctx, key.as_bytes(), (before + 1).to_string().as_bytes())?;
            }
            None if text == "fail" => return Err(HandlerError::msg(text)),
            None => output("out")?.emit(ctx, None, text.as_bytes())?,
        }
    }
    Ok(())
}

fn main() {
    let app = App::new()
        .on("script", |ctx, record: Record<Raw, Raw>| {
            let script = std::str::from_utf8(record.value.unwrap_or_default())?;
            script.split('\n').try_for_each(|line| match line {
                "info" => info(ctx, &record),
                _ => run(ctx, record.key, line),
            })
        })
        .on("echo", |ctx, record: Record<Raw, Raw>| {
            let options = EmitOptions::new().headers(record.headers());
            Ok(output("out")?.emit_with(ctx, record.key, record.value, &options)?)
        })
        .on("ints", |ctx, record: Record<Raw, Int64>| {
            let digits = record.value.map(|value| value.to_string().into_bytes());
            Ok(output("out")?.emit(ctx, record.key, digits.as_deref())?)
        });
    // Handlers of timers, say, belong to manifests with timers: the kit says what its case is about.
    let needs = std::env::var("CONFORMANCE_NEEDS").unwrap_or_default();
    let needs: Vec<&str> = needs.split(',').collect();
    let mut app = time_commands::handlers(app, &needs);
    if needs.contains(&"hooks") {
        app = app.on_begin(|_| Ok(())).on_finalize(send_gathered).on_committed(|_| ());
    }
    app.main();
}
