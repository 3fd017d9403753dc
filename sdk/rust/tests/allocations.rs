//! Nothing is allocated per record that can be per batch.
#![allow(unsafe_code)] // an allocator cannot do without

use millstream::testing::{Setup, TestKit, TestRecord};
use millstream::{App, Int64, Json, Output, Raw, Record, Store, Text};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all work is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        System.alloc(layout)
    }
    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        System.dealloc(data, layout);
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static COUNTS: Store<Text, Int64> = Store::new("counts", Text, Int64);
static TOTALS: Output<Text, Json<i64>> = Output::new("totals", Text, Json::new());
static SEEN: Output<Text, Int64> = Output::new("seen", Text, Int64);

#[test]
fn nothing_is_allocated_per_record() {
    let app = App::new().on("in", |ctx, record: Record<Text, Raw>| {
        let n = COUNTS.get(ctx)?.unwrap_or(0) + 1;
        COUNTS.put(ctx, &n)?;
        TOTALS.emit(ctx, record.key, &n)?;
        let allocations = COUNT.with(Cell::get) as i64;
        Ok(SEEN.emit(ctx, record.key, &allocations)?)
    });
    let mut kit = TestKit::new(app, Setup { stores: &["counts"], outputs: &["totals", "seen"], ..Setup::default() }).unwrap();
    kit.feed("in", (0..2000).map(|n| TestRecord::key(format!("key-{}", n % 700)).value("v"))).unwrap();
    let seen: Vec<i64> = kit.emitted(&SEEN).into_iter().map(|(_, count)| count.unwrap()).collect();
    // Memory that grows does so a few times.
    let allocated = seen[1999] - seen[100];
    assert!(allocated < 100, "{allocated} allocations while 1900 records were handled");
}
