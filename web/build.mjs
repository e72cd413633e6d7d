// Builds the pages' programs and their style into crates/html/assets, or with a directory as argument into that.
import { build } from 'esbuild';
import { fileURLToPath } from 'node:url';
import { join, resolve } from 'node:path';

const here = fileURLToPath(new URL('.', import.meta.url));
const out = process.argv[2] ? resolve(process.argv[2]) : join(here, '../crates/html/assets');

await build({
  absWorkingDir: here,
  entryPoints: { page: 'src/main.ts', fleet: 'src/fleet/main.ts' },
  outdir: out,
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['chrome100', 'firefox113', 'safari16.4'],
  charset: 'ascii',
  legalComments: 'none',
  banner: { js: '/* uPlot (MIT), (c) 2022 Leon Sorokin; unstarve (MIT or Apache-2.0) */' },
  logLevel: 'warning',
});
