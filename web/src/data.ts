// What the page is given: see crates/html/src/blob.rs for the layout and crates/html/src/data for the meaning.

export type Severity = 'critical' | 'warning' | 'info';

export interface Culprit {
  comm: string;
  tids: number[];
  policy: string | null;
  prio: number | null;
  rule: string;
  ns: number;
  tgids?: number[];
  cgroups?: string[];
}

export interface Finding {
  id: string;
  severity: Severity;
  confidence: number;
  sentence: string;
  victim: {
    kind: string;
    comm: string;
    tids: number[];
    tasks: number;
    policy: string | null;
    prio: number | null;
    work: { function: string; workqueue: string | null } | null;
  };
  culprits: Culprit[];
  blame: Culprit[];
  waits: { count: number; total_ns: number; max_ns: number; p99_ns: number; owed_ns: number };
  cpus: number[];
  period_ns: number | null;
  price: { comm: string; tids: number[]; ns: number }[];
  evidence: string[];
  worst: { cpu: number; start_ns: number; end_ns: number }[];
  losses: string[];
  remedies: Remedy[];
}

export interface Remedy {
  id: string;
  text: string;
  apply: string;
  undo: string;
  risk: string;
  valid_on: string;
  proved?: Proved[];
}

/** What a remedy was proved to do on a real kernel. */
export interface Proved {
  kernel: string;
  this_series: boolean;
  victim?: string;
  scenario: string;
  answer: 'helped' | 'harmed' | 'no-difference' | 'not-shown' | 'not-made';
  metric: string;
  effect: number | null;
  low: number | null;
  high: number | null;
  seeds: number;
}

export interface Report {
  trace: {
    format: string;
    events: number;
    lost: number;
    cpus: number;
    kernel: string | null;
    too_little?: string;
    snapshot: boolean;
    waits_total_ns: number;
    waits_count: number;
    host?: string | null;
    clock?: string | null;
    clock_pairs?: { trace_ns: number; realtime_ns: number }[];
    start_utc?: string | null;
    end_utc?: string | null;
  };
  findings: Finding[];
  worst_waits: {
    comm: string;
    tid: number;
    cpu: number;
    start_ns: number;
    end_ns: number;
    blame: Culprit[];
  }[];
  losses: string[];
}

export interface Course {
  actors: number[];
  waits: number;
  total_ns: number;
  max_ns: number;
  interval: Uint16Array;
  count: Uint32Array;
  p50: Float32Array;
  p99: Float32Array;
  max: Float64Array;
}

export interface Moment {
  from: number;
  to: number;
  unit_ns: number;
  left_out: number;
  left_out_ns: number;
  kind: Uint8Array;
  cpu: Uint16Array;
  actor: Uint16Array;
  tid: Uint32Array;
  start: Uint32Array;
  length: Uint32Array;
  detail: Uint32Array;
}

export const enum Kind {
  Run,
  Wait,
  Piece,
  Wake,
  Irq,
  Softirq,
  Work,
  /** Runs that were merged. */
  Block,
}

export interface Trace {
  name: string;
  zero: string;
  span_ns: number;
  wall: string | null;
  wall_drift_ns: number;
  lanes: {
    width_ns: number;
    count: number;
    cpu: Uint16Array;
    busy: Uint8Array;
    waiting: Uint16Array;
    hidden: number;
  };
  verdict: { severity: Severity | null; text: string };
  report: Report;
  losses: string[];
  recording: {
    clock: string | null;
    recorded: [string, boolean][] | null;
    totals: Record<string, number>;
  };
  intervals: {
    width_ns: number;
    count: number;
    voluntary: Uint32Array;
    involuntary: Uint32Array;
    wakeups: Uint32Array;
    migrations: Uint32Array;
    waiting: Float32Array;
    running: Float32Array;
    rt: Float32Array;
    irq: Float32Array;
    softirq: Float32Array;
  };
  courses: Course[];
  blame: {
    victim: Uint16Array;
    occupant: Uint16Array;
    rule: Uint8Array;
    cpu: Uint16Array;
    ns: Float64Array;
    rules: string[];
  };
  places: {
    actor: Uint16Array;
    cpu: Uint16Array;
    ran: Float64Array;
    runs: Float64Array;
    waited: Float64Array;
    waits: Float64Array;
    longest: Float64Array;
  };
  interrupts: {
    actor: Uint16Array;
    cpu: Uint16Array;
    count: Float64Array;
    ns: Float64Array;
    longest: Float64Array;
  };
  moments: {
    list: Moment[];
    spots: {
      moment: Uint16Array;
      actor: Uint16Array;
      tid: Uint32Array;
      cpu: Uint16Array;
      start: Float64Array;
      end: Float64Array;
      rule: Uint8Array;
    };
  };
  findings: number[];
  actors: {
    name: string[];
    kind: Uint8Array;
    policy: (string | null)[];
    prio: (number | null)[];
    kernel_thread: (string | null)[];
    tids: number[][];
    tgids: number[][];
    members: Uint32Array;
    cgroup: (string | null)[];
    affinity: (string | null)[];
  };
  functions: string[];
}

export interface Role {
  kind: string;
  name: string;
}

interface RoleWaits {
  count: number;
  p50_ns: number;
  p99_ns: number;
  max_ns: number;
}

export interface Comparison {
  severity: Severity | null;
  text: string;
  report: {
    findings: {
      id: string;
      victim: Role;
      outcome: 'appeared' | 'worse' | 'milder' | 'vanished' | 'stays';
      a: Severity | null;
      b: Severity | null;
      sentence: string;
    }[];
    changes: {
      role: Role;
      metric: string;
      rule?: string;
      unit: string;
      a: number;
      b: number;
      interval: [number, number] | null;
      verdict: string;
    }[];
    waits: { role: Role; a: RoleWaits | null; b: RoleWaits | null }[];
    compared: number;
    losses: string[];
  };
}

export interface PageData {
  schema: string;
  generator: string;
  comparison: Comparison | null;
  rules: { word: string; meaning: string }[];
  traces: Trace[];
}

/** Reads the blob that the file carries. */
export async function load(): Promise<PageData> {
  const element = document.getElementById('data');
  const buffer = await unzip(fromBase64(element?.textContent ?? ''));
  element?.remove();
  return decode(buffer);
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function unzip(bytes: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).arrayBuffer();
}

function decode(buffer: ArrayBuffer): PageData {
  const length = new DataView(buffer).getUint32(0, true);
  const json = new TextDecoder().decode(new Uint8Array(buffer, 4, length));
  const base = Math.ceil((4 + length) / 8) * 8;
  return revive(JSON.parse(json), buffer, base) as PageData;
}

const ARRAYS = {
  f64: Float64Array,
  f32: Float32Array,
  u32: Uint32Array,
  u16: Uint16Array,
  u8: Uint8Array,
} as const;

/** Puts a typed array in place of each `{"$": type, "at": offset, "n": count}`. */
function revive(value: unknown, buffer: ArrayBuffer, base: number): unknown {
  if (Array.isArray(value)) return value.map((item) => revive(item, buffer, base));
  if (value === null || typeof value !== 'object') return value;
  const object = value as Record<string, unknown>;
  const type = object['$'];
  if (typeof type === 'string') {
    return new ARRAYS[type as keyof typeof ARRAYS](buffer, base + (object['at'] as number), object['n'] as number);
  }
  for (const key of Object.keys(object)) object[key] = revive(object[key], buffer, base);
  return object;
}
