//! What scripts do with windows, sessions, timers and visits, and what happens when timers are due, windows close and rows are
//! visited.

use crate::{output, run_stored, show, store, word};
use millstream::{
    App, Closed, ClosedSession, Context, Due, HandlerError, HandlerResult, Raw, SessionStore, Timer, Visit, VisitEnd, Visited,
    Window, WindowStore,
};

static WINDOWS: [WindowStore<Raw, Raw>; 3] =
    [WindowStore::new("minutes", Raw, Raw), WindowStore::new("hops", Raw, Raw), WindowStore::new("final", Raw, Raw)];
static VISITS: SessionStore<Raw, Raw> = SessionStore::new("visits", Raw, Raw);
static STAYS: SessionStore<Raw, Raw> = SessionStore::new("stays", Raw, Raw);
static TIMERS: [Timer<Raw>; 4] =
    [Timer::new("tick", Raw), Timer::new("other", Raw), Timer::wall_clock("tick", Raw), Timer::wall_clock("other", Raw)];

static WALK: Visit<Raw> = Visit::new("walk", Raw);
/// No manifest declares it.
static WLAK: Visit<Raw> = Visit::new("wlak", Raw);

fn windows(name: &str) -> Result<&'static WindowStore<Raw, Raw>, HandlerError> {
    WINDOWS.iter().find(|store| store.name() == name).ok_or_else(|| HandlerError::msg(format!("no windows {name:?}")))
}

fn sessions(name: &str) -> Result<&'static SessionStore<Raw, Raw>, HandlerError> {
    [&VISITS, &STAYS]
        .into_iter()
        .find(|store| store.name() == name)
        .ok_or_else(|| HandlerError::msg(format!("no sessions {name:?}")))
}

fn timer(name: &str, clock: Option<&str>) -> Result<&'static Timer<Raw>, HandlerError> {
    let first = if clock == Some("wall") { 2 } else { 0 };
    TIMERS[first..].iter().find(|timer| timer.name() == name).ok_or_else(|| HandlerError::msg(format!("no timer {name:?}")))
}

/// `START..END=VALUE`, or the bounds alone.
fn span(window: Window, value: Option<&[u8]>) -> Vec<u8> {
    let mut text = format!("{}..{}", window.start, window.end).into_bytes();
    if let Some(value) = value {
        text.push(b'=');
        text.extend_from_slice(value);
    }
    text
}

fn number(digits: &[u8]) -> Result<i64, HandlerError> {
    Ok(std::str::from_utf8(digits)?.parse()?)
}

fn show_windows(ctx: &mut Context, key: Option<&[u8]>, store: &WindowStore<Raw, Raw>) -> HandlerResult {
    for window in store.windows(ctx)? {
        let text = span(window, store.get(ctx, window)?);
        show(ctx, key, Some(&text))?;
    }
    Ok(())
}

fn count_windows(ctx: &mut Context, key: Option<&[u8]>, store: &WindowStore<Raw, Raw>) -> HandlerResult {
    for window in store.windows(ctx)? {
        let count = (store.get(ctx, window)?.map_or(Ok(0), number)? + 1).to_string().into_bytes();
        store.put(ctx, window, &count)?;
        output("out")?.emit(ctx, key, &span(window, Some(&count))[..])?;
    }
    Ok(())
}

fn show_session(ctx: &mut Context, key: Option<&[u8]>, store: &SessionStore<Raw, Raw>) -> HandlerResult {
    let Some(session) = store.session(ctx)? else { return show(ctx, key, None) };
    let values = store.values(ctx)?.join(&b","[..]);
    let text = span(session, Some(&values[..]).filter(|values| !values.is_empty()));
    show(ctx, key, Some(&text))
}

fn count_session(ctx: &mut Context, key: Option<&[u8]>, store: &SessionStore<Raw, Raw>) -> HandlerResult {
    let session = store.session(ctx)?.ok_or_else(|| HandlerError::msg("the record is late"))?;
    let before: i64 = store.values(ctx)?.into_iter().map(number).sum::<Result<_, _>>()?;
    let count = (before + 1).to_string().into_bytes();
    store.put(ctx, &count)?;
    Ok(output("out")?.emit(ctx, key, &span(session, Some(&count))[..])?)
}

/// A command of windows, sessions, timers or visits; `None` for another one.
pub(crate) fn run(ctx: &mut Context, key: Option<&[u8]>, words: &[&str]) -> Option<HandlerResult> {
    Some(match (words[0], &words[1..]) {
        ("windows", [name]) => windows(name).and_then(|store| show_windows(ctx, key, store)),
        ("count_windows", [name]) => windows(name).and_then(|store| count_windows(ctx, key, store)),
        ("set_windows", [name, value]) => set_windows(ctx, name, value),
        ("delete_windows", [name]) => delete_windows(ctx, name),
        ("window", [name, start]) => show_window(ctx, key, name, start),
        ("set_window", [name, start, value]) => set_window(ctx, name, start, value),
        ("session", [name]) => sessions(name).and_then(|store| show_session(ctx, key, store)),
        ("count_session", [name]) => sessions(name).and_then(|store| count_session(ctx, key, store)),
        ("set_session", [name, value]) => set_session(ctx, name, value),
        ("timer", [name, time, rest @ ..]) => set_timer(ctx, name, Some(time), rest),
        ("cancel", [name, rest @ ..]) => set_timer(ctx, name, None, rest),
        ("visit", [name, what, rest @ ..]) => change_visit(ctx, name, what, rest),
        ("visit_size", [_, size]) => start_large(ctx, size),
        ("watermark", []) => show_watermark(ctx),
        _ => return None,
    })
}

