#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DuckDB reads the Parquet files that a stage writes: same rows, same values, and the types a user
expects. Arguments: the tephra binary, the source folder, a folder for npm's packages. Needs npm and
its registry, once."""
import json
import pathlib
import platform
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import npm  # noqa: E402

DUCKDB = "@duckdb/node-bindings-linux-x64@1.5.6-r.1"


def install(folder):
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        print("skipped: DuckDB's library is fetched for Linux on x86-64 only")
        sys.exit(npm.SKIPPED)
    npm.install(folder, DUCKDB)
    return next(folder.glob("node_modules/@duckdb/*/libduckdb.so"))


def make_rows():
    rows = []
    for i in range(3000):
        row = {"text": f"größe {i} " + "你好 \"quoted\"\n" * (i % 40), "n": i * 7919 - 10**7, "url": f"http://a.b/{i % 9}"}
        if i % 3:
            row["score"] = i / 8
        if i % 5 == 0:
            row["flag"] = i % 2 == 0
        if i % 4:
            row["quality_prob"] = [i / 16, None, 1.0, 0.25][:i % 5]
            row["labels"] = [f"l{i % 3}"] * (i % 3)
        if i % 7 == 0:
            row["meta"] = {"lang": "de", "tags": [i, None]}
        rows.append(row)
    return rows


def mix(tephra, source, out):
    subprocess.run([tephra, "data", "mix", source, "--out", out, "--weight", f"{source.name}=1", "--output-format",
                    "parquet", "--quiet"], check=True, timeout=120, stdout=subprocess.DEVNULL)


def check_foreign(duck, tephra, scratch):
    """A file of DuckDB's with lists, structs and numbers that are not finite, through a stage: the same to DuckDB."""
    (scratch / "duck").mkdir()
    duck.run("CREATE TABLE a AS SELECT 'text ' || i AS text, [i / 8, CASE WHEN i % 5 = 0 THEN 'nan'::DOUBLE END] AS q, "
             "CASE WHEN i % 7 = 0 THEN '-inf'::DOUBLE ELSE i / 4 END AS s, {'a': i, 'b': ['x']} AS m FROM range(5000) r(i)")
    duck.run(f"COPY a TO '{scratch}/duck/a.parquet' (FORMAT parquet, CODEC 'brotli', PARQUET_VERSION 'V2')")
    mix(tephra, scratch / "duck", scratch / "foreign")
    duck.run(f"COPY (SELECT count(*) AS n FROM a JOIN '{scratch}/foreign/documents/duck/a.parquet' b USING (text) "
             "WHERE a.q IS NOT DISTINCT FROM b.q AND a.s = b.s AND to_json(a.m)::JSON = b.m) "
             f"TO '{scratch}/same.json' (FORMAT json)")
    same = json.loads((scratch / "same.json").read_text())["n"]
    assert same == 5000, same


def main():
    tephra, source, packages = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
    library = install(packages)
    sys.path.insert(0, str(source / "tools"))
    from make_parquet_vectors import Duck  # pylint: disable=import-outside-toplevel
    duck = Duck(str(library))
    rows = make_rows()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "web").mkdir()
        with open(scratch / "web" / "a.jsonl", "w", encoding="utf-8") as out:
            out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        mix(tephra, scratch / "web", scratch / "out")
        check_foreign(duck, tephra, scratch)
        made = scratch / "out" / "documents" / "web" / "a.parquet"
        duck.run(f"COPY (SELECT * FROM read_parquet('{made}')) TO '{scratch}/back.jsonl' (FORMAT json)")
        duck.run(f"COPY (SELECT column_name AS name, column_type AS type FROM (DESCRIBE SELECT * FROM "
                 f"read_parquet('{made}'))) TO '{scratch}/types.jsonl' (FORMAT json)")
        back = [json.loads(line) for line in open(scratch / "back.jsonl", encoding="utf-8")]
        types = {row["name"]: row["type"] for row in map(json.loads, open(scratch / "types.jsonl", encoding="utf-8"))}
    want_types = {"text": "VARCHAR", "n": "BIGINT", "url": "VARCHAR", "flag": "BOOLEAN", "meta": "JSON",
                  "score": "DOUBLE", "quality_prob": "DOUBLE[]", "labels": "VARCHAR[]", "tephra_id": "VARCHAR", "tephra_other": "JSON"}
    assert types == want_types, types
    assert len(back) == len(rows), len(back)
    for i, (got, row) in enumerate(zip(back, rows)):
        want = dict.fromkeys(want_types) | row | {"tephra_id": f"web/a:{i + 1}"}
        assert got == want, (i, got, want)
    print(f"DuckDB read {len(rows)} rows of {len(want_types)} columns as they were written")


if __name__ == "__main__":
    main()
