// A test kit's event time: what the sidecar does for windows, sessions and timers of its one task, on a virtual clock.
import { CLOSING, EVENT_TIME, TIMER, type Bounds, type OpenWindow } from "./batch_frame.js";
import { ConfigError } from "./errors.js";
import { sessionRow } from "./row_keys.js";
import { timerId, type Clock } from "./timer.js";
import { portOf, type Port } from "./welcome.js";

/** Of a store of type Window, in milliseconds; as in the manifest. */
export interface WindowRules {
  /** How long a window is. */
  size: number;
  /** From the beginning of one to that of the next; default: `size`. */
  advance?: number;
  /** Default: 0. */
  grace?: number;
  /** Default: size and grace. */
  retention?: number;
  /** "Final": told once, when it closes, to App.onClose. */
  emit?: "Update" | "Final";
}

/** Of a store of type Session, in milliseconds; as in the manifest. */
export interface SessionRules {
  /** The longest time between two records of one session. */
  gap: number;
  /** Default: 0. */
  grace?: number;
  /** Default: gap and grace. */
  retention?: number;
  /** "Final": told once, when it closes, to App.onClose. */
  emit?: "Update" | "Final";
}

/** A store of the manifest: by name, or with what it has to do with time. */
export type TestStore = string | {
  name: string;
  window?: WindowRules;
  session?: SessionRules;
  /** How long after its last write a key is kept, in milliseconds of event time. */
  ttl?: number;
};

/** A timer that is not due yet. */
export interface PendingTimer {
  name: string;
  /** What moves it. */
  clock: Clock;
  /** The key's bytes. */
  key: Buffer;
  /** When it will be due, in milliseconds since 1970. */
  time: number;
}

/** Something that is due: a timer, or a window or session that closes. */
export type DueItem = { kind: typeof TIMER; id: string; key: Buffer; clock: number; name: string; time: number }
  | { kind: typeof CLOSING; row: string; key: Buffer; table: number; bounds: { start: number; end: number }; time: number };

type Rules = { size: number; advance: number; gap?: never; grace: number; retention: number; final: boolean }
  | { gap: number; size?: never; grace: number; retention: number; final: boolean };

export function storePort(store: TestStore): Port {
  if (typeof store === "string") return portOf(store);
  const rules = rulesOf(store);
  if (rules === undefined) return portOf(store.name);
  if (rules.gap !== undefined) return { ...portOf(store.name), type: "Session", final: rules.final };
  return { ...portOf(store.name), type: "Window", size: rules.size, advance: rules.advance, final: rules.final };
}

function rulesOf(store: TestStore): Rules | undefined {
  if (typeof store === "string") return undefined;
  const { name, window, session, ttl } = store;
  if (ttl !== undefined && !(ttl > 0)) throw new ConfigError(`store "${name}": a time to live is above 0`);
  if (window !== undefined) {
    const { size, advance = size, grace = 0, retention = size + grace, emit } = window;
    if (!(size > 0 && advance > 0 && advance <= size && grace >= 0)) {
      throw new ConfigError(`store "${name}": a window needs a size above 0, an advance of at most that, and no negative grace`);
    }
    return { size, advance, grace, retention, final: emit === "Final" };
  }
  if (session === undefined) return undefined;
  const { gap, grace = 0, retention = gap + grace, emit } = session;
  if (!(gap > 0 && grace >= 0)) throw new ConfigError(`store "${name}": a session needs a gap above 0, and no negative grace`);
  return { gap, grace, retention, final: emit === "Final" };
}

function ttlOf(store: TestStore): number | undefined {
  return typeof store === "string" ? undefined : store.ttl;
}

interface Place extends Bounds {
  start: number;
  end: number;
  key: string;
}

export class KitTime {
  /** Stream time; undefined before the first record. */
  now: number | undefined;
  /** Records that were late for all their windows. */
  late = 0;
  readonly timers = new Map<string, DueItem & { kind: typeof TIMER }>();
  private readonly rules: (Rules | undefined)[];
  private readonly closed: Set<string>[];
  private readonly highest: (number | undefined)[];
  /** By store and key: the event time of the last write, where there is a time to live. */
  private readonly written: (Map<string, number> | undefined)[];
  /** By row; of what a row key says. */
  private readonly places: Map<string, Place>[];

