// What WELCOME declares joined with the program's handlers. Read-only, shared by all batches of a session.
import type { App, Registered } from "./app.js";
import { ConfigError, listed } from "./errors.js";
import { HELLO_FRAME_CAP, MAX_FRAME_CAP, MAX_VERSION, MIN_VERSION, type Int, type Port, type Welcome } from "./wire.js";

export interface InputPort {
  name: string;
  topic: string;
  registered: Registered;
}

export class Schema {
  readonly processor: string;
  readonly session: Int;
  readonly inputs: InputPort[];
  readonly outputs: Port[];
  readonly stores: Port[];
  readonly outputIds: ReadonlyMap<string, number>;
  readonly storeIds: ReadonlyMap<string, number>;
  readonly frameCap: number;
  readonly deadline: number;
  readonly minTimestamp: number;
  readonly maxTimestamp: number;

  /** Throws ConfigError where program and manifest do not fit. */
  constructor(welcome: Welcome, app: App) {
    if (welcome.version < MIN_VERSION || welcome.version > MAX_VERSION) {
      throw new ConfigError(
        `the sidecar chose worker protocol ${welcome.version}, this SDK speaks ${MIN_VERSION} to ${MAX_VERSION}; use a matching version of the package`);
    }
    refuseUnbuilt(welcome);
    checkInputs(app, welcome.inputs.map((port) => port.name));
    this.processor = welcome.processor;
    this.session = welcome.session;
    this.inputs = welcome.inputs.map(({ name, topic }) => ({ name, topic: topic || name, registered: app.handlers.get(name)! }));
    this.frameCap = Math.min(Math.max(welcome.frameCap, HELLO_FRAME_CAP), MAX_FRAME_CAP);
    this.outputs = welcome.outputs.map((port) => ({ ...port, max: port.max || this.frameCap }));
    this.stores = welcome.stores.map((port) => ({ ...port, max: port.max || this.frameCap }));
    this.outputIds = new Map(this.outputs.map((port, id) => [port.name, id]));
    this.storeIds = new Map(this.stores.map((port, id) => [port.name, id]));
    this.deadline = welcome.deadline;
    this.minTimestamp = welcome.minTimestamp;
    this.maxTimestamp = welcome.maxTimestamp;
  }
}

/** Names what this version cannot do yet, instead of ignoring it. */
function refuseUnbuilt(welcome: Welcome): void {
  for (const what of ["joins", "lookups"] as const) {
    if (welcome[what].length > 0) {
      throw new ConfigError(`the manifest declares ${what} (${listed(welcome[what].map((port) => port.name))}): not supported yet by the TypeScript SDK`);
    }
  }
  for (const store of welcome.stores) {
    if (store.type !== "KeyValue") throw new ConfigError(`store "${store.name}" has type ${store.type}: not supported yet by the TypeScript SDK`);
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
