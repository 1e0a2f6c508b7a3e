#!/usr/bin/env python3
"""Writes parquet/: small Parquet and Arrow files in every encoding, compression, nesting and page version that
pyarrow and datasets write, and the rows that ft is to read from them (*.jsonl)."""
import datetime as dt, decimal, json, math, os, shutil
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
import datasets, numpy, polars, pyarrow as pa, pyarrow.ipc, pyarrow.parquet as pq

HERE = Path(__file__).parent / "parquet"
UTC = dt.timezone.utc
WHEN = dt.datetime(2023, 4, 9, 0, 2, 53, 120000)
MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string()), ("calls", pa.list_(pa.struct([("name", pa.string())])))])
SCHEMA = pa.schema([
    ("text", pa.string()), ("large", pa.large_string()), ("bytes", pa.binary()), ("fixed", pa.binary(3)),
    ("i8", pa.int8()), ("u16", pa.uint16()), ("u32", pa.uint32()), ("i64", pa.int64()), ("u64", pa.uint64()),
    ("f16", pa.float16()), ("f32", pa.float32()), ("f64", pa.float64()), ("yes", pa.bool_()),
    ("day", pa.date32()), ("time", pa.time64("us")), ("ms", pa.timestamp("ms")), ("us", pa.timestamp("us", "UTC")),
    ("ns", pa.timestamp("ns")), ("small", pa.decimal128(7, 2)), ("price", pa.decimal128(30, 4)), ("none", pa.null()),
    ("ids", pa.list_(pa.int32())), ("deep", pa.list_(pa.list_(pa.string()))), ("messages", pa.list_(MESSAGE)),
    ("pair", pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])),
    ("map", pa.map_(pa.string(), pa.int32())), ("numbers", pa.map_(pa.int32(), pa.string()))])


def values():
    call = [{"name": "add"}, {"name": None}]
    full = dict(text="Zoë \"said\"\n\t\x01{%}", large="l" * 40, bytes=b"b\xc3\xa9", fixed=b"abc", i8=-7, u16=65535, u32=4294967295,
                i64=-2**63, u64=2**64 - 1, f16=numpy.float16(-1.5), f32=0.1, f64=1e300, yes=True, day=dt.date(1969, 2, 28), time=dt.time(23, 5, 6, 7),
                ms=WHEN, us=WHEN.replace(tzinfo=UTC), ns=WHEN, small=decimal.Decimal("-12345.67"), price=decimal.Decimal("98765432109876543210.0001"),
                none=None, ids=[1, -2, None, 2**31 - 1], deep=[["a", None], [], None, ["b"]],
                messages=[dict(role="user", content="2 + 2?", calls=None), dict(role="assistant", content=None, calls=call), None, dict(role="tool", content="", calls=[])],
                pair=dict(a=1, b=dict(c="x")), map=[("one", 1), ("no", None)], numbers=[(1, "one"), (-2, None)])
    rows = [full, {}, full | dict(f16=numpy.float16(6.1e-5), f32=math.nan, f64=-0.0, ids=[], deep=[], messages=[], map=[], numbers=[], pair=dict(a=None, b=None), day=dt.date(2024, 2, 29)),
            dict(text="", price=decimal.Decimal("-0.0001"), small=decimal.Decimal("0.05"), pair=dict(a=0, b=dict(c=None)), yes=False, ms=dt.datetime(1969, 12, 31, 23, 59, 59)),
            dict(f64=2.0, f32=1e20, ids=[7], deep=[None, [None]], messages=[dict(role=None, content="c", calls=[None])], us=dt.datetime(1, 1, 1, tzinfo=UTC), time=dt.time(0))]
    return [{name: row.get(name) for name in SCHEMA.names} for row in rows]


TOOLS = ['[{"type": "function", "n": 1.5}]', None, '{"a": {"b": null}}', '"text"', "[]"]


def many():
    rows = []
    for i in range(48):
        ids = [i * 1000 + k * k * (-1) ** k for k in range(i * 7 % 17)]
        rows.append({"prompt": None if i % 13 == 5 else f"What is {i} + {i * i}?", "word": ["red", "green", "blue"][i % 3],
                     "ids": ids, "n": (i * 2654435761) % 2**32 - 2**31, "x": i / 7, "ok": i % 5 > 1})
    return rows


MANY = pa.schema([("prompt", pa.string()), ("word", pa.string()), ("ids", pa.list_(pa.int64())), ("n", pa.int32()), ("x", pa.float64()), ("ok", pa.bool_())])


def plain(v, kind=None):
    """As ft writes it: see data/columnar/cell.h."""
    if v is None or isinstance(v, (float, numpy.floating)) and not math.isfinite(v):
        return None
    if isinstance(v, numpy.floating):
        return float(v)
    if isinstance(v, float):
        return float(numpy.float32(v)) if kind == pa.float32() else v
    if isinstance(v, bytes):
        return v.decode()
    if isinstance(v, decimal.Decimal):
        return float(v)
    if isinstance(v, (dt.date, dt.time)):
        return str(v)
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    if isinstance(v, list) and kind is not None and pa.types.is_map(kind):
        return dict(v) if pa.types.is_string(kind.key_type) else [list(x) for x in v]
    if isinstance(v, list):
        return [plain(x) for x in v]
    return v