  constructor(private readonly stores: readonly TestStore[], private readonly rows: readonly Map<string, Buffer>[], inputs: number, private readonly lateness: number) {
    this.rules = stores.map(rulesOf);
    this.written = stores.map((store) => (ttlOf(store) !== undefined ? new Map() : undefined));
    this.closed = stores.map(() => new Set());
    this.places = stores.map(() => new Map());
    this.highest = new Array<undefined>(inputs).fill(undefined);
  }

  /** Whether what is kept of a store depends on the time. */
  get matters(): boolean {
    return this.hasWindows || this.written.some((written) => written !== undefined);
  }

  get hasWindows(): boolean {
    return this.rules.some((rules) => rules !== undefined);
  }

  isWindowed(table: number): boolean {
    return this.rules[table] !== undefined;
  }

  /** A record was met. An input that never had one is taken as idle. */
  advance(input: number, timestamp: number): void {
    this.highest[input] = Math.max(this.highest[input] ?? timestamp, timestamp);
    const lowest = Math.min(...this.highest.flatMap((high) => (high === undefined ? [] : [high - this.lateness])));
    this.now = Math.max(this.now ?? lowest, lowest);
  }

  /** The windows of a record, after advance(); undefined if it is late for every windowed store. */
  open(key: Uint8Array | null, timestamp: number): OpenWindow[] | undefined {
    if (key === null || !this.hasWindows) return [];
    const open: OpenWindow[] = [];
    this.rules.forEach((rules, store) => {
      if (rules === undefined) return;
      const found = rules.gap !== undefined ? [this.session(store, rules.gap, latin1(key), timestamp)] : windowsAt(store, rules.size, rules.advance, timestamp);
      // A session that was given stays as it is: who would reach it is late.
      const over = (window: Bounds): boolean => this.closesAt(store, window) <= this.now!;
      open.push(...found.filter((window) => !over(window) && !(rules.final && window.parts?.some(over))));
    });
    if (open.length > 0) return open;
    this.late += 1;
    return undefined;
  }

  private session(store: number, gap: number, key: string, timestamp: number): OpenWindow {
    const parts = this.placesOf(store, key).filter(({ start, end }) => start <= timestamp + gap && end >= timestamp - gap)
      .map(({ start, end }) => ({ start, end })).sort((a, b) => a.start - b.start);
    const start = Math.min(timestamp, ...parts.map((part) => part.start));
    const end = Math.max(timestamp, ...parts.map((part) => part.end));
    return { store, start, end, parts };
  }

  /** The stream time from which on it takes no record. */
  private closesAt(table: number, { end }: Bounds): number {
    const rules = this.rules[table]!;
    return Number(end) + rules.grace + (rules.gap !== undefined ? rules.gap + 1 : 0);
  }

  private expiresAt(table: number, { start, end }: Place): number {
    const rules = this.rules[table]!;
    return rules.gap !== undefined ? end + rules.retention + 1 : Math.max(start + rules.retention, end + rules.grace);
  }

  private place(table: number, row: string): Place {
    let place = this.places[table]!.get(row);
    if (place === undefined) {
      const rules = this.rules[table]!;
      const data = Buffer.from(row, "latin1");
      const flipped = (at: number): number => Number(data.readBigUInt64BE(at) - (1n << 63n));
      const at = data.length - (rules.gap !== undefined ? 16 : 8);
      const start = rules.gap !== undefined ? flipped(at) : Number(data.readBigInt64BE(at));
      place = { key: row.slice(0, at), start, end: rules.gap !== undefined ? flipped(at + 8) : start + rules.size };
      this.places[table]!.set(row, place);
    }
    return place;
  }

  private placesOf(table: number, key: string): Place[] {
    return [...this.rows[table]!.keys()].map((row) => this.place(table, row)).filter((place) => place.key === key);
  }

