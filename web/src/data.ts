// What the page is given: see crates/html/src/blob.rs for the layout and crates/html/src/data for the meaning. The types are
// made from those of the program that writes it.

export * from './data.generated';

/** Reads the blob that the file carries. */
export async function load<T>(): Promise<T> {
  const element = document.getElementById('data');
  const buffer = await unzip(fromBase64(element?.textContent ?? ''));
  element?.remove();
  return decode(buffer) as T;
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

function decode(buffer: ArrayBuffer): unknown {
  const length = new DataView(buffer).getUint32(0, true);
  const json = new TextDecoder().decode(new Uint8Array(buffer, 4, length));
  const base = Math.ceil((4 + length) / 8) * 8;
  return revive(JSON.parse(json), buffer, base);
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
