// The test kit's visits: what the sidecar keeps of them, and which rows come next.
import { VISIT } from "./batch_frame.js";
import { PAUSE, START, STOP } from "./visit.js";

/** A visit of the manifest. */
export interface TestVisit {
  name: string;
  /** The store it walks. */
  store: string;
}

/** A row of a visit, or (a key of null) its end. */
export type VisitedItem = { kind: typeof VISIT; visit: number; key: Buffer | null; time: number; data: Buffer | null };

interface Run {
  started: number;
  data: Buffer | null;
  after: string | undefined;
}

/** Rows per batch: fewer than a usual store has, so that tests meet several. */
const PAGE = 100;

/** `visits` by id; `store` is that of its store. */
export class KitVisits {
  private readonly runs = new Map<number, Run>();
  private readonly paused = new Set<number>();

  constructor(private readonly visits: readonly { name: string; store: number }[], private readonly rows: readonly Map<string, Buffer>[]) {}

  /** One op of a RESULT; `time` is that of the item that made it. */
  apply(visit: number, what: number, data: Buffer | null, time: number): void {
    if (what === START) this.runs.set(visit, { started: time, data, after: undefined });
    else if (what === STOP) this.runs.delete(visit);
    if (what === PAUSE) this.paused.add(visit);
    else this.paused.delete(visit);
  }

  /** The next rows of the first visit, by name, that is not paused; or its end. Empty: there is none. */
  next(): VisitedItem[] {
    const [visit] = [...this.runs.keys()].filter((id) => !this.paused.has(id)).sort((a, b) => (this.nameOf(a) < this.nameOf(b) ? -1 : 1));
    if (visit === undefined) return [];
    const { started, data, after } = this.runs.get(visit)!;
    const item = (key: Buffer | null): VisitedItem => ({ kind: VISIT, visit, key, time: started, data });
    const keys = [...this.rows[this.visits[visit]!.store]!.keys()].filter((key) => after === undefined || key > after).sort();
    return keys.length === 0 ? [item(null)] : keys.slice(0, PAGE).map((key) => item(Buffer.from(key, "latin1")));
  }

  /** A row, or the end, was handled or given up. */
  handled({ visit, key }: VisitedItem): void {
    if (key === null) this.runs.delete(visit);
    else this.runs.get(visit)!.after = key.toString("latin1");
  }

  underWay(): string[] {
    return [...this.runs.keys()].map((id) => this.nameOf(id)).sort();
  }

  private nameOf(id: number): string {
    return this.visits[id]!.name;
  }
}
