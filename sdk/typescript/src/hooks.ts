import type { Context } from "./context.js";

/** A hook on the transactions of a task. See App.onBegin, App.onFinalize. */
export type Hook = (ctx: Context) => void | Promise<void>;
/** See App.onCommitted. */
export type CommittedHook = (task: number) => void | Promise<void>;

/** By capability. */
export interface Hooks {
  begin?: Hook;
  finalize?: Hook;
  committed?: CommittedHook;
}

/** What the tasks of a connection have gathered: by handle. */
export type GatheredValues = Map<Gathered<object>, object>;

/**
 * What a program gathers over many records of a task, for App.onFinalize to send: made by App.gathered. Each task has its own. It is
 * dropped when the sidecar takes back what it is made of (a transaction was aborted, the task went elsewhere); the records then come
 * again.
 */
export class Gathered<T extends object> {
  /** @internal */
  constructor(private readonly empty: () => T) {}

  /**
   * Changes what the task has gathered, when the batch of the record is done: a record that fails changes nothing. What `change`
   * throws fails the record. It must not be async.
   */
  change(ctx: Context, change: (gathered: T) => void): void {
    const { batch } = ctx;
    batch.checkValid();
    batch.defer(() => change(this.of(batch.gathered)));
  }

  /** Takes what the task has gathered so far; from now on it is empty again. */
  take(ctx: Context): T {
    ctx.batch.checkValid();
    const gathered = this.of(ctx.batch.gathered);
    ctx.batch.gathered.delete(this as unknown as Gathered<object>);
    return gathered;
  }

  private of(values: GatheredValues): T {
    const known = values.get(this as unknown as Gathered<object>) as T | undefined;
    if (known !== undefined) return known;
    const empty = this.empty();
    values.set(this as unknown as Gathered<object>, empty);
    return empty;
  }
}