def write_rows(name, rows, schema):
    lines = [json.dumps({k: plain(v, schema.field(k).type) for k, v in row.items()}, ensure_ascii=False) for row in rows]
    (HERE / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


def stream(name, tables, **options):
    with pa.OSFile(str(HERE / name), "wb") as f, pa.ipc.new_stream(f, tables[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as w:
        for table in tables:
            w.write_table(table)


def file(name, table, batch=None, **options):
    with pa.OSFile(str(HERE / name), "wb") as f, pa.ipc.new_file(f, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as w:
        w.write_table(table, max_chunksize=batch)


def write_values(rows):
    t = pa.Table.from_pylist(rows, schema=SCHEMA).append_column("tools", pa.ExtensionArray.from_storage(pa.json_(), pa.array(TOOLS)))
    quiet = dict(write_statistics=False)
    pq.write_table(t, HERE / "values-default.parquet", **quiet)
    pq.write_table(t, HERE / "values-plain-v2.parquet", use_dictionary=False, compression="zstd", data_page_version="2.0", store_schema=False, row_group_size=2, **quiet)
    old = t.drop_columns(["us"])  # in this form it would lose its zone
    pq.write_table(old, HERE / "values-old.parquet", version="1.0", compression="none", use_compliant_nested_type=False, store_schema=False, write_page_checksum=True,
                   use_deprecated_int96_timestamps=True, **quiet)
    stream("values-stream.arrow", [t.slice(0, 2), t.slice(2)])
    file("values-file.arrow", t, batch=3, compression="zstd")
    views = t.set_column(0, "text", t["text"].cast(pa.string_view())).set_column(1, "large", t["large"].cast(pa.string_view()))
    ids = pa.array([r["ids"] for r in rows], pa.list_view(pa.int32()))
    file("values-views.arrow", views.set_column(t.schema.get_field_index("ids"), "ids", ids), compression="lz4")


def write_many(rows):
    t = pa.Table.from_pylist(rows, schema=MANY)
    quiet = dict(write_statistics=False, data_page_size=100, write_batch_size=8, row_group_size=20)
    for codec, version in (("snappy", "1.0"), ("gzip", "2.0"), ("brotli", "1.0"), ("lz4", "2.0")):
        pq.write_table(t, HERE / f"many-{codec}.parquet", compression=codec, data_page_version=version, **quiet)
    pq.write_table(t, HERE / "many-fallback.parquet", compression="none", dictionary_pagesize_limit=200, **quiet)
    deltas = {"prompt": "DELTA_BYTE_ARRAY", "word": "DELTA_LENGTH_BYTE_ARRAY", "ids.list.element": "DELTA_BINARY_PACKED", "n": "DELTA_BINARY_PACKED", "x": "BYTE_STREAM_SPLIT", "ok": "RLE"}
    pq.write_table(t, HERE / "many-deltas.parquet", compression="zstd", use_dictionary=False, column_encoding=deltas, data_page_version="2.0", write_statistics=False)
    splits = {"n": "BYTE_STREAM_SPLIT", "x": "BYTE_STREAM_SPLIT", "ids.list.element": "BYTE_STREAM_SPLIT"}
    pq.write_table(t, HERE / "many-split.parquet", compression="none", use_dictionary=["prompt", "word"], column_encoding=splits, **quiet)
    words = t.set_column(1, "word", t["word"].dictionary_encode())
    more = words.slice(24).set_column(1, "word", pa.array(["violet"] + [r["word"] for r in rows[25:]]).dictionary_encode())
    stream("many-dictionary.arrow", [words.slice(0, 24), more])
    rows[24] = rows[24] | {"word": "violet"}
    write_rows("many-dictionary", rows, MANY)


def write_polars(rows):
    """Its files have no length before the schema: only the footer leads to it."""
    polars.DataFrame(rows, {"prompt": polars.String, "word": polars.Categorical, "ids": polars.List(polars.Int64), "n": polars.Int32, "x": polars.Float64, "ok": polars.Boolean}).write_ipc(
        HERE / "many-polars.arrow", compression="lz4", record_batch_size=20)


def write_folders(rows):
    for name in ("saved", "splits"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    features = datasets.Features({"prompt": datasets.Value("string"), "word": datasets.Value("string")})
    data = datasets.Dataset.from_list([{k: r[k] for k in features} for r in rows], features=features)
    data.select(range(6)).save_to_disk(HERE / "saved", num_shards=2)
    datasets.DatasetDict({"train": data.select(range(3)), "test": data.select(range(3, 5))}).save_to_disk(HERE / "splits")


def write_tokens():
    """The samples of tests/data/stream_test.cpp: [i, i, ...] of 2 to 5 tokens."""
    t = pa.table({"input_ids": pa.array([[i] * (2 + i % 4) for i in range(50)], pa.list_(pa.int32()))})
    pq.write_table(t, HERE / "tokens.parquet", row_group_size=7, write_statistics=False, store_schema=False)
    stream("tokens.arrow", [t.slice(k, 9) for k in range(0, 50, 9)])


def write_preference():
    """The pair of tests/data/preference_test.cpp, with what its template sees beside the messages."""
    turn = lambda role, text: [{"role": role, "content": text}]
    t = pa.table({"prompt": [turn("user", "has")], "chosen": [turn("assistant", "a")], "rejected": [turn("assistant", "t")],
                  "tools": ['[{"name": "Ada"}]'], "chat_template_kwargs": [{"begin": "Ada "}], "other": [1]})
    pq.write_table(t, HERE / "preference.parquet", write_statistics=False, store_schema=False)


HERE.mkdir(exist_ok=True)
write_rows("values", [row | {"tools": tools and json.loads(tools)} for row, tools in zip(values(), TOOLS)], SCHEMA.append(pa.field("tools", pa.string())))
write_rows("many", many(), MANY)
write_values(values())
write_many(many())
write_polars(many())
write_folders(many())
write_tokens()
write_preference()
