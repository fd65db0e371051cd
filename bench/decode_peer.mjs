// SPDX-License-Identifier: Apache-2.0
// Decoding by tephra and by llama.cpp's prebuilt CPU library, in turns on the same machine: bytes of weights
// that a token must read, over the time it took. Nothing that this downloads is kept in the tree.
//
//   npm install --prefix bench --no-save --ignore-scripts node-llama-cpp@3 @node-llama-cpp/linux-x64@3
//   tephra checkpoint random --config zaya1-8b --bits 8 --out /tmp/8bit
//   python3 bench/random_gguf.py /tmp/8.gguf 8
//   node bench/decode_peer.mjs build/release/tephra /tmp/8bit /tmp/8.gguf [tokens] [threads]
import {execFileSync} from 'node:child_process';
import os from 'node:os';
import {getLlama, LlamaLogLevel} from 'node-llama-cpp';

const [tephra, folder, gguf, tokensText, threadsText] = process.argv.slice(2);
if (!gguf) {
  console.error('usage: node decode_peer.mjs TEPHRA_BINARY MODEL_DIR FILE.gguf [tokens] [threads]');
  process.exit(2);
}
const tokens = Number(tokensText ?? 24);
const threads = Number(threadsText ?? os.availableParallelism());

function ours() {
  const out = execFileSync(tephra, ['bench', 'decode', '--model', folder, '--tokens', String(tokens),
    '--context', '16', '--threads', String(threads), '--json'], {stdio: ['ignore', 'pipe', 'ignore']});
  return JSON.parse(out);
}

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

async function theirs() {
  const llama = await getLlama({gpu: false, build: 'never', logLevel: LlamaLogLevel.error,
    maxThreads: threads});
  const model = await llama.loadModel({modelPath: gguf, gpuLayers: 0});
  const context = await model.createContext({contextSize: 512, batchSize: 64, threads});
  const sequence = context.getSequence();
  const bytes = model.size;  // of all tensors: each token reads them all
  const prompt = Array.from({length: 16}, (_, i) => 100 + i);
  const seconds = [];
  let last = process.hrtime.bigint();
  let count = 0;
  for await (const token of sequence.evaluate(prompt, {temperature: 0, yieldEogToken: true})) {
    const now = process.hrtime.bigint();
    if (count >= 3) seconds.push(Number(now - last) / 1e9);  // the first ones warm up
    last = now;
    if (++count >= tokens + 3) break;
  }
  await context.dispose();
  await model.dispose();
  return {bytes, best: Math.min(...seconds), median: median(seconds)};
}

const rows = [];
for (let turn = 0; turn < 2; ++turn) {
  const a = ours();
  rows.push({engine: 'tephra', 'MB a token': Object.values(a.bytes_per_step).reduce((x, y) => x + y) / 1e6,
    'tokens/s': a.tokens_per_s.median, 'GB/s median': a.gb_per_s.median, 'GB/s best': a.gb_per_s.best,
    'memory GB/s': a.read_ceiling_gb_per_s.median});
  const b = await theirs();
  const bytes = b.bytes;
  rows.push({engine: 'llama.cpp', 'MB a token': bytes / 1e6, 'tokens/s': 1 / b.median,
    'GB/s median': bytes / b.median / 1e9, 'GB/s best': bytes / b.best / 1e9,
    'memory GB/s': a.read_ceiling_gb_per_s.median});
}
console.log(`${os.cpus()[0].model}, ${threads} threads, ${tokens} tokens a turn`);
for (const row of rows) {
  console.log(Object.entries(row).map(([k, v]) => `${k} ${typeof v === 'number' ? v.toFixed(2) : v}`).join(', '));
}
