#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/parquet: files that DuckDB makes in every codec and page version, and rows.jsonl, what they hold.
Usage: tools/make_parquet_vectors.py LIBDUCKDB.so FOLDER (the library is in npm's @duckdb/node-bindings-linux-x64)."""
import ctypes
import json
import pathlib
import random
import sys


class Duck:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.db, self.con = ctypes.c_void_p(), ctypes.c_void_p()
        assert self.lib.duckdb_open(None, ctypes.byref(self.db)) == 0
        assert self.lib.duckdb_connect(self.db, ctypes.byref(self.con)) == 0

    def run(self, sql):
        result = (ctypes.c_uint64 * 16)()
        if self.lib.duckdb_query(self.con, sql.encode(), ctypes.byref(result)) != 0:
            self.lib.duckdb_result_error.restype = ctypes.c_char_p
            raise SystemExit(f"{sql}: {self.lib.duckdb_result_error(ctypes.byref(result)).decode()}")


def write_nested(duck, folder):
    """Lists, structs and lists of both, with nulls and nothing at every level; and what DuckDB itself makes of them."""
    duck.run("CREATE TABLE nested AS SELECT i, "
             "CASE WHEN i % 7 = 0 THEN NULL WHEN i % 5 = 0 THEN [] "
             "ELSE list_transform(range(i % 4 + 1), lambda x: CASE WHEN (x + i) % 6 = 0 THEN NULL ELSE x / 8 + i END) END "
             "AS quality_prob, "
             "CASE WHEN i % 3 = 0 THEN NULL ELSE list_transform(range(i % 5), lambda x: 'größe \"' || x || '\"') END AS words, "
             "[[i, NULL], [], NULL, [i + 1]] AS deep, "
             "CASE WHEN i % 4 = 0 THEN NULL ELSE {'lang': 'de', 'score': CASE WHEN i % 6 = 0 THEN NULL ELSE i / 4 END, "
             "'tags': CASE WHEN i % 9 = 0 THEN NULL ELSE [i % 2 = 0, NULL] END} END AS meta, "
             "CASE WHEN i % 2 = 0 THEN [{'a': i, 'b': 'x'}, NULL, {'a': NULL, 'b': NULL}] ELSE [] END AS rows "
             "FROM range(200) r(i)")
    duck.run(f"COPY nested TO '{folder}/nested.jsonl' (FORMAT json)")
    for name, options in {"nested": "", "nested-v2": ", PARQUET_VERSION 'V2'"}.items():
        duck.run(f"COPY nested TO '{folder}/{name}.parquet' (FORMAT parquet, CODEC 'zstd'{options})")
    duck.run(f"COPY (SELECT MAP {{'k': 1, 'l': NULL}} AS m) TO '{folder}/map.parquet' (FORMAT parquet)")


def main():
    duck, folder = Duck(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(5)
    rows = []
    for i in range(300):
        text = " ".join(rng.choice(["alpha", "beta", "größe", "你好", "\"quote\"", "line\nbreak"]) for _ in range(i % 23))
        rows.append({"text": text if i % 17 else None, "source": ["web", "books"][i % 2], "n": i * 7919 - 1000000,
                     "small": i % 5, "score": None if i % 11 == 0 else i / 8, "flag": i % 3 == 0})
    with open(folder / "rows.jsonl", "w", encoding="utf-8") as out:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    duck.run(f"CREATE TABLE t AS SELECT text, source, n::BIGINT AS n, small::INTEGER AS small, score::DOUBLE AS score, "
             f"flag FROM read_json('{folder}/rows.jsonl', columns={{text:'VARCHAR', source:'VARCHAR', n:'BIGINT', "
             "small:'INTEGER', score:'DOUBLE', flag:'BOOLEAN'})")
    for codec in ["uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4_raw"]:
        duck.run(f"COPY t TO '{folder}/{codec}.parquet' (FORMAT parquet, CODEC '{codec}')")
    duck.run(f"COPY t TO '{folder}/v2.parquet' (FORMAT parquet, CODEC 'zstd', PARQUET_VERSION 'V2')")
    duck.run(f"COPY t TO '{folder}/v2-delta.parquet' (FORMAT parquet, CODEC 'zstd', PARQUET_VERSION 'V2', "
             "DICTIONARY_SIZE_LIMIT 1)")
    duck.run(f"COPY (SELECT i::INTEGER AS i FROM range(5000) r(i)) TO '{folder}/groups.parquet' "
             "(FORMAT parquet, CODEC 'zstd', ROW_GROUP_SIZE 2048)")
    write_nested(duck, folder)
    duck.run(f"COPY (SELECT d::DOUBLE AS d, f::FLOAT AS f FROM (VALUES ('1.5', '0.1'), ('nan', '-inf'), ('inf', 'nan'), "
             f"(NULL, '2')) v(d, f)) TO '{folder}/not-finite.parquet' (FORMAT parquet)")
    duck.run("COPY (SELECT '12345678-9abc-def0-1234-56789abcdef0'::UUID AS u, "
             "(-12345678901234567890123456789.125)::DECIMAL(38,3) AS d, 0::DECIMAL(30,2) AS z, "
             "'\\x00\\xFF'::BLOB AS b, 'plain'::BLOB AS p, TIMESTAMP_NS '2024-02-29 23:59:58.000000025' AS n) "
             f"TO '{folder}/bytes.parquet' (FORMAT parquet)")
    duck.run("COPY (SELECT 18446744073709551615::UBIGINT AS u, 4294967295::UINTEGER AS v, 1.25::DECIMAL(18,2) AS d, "
             f"-0.05::DECIMAL(9,2) AS e, -7::INTEGER AS i) TO '{folder}/meanings.parquet' (FORMAT parquet)")
    duck.run("COPY (SELECT 'abcd' AS text, DATE '1969-12-30' AS d, TIMESTAMP '2024-02-29 23:59:58.25' AS t, "
             f"TIME '07:08:09' AS c, [1.5, 2.5] AS q) TO '{folder}/moments.parquet' (FORMAT parquet, COMPRESSION uncompressed)")


if __name__ == "__main__":
    main()
