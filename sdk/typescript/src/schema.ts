// What WELCOME declares joined with the program's handlers. Read-only, shared by all batches of a session.
import type { App, Registered } from "./app.js";
import { isWindowed, type Shape, type TableKind } from "./batch_frame.js";
import { ConfigError, ProtocolError, listed } from "./errors.js";
import type { Hooks } from "./hooks.js";
import type { Int } from "./msgpack.js";
import { timerId, type RegisteredTimer } from "./timer.js";
import { VISITS, checkVisits, type RegisteredVisit } from "./visit.js";
import type { Port, Welcome } from "./welcome.js";
import type { RegisteredClosing, SessionStore } from "./window.js";
import { HELLO_FRAME_CAP, MAX_FRAME_CAP, MAX_VERSION, MIN_VERSION } from "./wire.js";

/** The capability of HELLO by which a program says that it takes sessions that close. */
const SESSION_CLOSINGS = "sessionClosings";

/** The input and output that a processor's records to itself take. */
export const LOOP = "loop";

export interface InputPort {
  name: string;
  topic: string;
  registered: Registered;
}

/** What can be read: a store, a join, a lookup. */
export interface TablePort extends Port {
  kind: TableKind;
  /** Of a store of windows that close. */
  closing: RegisteredClosing | undefined;
  /** Of a store of sessions. */
  sessions: SessionStore<unknown, unknown> | undefined;
}

/** A visit, with the id of the store it walks. */
export interface VisitPort {
  name: string;
  store: number;
  registered: RegisteredVisit;
}

export class Schema {
  readonly processor: string;
  readonly session: Int;
  readonly inputs: InputPort[];
  readonly outputs: Port[];
  /** By readable id: stores, then joins, then lookups. */
  readonly tables: TablePort[];
  readonly shape: Shape;
  readonly outputIds: ReadonlyMap<string, number>;
  readonly timers: ReadonlyMap<string, RegisteredTimer>;
  readonly visits: readonly VisitPort[];
  readonly hooks: Hooks;
  /** Hooks of the program that this sidecar does not call. */
  readonly uncalledHooks: string[];
  readonly frameCap: number;
  readonly deadline: number;
  readonly minTimestamp: number;
  readonly maxTimestamp: number;

  /** Throws ConfigError where program and manifest do not fit. */
  constructor(welcome: Welcome, app: App) {
    checkSupported(welcome);
    checkInputs(app, welcome.inputs.map((port) => port.name));
    checkTime(app, welcome);
    this.processor = welcome.processor;
    this.session = welcome.session;
    this.inputs = welcome.inputs.map(({ name, topic }) => ({ name, topic: topic || name, registered: app.handlers.get(name)! }));
    this.frameCap = Math.min(Math.max(welcome.frameCap, HELLO_FRAME_CAP), MAX_FRAME_CAP);
    this.outputs = welcome.outputs.map((port) => ({ ...port, max: port.max || this.frameCap }));
    this.outputIds = new Map(this.outputs.map((port, id) => [port.name, id]));
    const table = (port: Port, kind: TableKind, own: boolean): TablePort => ({
      ...port, kind, max: port.max || this.frameCap,
      closing: own ? app.closings.get(port.name) : undefined, sessions: own ? app.sessions.get(port.name) : undefined,
    });
    this.tables = [
      ...welcome.stores.map((port) => table(port, port.type as TableKind, true)),
      ...welcome.joins.map((port) => table(port, "join", false)),
      ...welcome.lookups.map((port) => table(port, "lookup", false)),
    ];
    this.visits = visitPorts(app, welcome);
    this.shape = {
      inputs: this.inputs.length, tables: this.tables, timers: welcome.timers, visits: this.visits.length, windowed: this.tables.some((port) => isWindowed(port.kind)),
    };
    this.timers = app.timers;
    this.hooks = app.hooks;
    this.uncalledHooks = Object.keys(app.hooks).filter((hook) => !welcome.capabilities.includes(hook));
    this.deadline = welcome.deadline;
    this.minTimestamp = welcome.minTimestamp;
    this.maxTimestamp = welcome.maxTimestamp;
  }

