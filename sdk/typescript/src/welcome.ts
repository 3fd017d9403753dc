// WELCOME as it comes.
import { ProtocolError } from "./errors.js";
import type { Int, Reader } from "./msgpack.js";
import { DEFAULT_FRAME_CAP } from "./wire.js";

/** An input, output, store, join or lookup of WELCOME. */
export interface Port {
  name: string;
  topic: string;
  type: string;
  /** Bytes of an output's record or of a store's value; 0: nothing was said. */
  max: number;
  /** Of a store of windows, in milliseconds. */
  size: number;
  advance: number;
  /** Each window is told once, when it closes. */
  final: boolean;
}

export function portOf(name: string): Port {
  return { name, topic: name, type: "KeyValue", max: 0, size: 0, advance: 0, final: false };
}

export interface Welcome {
  version: number;
  session: Int;
  processor: string;
  inputs: Port[];
  outputs: Port[];
  stores: Port[];
  joins: Port[];
  lookups: Port[];
  /** Whether the program may set timers. */
  timers: boolean;
  /** Each with the id of the store it walks. */
  visits: { name: string; store: number }[];
  /** Those of HELLO that the sidecar will use. */
  capabilities: string[];
  frameCap: number;
  deadline: number;
  minTimestamp: number;
  maxTimestamp: number;
}

/** A WELCOME that says nothing. */
export function emptyWelcome(): Omit<Welcome, "version" | "session"> {
  return {
    processor: "", inputs: [], outputs: [], stores: [], joins: [], lookups: [], timers: false, visits: [], capabilities: [],
    frameCap: DEFAULT_FRAME_CAP, deadline: 60_000, minTimestamp: 0, maxTimestamp: Number.MAX_SAFE_INTEGER,
  };
}

export function readWelcome(r: Reader): Welcome {
  const w: Partial<Welcome> & ReturnType<typeof emptyWelcome> = emptyWelcome();
  for (let count = r.map("WELCOME"); count > 0; --count) {
    const field = r.text("WELCOME");
    switch (field) {
      case "protocol": w.version = r.number(field); break;
      case "session": w.session = r.uint(field); break;
      case "processor": w.processor = r.text(field); break;
      case "inputs": case "outputs": case "stores": case "joins": case "lookups": w[field] = readPorts(r, field); break;
      case "timers": w.timers = !r.nil() && r.bool(field); break;
      case "visits": if (!r.nil()) w.visits = readVisits(r); break;
      case "capabilities": for (let names = r.list(field); names > 0; --names) w.capabilities.push(r.text(field)); break;
      case "limits": readLimits(r, w); break;
      default: r.skip(1);
    }
  }
  if (w.version === undefined || w.session === undefined) throw new ProtocolError("WELCOME has no protocol version or no session");
  return w as Welcome;
}

function readVisits(r: Reader): Welcome["visits"] {
  const visits: Welcome["visits"] = [];
  for (let count = r.list("visits"); count > 0; --count) {
    const visit = { name: "", store: 0 };
    for (let fields = r.map("visits"); fields > 0; --fields) {
      const field = r.text("visits");
      switch (field) {
        case "name": visit.name = r.text(field); break;
        case "store": visit.store = r.index("visit store", 2 ** 31 - 1); break;
        default: r.skip(1);
      }
    }
    visits.push(visit);
  }
  return visits;
}

function readLimits(r: Reader, w: Pick<Welcome, "frameCap" | "deadline" | "minTimestamp" | "maxTimestamp">): void {
  for (let count = r.map("limits"); count > 0; --count) {
    const field = r.text("limits");
    switch (field) {
      case "frame": w.frameCap = r.number(field); break;
      case "deadline_ms": w.deadline = r.number(field); break;
      case "min_timestamp": w.minTimestamp = Number(r.int(field)); break;
      case "max_timestamp": w.maxTimestamp = Number(r.int(field)); break;
      default: r.skip(1);
    }
  }
}

function readPorts(r: Reader, what: string): Port[] {
  const ports: Port[] = [];
  for (let count = r.list(what); count > 0; --count) {
    const port = portOf("");
    for (let fields = r.map(what); fields > 0; --fields) {
      const field = r.text(what);
      switch (field) {
        case "name": case "topic": case "type": port[field] = r.text(what); break;
        case "max_bytes": case "max_value_bytes": port.max = r.number(field); break;
        case "window": case "session": if (!r.nil()) readWindow(r, port); break;
        default: r.skip(1);
      }
    }
    if (port.name === "") throw new ProtocolError(`WELCOME: one of the ${what} has no name`);
    ports.push(port);
  }
  return ports;
}

function readWindow(r: Reader, port: Port): void {
  for (let count = r.map("window"); count > 0; --count) {
    const field = r.text("window");
    switch (field) {
      case "size": case "advance": port[field] = r.number(field); break;
      case "final": port.final = r.bool(field); break;
      default: r.skip(1);
    }
  }
}
