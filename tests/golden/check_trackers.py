#!/usr/bin/env python3
"""Reads the trackers' files of a run with wandb, mlflow and tensorboard, and compares every row with log.jsonl.

    check_trackers.py RUN        (a run's folder, made with report_to tensorboard, wandb and mlflow)
"""
import json
import os
import struct
import sys
import zlib
from pathlib import Path

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
import mlflow  # noqa: E402
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402
from tensorboard.plugins.hparams import plugin_data_pb2  # noqa: E402
from wandb.proto import wandb_internal_pb2 as pb  # noqa: E402

RUN = Path(sys.argv[1])
ROWS = [json.loads(line) for line in (RUN / "log.jsonl").read_text().splitlines()]
STEPS = [r for r in ROWS if "loss" in r]
EVALUATIONS = [r for r in ROWS if "eval_loss" in r]
END = ROWS[-1]
SETTINGS = json.loads((RUN / "run.json").read_text())


def wandb_records(path):
    data = path.read_bytes()
    assert data[:4] == b":W&B" and struct.unpack("<HB", data[4:7]) == (0xBEE1, 0)
    at, whole = 7, b""
    while at < len(data):
        if (room := 32768 - at % 32768) < 7:
            at += room
            continue
        crc, size, kind = struct.unpack("<IHB", data[at:at + 7])
        piece = data[at + 7:at + 7 + size]
        assert zlib.crc32(bytes([kind]) + piece) == crc
        at += 7 + size
        whole = piece if kind in (1, 2) else whole + piece
        if kind in (1, 4):
            record = pb.Record()
            record.ParseFromString(whole)
            yield record


def check_wandb():
    [path] = RUN.glob("wandb/offline-run-*/run-*.wandb")
    records = list(wandb_records(path))
    assert [r.num for r in records] == list(range(1, len(records) + 1))
    run = next(r.run for r in records if r.HasField("run"))
    assert path.name == f"run-{run.run_id}.wandb" and path.parent.name.endswith(run.run_id)
    config = {u.key: json.loads(u.value_json) for u in run.config.update}
    assert config == {k: v for k, v in SETTINGS.items() if k != "$schema"}
    rows = [{i.nested_key[0]: json.loads(i.value_json) for i in r.history.item} for r in records if r.HasField("history")]
    steps = [r for r in rows if "train/loss" in r]
    assert [(r["train/global_step"], r["train/loss"], r["train/learning_rate"]) for r in steps] == \
        [(r["step"], r["loss"], r["learning_rate"]) for r in STEPS]
    assert [(r["train/global_step"], r["eval/loss"], r["eval/perplexity"]) for r in rows if "eval/loss" in r] == \
        [(r["step"], r["eval_loss"], r["perplexity"]) for r in EVALUATIONS]
    assert [r["_step"] for r in rows] == list(range(len(rows)))
    summary = {}
    for record in records:
        for u in record.summary.update:
            summary[u.nested_key[0]] = json.loads(u.value_json)
    assert summary["train/train_loss"] == END["train_loss"] and summary["train/loss"] == STEPS[-1]["loss"]
    assert any(i.key == "proc.memory.rssMB" for r in records for i in r.stats.item)
    assert records[-1].HasField("exit") and records[-1].exit.exit_code == 0
    print(f"wandb        {len(records)} records, {len(rows)} rows, {len(config)} sections of settings, the summary")


def check_mlflow():
    client = mlflow.MlflowClient(tracking_uri=(RUN / "mlruns").absolute().as_uri())
    [experiment] = client.search_experiments()
    [run] = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED" and run.info.run_name
    history = {k: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, k)] for k in run.data.metrics}
    for name in ("loss", "learning_rate", "grad_norm", "tokens_per_second"):
        assert history[name] == [(r["step"], r[name]) for r in STEPS if r[name] is not None], name
    for name in ("eval_loss", "perplexity"):
        assert history.get(name, []) == [(r["step"], r[name]) for r in EVALUATIONS], name
    assert history["train_loss"] == [(END["step"], END["train_loss"])]
    assert history["memory/total"][-1][1] == END["memory"]["total"]
    assert "system/process_memory_mb" in history
    assert float(run.data.params["training.learning_rate"]) == SETTINGS["training"]["learning_rate"]
    assert run.data.params["model.model_name_or_path"] == SETTINGS["model"]["model_name_or_path"]
    assert [a.path for a in client.list_artifacts(run.info.run_id)] == ["run.json"]
    print(f"mlflow       {sum(map(len, history.values()))} values of {len(history)} metrics, {len(run.data.params)} parameters")


def check_tensorboard():
    events = EventAccumulator(str(RUN / "runs"), size_guidance={"scalars": 0})
    events.Reload()
    for name, key in (("train/loss", "loss"), ("train/learning_rate", "learning_rate")):
        values = [(e.step, struct.pack("f", e.value)) for e in events.Scalars(name)]
        assert values == [(r["step"], struct.pack("f", r[key])) for r in STEPS], name
    [text] = events.Tensors("config")
    assert json.loads(text.tensor_proto.string_val[0].decode().strip("`").removeprefix("json")) == SETTINGS
    plugin = events.PluginTagToContent("hparams")
    data = {tag.rsplit("/", 1)[1]: plugin_data_pb2.HParamsPluginData.FromString(content) for tag, content in plugin.items()}
    hparams = data["session_start_info"].session_start_info.hparams
    assert hparams["training.learning_rate"].number_value == SETTINGS["training"]["learning_rate"]
    assert {i.name for i in data["experiment"].experiment.hparam_infos} == set(hparams)
    tags = {m.name.tag for m in data["experiment"].experiment.metric_infos}
    assert tags <= set(events.Tags()["scalars"]) and "train/train_loss" in tags
    assert data["session_end_info"].session_end_info.status == 1
    print(f"tensorboard  {len(STEPS)} rows, the settings as text, {len(hparams)} hyperparameters, {len(tags)} metrics")


check_wandb()
check_mlflow()
check_tensorboard()
