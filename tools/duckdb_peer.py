#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DuckDB's Parquet reader on one thread, for `tephra bench data --duckdb LIBDUCKDB.so` (from npm's
@duckdb/node-bindings-linux-x64): tools/duckdb_peer.py LIBDUCKDB.so DOCUMENTS.jsonl OUT.parquet writes the documents' texts
as Parquet with zstd and prints the MB/s at which the column is read, of the faster of two queries: one that
only asks for lengths, and one that fetches all texts."""
import ctypes
import json
import sys
import time

from make_parquet_vectors import Duck

REPEATS = 4


def main():
    duck = Duck(sys.argv[1])
    texts, parquet = sys.argv[2:]
    duck.run("SET threads = 1")
    duck.run(f"COPY (SELECT text FROM read_json('{texts}', columns={{text: 'VARCHAR'}}, format='newline_delimited', "
             f"maximum_object_size=268435456)) TO '{parquet}' (FORMAT parquet, CODEC 'zstd')")
    with open(texts, encoding="utf-8") as lines:
        size = sum(len(json.loads(line)["text"].encode()) for line in lines)
    best = 0
    for query in [f"SELECT max(strlen(text)) FROM read_parquet('{parquet}')", f"SELECT text FROM read_parquet('{parquet}')"]:
        for _ in range(REPEATS):
            result = (ctypes.c_uint64 * 16)()
            begin = time.perf_counter()
            assert duck.lib.duckdb_query(duck.con, query.encode(), ctypes.byref(result)) == 0
            best = max(best, size / 1e6 / (time.perf_counter() - begin))
            duck.lib.duckdb_destroy_result(ctypes.byref(result))
    print(json.dumps({"parquet text column": best}))


if __name__ == "__main__":
    main()
