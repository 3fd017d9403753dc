/** What the SDK logs to; `console`, pino and winston fit. */
export interface Logger {
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

const line = (level: string) => (message: string) => {
  process.stderr.write(`millstream: ${level}${message}\n`);
};

/** Lines on standard error, where `millstream run` shows them. */
export const consoleLogger: Logger = { info: line(""), warn: line("warning: "), error: line("error: ") };

export const silentLogger: Logger = { info: () => {}, warn: () => {}, error: () => {} };
