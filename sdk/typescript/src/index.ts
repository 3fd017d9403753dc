/**
 * What a program imports to be a stream processor run by Millstream: handlers per input, keyed state, windows, timers, outputs.
 *
 * @packageDocumentation
 */
export { App, type Codecs, type Handler, type RunOptions } from "./app.js";
export { bytes, int, int64, json, string, type Codec } from "./codecs.js";
export { Context, Record } from "./context.js";
export {
  BatchVoided, ConfigError, DecodeError, MillstreamError, NoKeyError, NoSidecarError, OutputError, ProtocolError, RefusedError, RejectRecord,
  UndeclaredError,
} from "./errors.js";
export { consoleLogger, silentLogger, type Logger } from "./log.js";
export { Gathered, type CommittedHook, type Hook } from "./hooks.js";
export { Join, Lookup } from "./join.js";
export type { Header } from "./msgpack.js";
export { Output, type EmitOptions } from "./output.js";
export { Store } from "./store.js";
export { Table, type Range } from "./table.js";
export { Due, Timer, type Clock, type TimerHandler } from "./timer.js";
export { Visit, VisitEnd, Visited, type VisitEndHandler, type VisitHandler } from "./visit.js";
export { VERSION } from "./version.js";
export { ClosedSession, ClosedWindow, Session, SessionStore, Window, WindowStore, type CloseHandler, type CloseSessionHandler, type Merge, type SessionOptions } from "./window.js";
