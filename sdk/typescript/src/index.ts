/**
 * What a program imports to be a stream processor run by Millstream: handlers per input, keyed state, outputs.
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
export { Output, type EmitOptions } from "./output.js";
export { Store, type Range } from "./store.js";
export { VERSION } from "./version.js";
export type { Header } from "./wire.js";
