/** What the SDK logs to; `console`, pino and winston fit. */
export interface Logger {
  /** What goes as it should: connections made, ended in good order. */
  info(message: string): void;
  /** What is done again: connections that broke. */
  warn(message: string): void;
  /** What somebody has to look at. */
  error(message: string): void;
}

const line = (level: string) => (message: string) => {
  process.stderr.write(`millstream: ${level}${message}\n`);
};

/** Lines on standard error, where `millstream run` shows them. */
export const consoleLogger: Logger = { info: line(""), warn: line("warning: "), error: line("error: ") };

/** Says nothing: for tests. */
export const silentLogger: Logger = { info: () => {}, warn: () => {}, error: () => {} };