fn set_windows(ctx: &mut Context, name: &str, value: &str) -> HandlerResult {
    let value = word(value)?.unwrap_or_default();
    for window in windows(name)?.windows(ctx)? {
        windows(name)?.put(ctx, window, &value)?;
    }
    Ok(())
}

fn delete_windows(ctx: &mut Context, name: &str) -> HandlerResult {
    for window in windows(name)?.windows(ctx)? {
        windows(name)?.delete(ctx, window)?;
    }
    Ok(())
}

/// A window's end is no part of what it is known by.
fn at(start: &str) -> Result<Window, HandlerError> {
    let start = start.parse()?;
    Ok(Window { start, end: start })
}

fn show_window(ctx: &mut Context, key: Option<&[u8]>, name: &str, start: &str) -> HandlerResult {
    let value = windows(name)?.get(ctx, at(start)?)?.map(<[u8]>::to_vec);
    show(ctx, key, value.as_deref())
}

fn set_window(ctx: &mut Context, name: &str, start: &str, value: &str) -> HandlerResult {
    Ok(windows(name)?.put(ctx, at(start)?, &word(value)?.unwrap_or_default())?)
}

fn set_session(ctx: &mut Context, name: &str, value: &str) -> HandlerResult {
    Ok(sessions(name)?.put(ctx, &word(value)?.unwrap_or_default())?)
}

/// `rest`: clock and key, where they are not event time and the record's own.
fn set_timer(ctx: &mut Context, name: &str, time: Option<&str>, rest: &[&str]) -> HandlerResult {
    let timer = timer(name, rest.first().copied())?;
    let time = time.map(str::parse::<i64>).transpose()?;
    let key = rest.get(1).map(|key| word(key)).transpose()?.flatten();
    match (time, key) {
        (Some(time), None) => timer.set(ctx, time)?,
        (Some(time), Some(key)) => timer.set_key(ctx, &key, time)?,
        (None, None) => timer.cancel(ctx)?,
        (None, Some(key)) => timer.cancel_key(ctx, &key)?,
    }
    Ok(())
}

fn show_watermark(ctx: &mut Context) -> HandlerResult {
    let text = ctx.watermark().map(|time| time.to_string().into_bytes());
    Ok(output("out")?.emit(ctx, None, text.as_deref())?)
}

fn change_visit(ctx: &mut Context, name: &str, what: &str, rest: &[&str]) -> HandlerResult {
    let visit = if name == WALK.name() { &WALK } else { &WLAK };
    let data = rest.first().map(|data| word(data)).transpose()?.flatten();
    match (what, data) {
        ("start", Some(data)) => visit.start(ctx, &data)?,
        ("start", None) => visit.start_plain(ctx)?,
        ("stop", _) => visit.stop(ctx)?,
        ("pause", _) => visit.pause(ctx)?,
        _ => visit.resume(ctx)?,
    }
    Ok(())
}

fn start_large(ctx: &mut Context, size: &str) -> HandlerResult {
    Ok(WALK.start(ctx, &vec![b'x'; size.parse()?])?)
}

fn visit_facts(time: i64, attempt: u32, data: Option<&[u8]>) -> Vec<u8> {
    [format!("walk {time} {attempt} ").as_bytes(), data.unwrap_or(b"~")].concat()
}

fn visited(ctx: &mut Context, row: Visited<Raw, Raw>) -> HandlerResult {
    output("out")?.emit(ctx, row.key, &visit_facts(row.time, row.attempt, row.data)[..])?;
    let value = store("counts")?.get(ctx)?.map(<[u8]>::to_vec);
    show(ctx, Some(row.key), value.as_deref())?;
    run_stored(ctx, Some(row.key))
}

fn visit_ended(ctx: &mut Context, end: VisitEnd<Raw>) -> HandlerResult {
    Ok(output("out")?.emit(ctx, None, &visit_facts(end.time, end.attempt, end.data)[..])?)
}

fn due(ctx: &mut Context, name: &str, due: Due<Raw>) -> HandlerResult {
    let clock = if due.wall_clock { "wall" } else { "event" };
    let facts = format!("{name} {clock} {} {}", due.time, due.attempt);
    output("out")?.emit(ctx, due.key, facts.as_bytes())?;
    run_stored(ctx, Some(due.key))
}

fn closed(ctx: &mut Context, closed: Closed<Raw, Raw>) -> HandlerResult {
    output("out")?.emit(ctx, closed.key, &span(closed.window, Some(closed.value))[..])?;
    run_stored(ctx, Some(closed.key))
}

/// The handlers of what the case at hand needs.
pub(crate) fn handlers(mut app: App, needs: &[&str]) -> App {
    if needs.contains(&"timers") {
        app = app.on_timer("tick", |ctx, timer| due(ctx, "tick", timer)).on_timer("other", |ctx, timer| due(ctx, "other", timer));
    }
    if needs.contains(&"visits") {
        app = app.on_visit("walk", visited).on_visit_end("walk", visit_ended);
    }
    if needs.contains(&"closings") {
        app = app.on_close("final", closed);
    }
    if needs.contains(&"sessionClosings") {
        app = app.on_close_session("stays", |ctx, closed: ClosedSession<Raw, Raw>| {
            output("out")?.emit(ctx, closed.key, &span(closed.session, closed.value)[..])?;
            run_stored(ctx, Some(closed.key))
        });
    }
    if needs.contains(&"sessions") {
        app = app.merge_sessions(&VISITS, |values| values.join(&b"+"[..]));
    }
    app
}
