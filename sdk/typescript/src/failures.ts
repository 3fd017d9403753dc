// What a handler threw as the `failure` of a RESULT: class, type, where it happened in the program, whether to retry.
import { dirname, relative } from "node:path";
import { fileURLToPath } from "node:url";

import { DecodeError, OutputError, RejectRecord, UndeclaredError } from "./errors.js";
import type { Failure } from "./wire.js";

// The protocol allows 16 KiB; half of it is more than anybody reads.
const MAX_MESSAGE_BYTES = 8 << 10;
const MAX_FRAMES = 30;
const MAX_CAUSES = 4;
const PACKAGE = dirname(fileURLToPath(import.meta.url));

export function failureOf(error: unknown): Failure {
  const decode = error instanceof DecodeError;
  const output = error instanceof OutputError;
  return {
    class: decode ? "Decode" : output ? "Output" : "Handler",
    error: error instanceof Error ? error.name : typeof error,
    message: readable(error),
    retriable: !(decode || output || error instanceof RejectRecord || error instanceof UndeclaredError),
  };
}

/** What happened and where in the program's own code, the innermost place first; then the causes likewise. */
function readable(error: unknown): string {
  const parts: string[] = [];
  for (let seen = error, n = 0; seen !== undefined && seen !== null && n < MAX_CAUSES; ++n) {
    const prefix = n === 0 ? "" : "caused by: ";
    if (!(seen instanceof Error)) {
      parts.push(prefix + String(seen));
      break;
    }
    parts.push(`${prefix}${seen.name}: ${seen.message}`, ...ownFrames(seen));
    seen = (seen as { cause?: unknown }).cause;
  }
  return cut(parts.join("\n"));
}

// Frames of this package and of node say nothing to the user.
function ownFrames(error: Error): string[] {
  const frames = (error.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  return frames
    .map((line) => line.replace(/file:\/\/[^\s)]*/, (url) => place(url)))
    .filter((line) => !line.includes(PACKAGE) && !line.includes("node:") && !line.includes("<anonymous>"))
    .map((line) => `  ${line.trim()}`)
    .slice(0, MAX_FRAMES);
}

function place(url: string): string {
  const [, file, position] = /^(.*?)((?::\d+)*)$/.exec(url)!;
  const path = fileURLToPath(file!);
  if (path.startsWith(PACKAGE)) return path;
  const near = relative(process.cwd(), path);
  return (near.startsWith("..") ? path : near) + position!;
}

function cut(text: string): string {
  const data = Buffer.from(text);
  if (data.length <= MAX_MESSAGE_BYTES) return text;
  const end = new TextDecoder().decode(data.subarray(0, MAX_MESSAGE_BYTES - 60)).replace(/\ufffd+$/, "");
  return `${end}\n... (${data.length} bytes in all)`;
}
