// SPDX-License-Identifier: Apache-2.0
// Tephra's tokenizer beside tiktoken (its npm package: Rust compiled to WebAssembly, run by node) on
// the same text, in one run, with the same vocabulary of 100,000 tokens. Also compares every id.
//
//   npm install --prefix bench --no-save --ignore-scripts tiktoken@1.0.22
//   node bench/tokenizer_peer.mjs build/release/tephra TEXT_FILE [WORK_FOLDER]
//
// Writes WORK_FOLDER/cl100k/tokenizer.json (default build/tokenizer-peer) from the package's table.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const [tephra, textFile, work = "build/tokenizer-peer"] = process.argv.slice(2);
if (!tephra || !textFile) {
  console.error("usage: node bench/tokenizer_peer.mjs TEPHRA_BINARY TEXT_FILE [WORK_FOLDER]");
  process.exit(2);
}
const require = createRequire(import.meta.url);
const { Tiktoken } = require("tiktoken");
const table = require("tiktoken/encoders/cl100k_base.json");

// "! FIRST_RANK TOKEN TOKEN ..." a line, tokens in base64.
function readRanks(text) {
  const ranks = new Map();
  for (const line of text.split("\n")) {
    const [, first, ...tokens] = line.split(" ");
    tokens.forEach((t, i) => ranks.set(Buffer.from(t, "base64").toString("latin1"), Number(first) + i));
  }
  return ranks;
}

// The two parts that a token is merged from: merge its bytes by the ranks below its own.
function partsOf(token, ranks) {
  const own = ranks.get(token);
  let parts = [...token];
  while (parts.length > 2) {
    let best = -1, lowest = own;
    for (let i = 0; i + 1 < parts.length; ++i) {
      const rank = ranks.get(parts[i] + parts[i + 1]) ?? Infinity;
      if (rank < lowest) [best, lowest] = [i, rank];
    }
    if (best < 0) throw new Error(`token ${own} has no two parts`);
    parts.splice(best, 2, parts[best] + parts[best + 1]);
  }
  return parts;
}

function byteAlphabet() {
  const chars = [];
  for (let b = 0, next = 256; b < 256; ++b) {
    const printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    chars.push(String.fromCodePoint(printable ? b : next++));
  }
  return chars;
}

function tokenizerJson(ranks) {
  const alphabet = byteAlphabet();
  const spell = (token) => [...token].map((c) => alphabet[c.charCodeAt(0)]).join("");
  const ordered = [...ranks].sort((a, b) => a[1] - b[1]);
  const merges = ordered.filter(([t]) => t.length > 1).map(([t]) => partsOf(t, ranks).map(spell));
  return {
    version: "1.0",
    added_tokens: Object.entries(table.special_tokens).map(([content, id]) => ({
      id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true })),
    normalizer: null,
    pre_tokenizer: { type: "Sequence", pretokenizers: [
      { type: "Split", pattern: { Regex: table.pat_str }, behavior: "Isolated", invert: false },
      { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false }] },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: { type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: null,
      end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: false,
      vocab: Object.fromEntries(ordered.map(([t, rank]) => [spell(t), rank])), merges },
  };
}

function documents(text, chars) {
  const list = [];
  for (let at = 0; at < text.length; at += chars) list.push(text.slice(at, at + chars));
  return list;
}

function bestRate(encoder, texts, bytes, seconds = 3) {
  let wall = Infinity, cpu = Infinity;
  const start = performance.now();
  do {
    const before = performance.now(), cpuBefore = process.cpuUsage();
    for (const t of texts) encoder.encode_ordinary(t);
    wall = Math.min(wall, performance.now() - before);
    const used = process.cpuUsage(cpuBefore);
    cpu = Math.min(cpu, (used.user + used.system) / 1000);
  } while (performance.now() - start < 1000 * seconds);
  return { mb_per_s: bytes / wall / 1000, cpu_mb_per_s: bytes / cpu / 1000 };
}

// Text that is hard on split patterns: random characters of many kinds.
function hardText(length) {
  const kinds = " \n\r\t'sSltTreEvVmdD09.,/_é́ⅣЖ物理🙂‍🚀ſǅʰः٣ אب€½①  \u2028\u180e";
  const chars = [...kinds];
  let state = 1, text = "";
  for (let i = 0; i < length; ++i) {
    state = (state * 48271) % 2147483647;
    text += chars[state % chars.length];
  }
  return text;
}

function compareIds(encoder, folder, name, text) {
  const file = path.join(work, `${name}.txt`);
  fs.writeFileSync(file, text);
  const ours = execFileSync(tephra, ["tokenizer", "encode", "--tokenizer", folder, "--file", file],
    { maxBuffer: 1 << 30 }).toString().trim().split(",").map(Number);
  const theirs = [...encoder.encode_ordinary(text)];
  const at = theirs.findIndex((id, i) => id !== ours[i]);
  if (at >= 0 || ours.length !== theirs.length) {
    console.error(`${name}: ids differ at token ${at}: tiktoken ${theirs[at]}, tephra ${ours[at]}`);
    process.exit(3);
  }
  return theirs.length;
}

const folder = path.join(work, "cl100k");
fs.mkdirSync(folder, { recursive: true });
fs.writeFileSync(path.join(folder, "tokenizer.json"), JSON.stringify(tokenizerJson(readRanks(table.bpe_ranks))));

const encoder = new Tiktoken(table.bpe_ranks, table.special_tokens, table.pat_str);
const text = fs.readFileSync(textFile, "utf8");
const bytes = Buffer.byteLength(text);
const equal = { text: compareIds(encoder, folder, "text", text),
                hard: compareIds(encoder, folder, "hard", hardText(400000)) };
const manifest = path.join(path.dirname(require.resolve("tiktoken")), "package.json");
const peer = {
  name: `tiktoken ${JSON.parse(fs.readFileSync(manifest, "utf8")).version} (npm, WebAssembly) on node ${process.version}`,
  documents_of_1_kb: bestRate(encoder, documents(text, 1000), bytes),
  one_document: bestRate(encoder, [text], bytes),
};
const own = JSON.parse(execFileSync(tephra,
  ["bench", "tokenizer", "--tokenizer", folder, "--text", textFile, "--seconds", "3", "--json"]).toString());
console.log(JSON.stringify({ equal_ids: equal, peer, tephra: own }, null, 2));