  /** The id of a table, -1 if there is none of that name and kind. */
  tableId(name: string, kind: TableKind): number {
    return this.tables.findIndex((port) => port.name === name && port.kind === kind);
  }

  /** The id of a visit, -1 if there is none of that name. */
  visitId(name: string): number {
    return this.visits.findIndex((visit) => visit.name === name);
  }

  /** The tables that a name could have meant, for messages. */
  declared(kind: TableKind): string {
    const isStore = (one: TableKind): boolean => one !== "join" && one !== "lookup";
    const near = this.tables.filter((port) => port.kind === kind || (isStore(kind) && isStore(port.kind)));
    return listed(near.map((port) => (port.kind === kind ? port.name : `${port.name} (${port.kind})`)));
  }

  timer(clock: number, name: string): RegisteredTimer | undefined {
    return this.timers.get(timerId(clock, name));
  }
}

/** The capabilities of HELLO. */
export function capabilitiesOf(app: App): string[] {
  return [...Object.keys(app.hooks), ...(app.closings.size > 0 ? [SESSION_CLOSINGS] : []), ...(app.visits.size > 0 ? [VISITS] : [])];
}

function visitPorts(app: App, welcome: Welcome): VisitPort[] {
  checkVisits(app.visits, welcome.visits.map(({ name, store }) => {
    const port = welcome.stores[store];
    if (port === undefined) throw new ProtocolError(`visit "${name}" is of store ${store}, there are ${welcome.stores.length}`);
    return { name, store: port.name };
  }));
  return welcome.visits.map(({ name, store }) => ({ name, store, registered: app.visits.get(name)! }));
}

/** Names what this version cannot do, instead of ignoring it. */
function checkSupported(welcome: Welcome): void {
  if (welcome.version < MIN_VERSION || welcome.version > MAX_VERSION) {
    throw new ConfigError(
      `the sidecar chose worker protocol ${welcome.version}, this SDK speaks ${MIN_VERSION} to ${MAX_VERSION}; use a matching version of the package`);
  }
  for (const store of welcome.stores) {
    if (!["KeyValue", "Window", "Session"].includes(store.type)) {
      throw new ConfigError(`store "${store.name}" has type ${store.type}, which this version of the TypeScript SDK does not know; use a later one`);
    }
  }
}

function checkInputs(app: App, inputs: string[]): void {
  for (const name of app.inputs) {
    if (!inputs.includes(name)) {
      throw new ConfigError(`the program handles input "${name}", which the manifest does not declare; inputs: ${listed(inputs)}`);
    }
  }
  for (const name of inputs) {
    if (!app.handlers.has(name)) {
      throw new ConfigError(
        `the manifest declares input "${name}", for which the program has no handler; add app.on("${name}", ...). Handlers exist for: ${listed(app.inputs)}`);
    }
  }
}

/** Handlers of timers, and of windows and sessions that close, are for what the manifest has. */
function checkTime(app: App, welcome: Welcome): void {
  const [timer] = app.timers.values();
  if (timer !== undefined && !welcome.timers) {
    throw new ConfigError(`the program handles timer "${timer.timer.name}", and the manifest has no timers; add "timers: {}" under spec`);
  }
  const closing = welcome.stores.filter((store) => store.final).map((store) => store.name);
  for (const name of closing) {
    if (!app.closings.has(name)) {
      throw new ConfigError(`store "${name}" has emit: Final in the manifest, and the program has no handler for what closes; add app.onClose(...)`);
    }
  }
  for (const name of app.closings.keys()) {
    if (!closing.includes(name)) {
      throw new ConfigError(`the program handles closing windows or sessions of "${name}"; stores with emit: Final in the manifest: ${listed(closing)}`);
    }
  }
}