  /** The rows of a windowed store, by key and time; of one key, or all. */
  rowsOf(table: number, key?: string): { key: Buffer; start: number; end: number; value: Buffer }[] {
    const found = [...this.rows[table]!].map(([row, value]) => ({ ...this.place(table, row), value })).filter((row) => key === undefined || row.key === key);
    found.sort((a, b) => (a.key === b.key ? a.start - b.start : a.key < b.key ? -1 : 1));
    return found.map((row) => ({ ...row, key: Buffer.from(row.key, "latin1") }));
  }

  /** A record is done: what its sessions were made of goes, and they have at least an empty value. */
  settle(key: Uint8Array, open: readonly OpenWindow[]): void {
    for (const { store, start, end, parts } of open) {
      if (parts === undefined) continue;
      const row = latin1(sessionRow(key, start, end));
      for (const part of parts) {
        const gone = latin1(sessionRow(key, part.start, part.end));
        if (gone !== row) this.drop(store, gone);
      }
      if (!this.rows[store]!.has(row)) this.rows[store]!.set(row, Buffer.alloc(0));
    }
  }

  set(key: Buffer, clock: number, name: string, time: number | null): void {
    const id = `${timerId(clock, name)}\0${latin1(key)}`;
    this.timers.delete(id);
    if (time !== null) this.timers.set(id, { kind: TIMER, id, key, clock, name, time });
  }

  /** All that is due, the earliest first. */
  due(wall: number): DueItem[] {
    const due: DueItem[] = [...this.timers.values()].filter(({ clock, time }) => time <= (clock === EVENT_TIME ? this.now ?? -Infinity : wall));
    this.rules.forEach((rules, table) => {
      if (!rules?.final || this.now === undefined) return;
      for (const row of this.rows[table]!.keys()) {
        const place = this.place(table, row);
        const time = this.closesAt(table, place);
        if (time > this.now || this.closed[table]!.has(row)) continue;
        due.push({ kind: CLOSING, row, key: Buffer.from(place.key, "latin1"), table, bounds: place, time });
      }
    });
    return due.sort((a, b) => a.time - b.time);
  }

  valueOf(due: DueItem & { kind: typeof CLOSING }): Buffer {
    return this.rows[due.table]!.get(due.row)!;
  }

  /** A key was written by something of that time. */
  wrote(table: number, key: string, time: number): void {
    this.written[table]?.set(key, time);
  }

  /** Something that was due was handled, or given up. */
  handled(due: DueItem): void {
    if (due.kind === TIMER) this.timers.delete(due.id);
    else this.closed[due.table]!.add(due.row);
  }

  /** Deletes what has outlived its time to live. */
  forget(): void {
    this.written.forEach((written, table) => {
      for (const [key, time] of written ?? []) {
        if (time + ttlOf(this.stores[table]!)! > this.now!) continue;
        this.rows[table]!.delete(key);
        written!.delete(key);
      }
    });
  }

  /** Deletes what has outlived its retention, once it was told, or its time to live. */
  sweep(): void {
    if (this.now === undefined) return;
    this.forget();
    this.rules.forEach((rules, table) => {
      if (rules === undefined) return;
      for (const row of [...this.rows[table]!.keys()]) {
        const told = !rules.final || this.closed[table]!.has(row);
        if (told && this.expiresAt(table, this.place(table, row)) <= this.now!) this.drop(table, row);
      }
    });
  }

  private drop(table: number, row: string): void {
    this.rows[table]!.delete(row);
    this.places[table]!.delete(row);
    this.closed[table]!.delete(row);
  }
}

function windowsAt(store: number, size: number, advance: number, time: number): OpenWindow[] {
  const open: OpenWindow[] = [];
  for (let start = Math.floor((time - size) / advance) * advance + advance; start <= time; start += advance) {
    open.push({ store, start, end: start + size, parts: undefined });
  }
  return open;
}

export function latin1(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, data.length).toString("latin1");
}
