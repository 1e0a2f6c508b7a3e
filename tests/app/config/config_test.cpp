// A run's configuration: accepted values, every refusal with its text, overrides, and the effective
// configuration.
#include "app/config/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/files/file.h"
#include "engine/files/json.h"
#include "engine/settings/fields.h"
#include "engine/train/schedules/list.h"
#include "tests/app/config/config_text.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using namespace test;
using From = decltype(TrainingConfig::resume_from_checkpoint);

TEST(Config, Defaults) {
  const RunConfig c = parsed("");
  EXPECT_EQ(c.model.model_name_or_path, "m");
  EXPECT_FALSE(c.model.tokenizer_name_or_path);
  EXPECT_EQ(c.data.datasets.size(), 1u);
  EXPECT_EQ(c.data.datasets[0].path, "d.jsonl");
  EXPECT_EQ(c.lora.r, 8);
  EXPECT_EQ(std::get<std::string>(c.lora.target_modules), "all-linear");
  EXPECT_EQ(c.training.learning_rate, 2e-4);
  EXPECT_FALSE(c.training.bf16.has_value());
  EXPECT_EQ(c.training.gradient_checkpointing, Checkpointing::on);
  EXPECT_EQ(c.training.resume_from_checkpoint, From(Resume::none));
  EXPECT_EQ(c.finetuning_type, FinetuningType::lora);
}

// Default learning rates follow TRL's configurations; for adapters, ft's own examples.
TEST(Config, RatesFollowTheObjectiveUnlessTheyAreGiven) {
  const LrScheduler cosine = &schedules::kCosine, linear = &schedules::kLinear;
  const auto expect = [](const std::vector<std::string>& overrides, double rate, LrScheduler schedule,
                         bool usual) {
    const RunConfig c = parsed("", overrides);
    EXPECT_EQ(c.training.learning_rate, rate) << testing::PrintToString(overrides);
    EXPECT_EQ(c.training.lr_scheduler_type, schedule) << testing::PrintToString(overrides);
    EXPECT_EQ(c.usual_rate, usual) << testing::PrintToString(overrides);
  };
  expect({}, 2e-4, cosine, true);
  expect({"finetuning_type=full"}, 2e-5, cosine, true);
  for (const char* type : {"dpo", "kto", "orpo", "cpo", "simpo", "grpo"})
    for (const char* what : {"lora", "full"})
      expect({str("objective.type=", type), str("finetuning_type=", what)}, 1e-6, linear, true);
  expect({"objective.type=reward"}, 1e-4, linear, true);
  expect({"objective.type=rloo", "objective.reward_funcs=exact_match"}, 1e-6, linear, true);
  expect({"objective.type=ppo", "objective.reward_funcs=length", "objective.soft_punish_cache=2"}, 3e-6,
         linear, true);
  expect({"objective.type=dpo", "training.learning_rate=2e-4"}, 2e-4, linear, false);
  expect({"objective.type=dpo", "training.lr_scheduler_type=constant"}, 1e-6, &schedules::kConstant, true);
  const RunConfig again = parsed("", {"objective.type=dpo"});
  EXPECT_NE(effective_config(again).find("\"learning_rate\": 1e-06"), std::string::npos);
}

// Every run configuration in the repository can be read. Files with a model_type are models' configurations
// and are skipped.
TEST(Config, TheExamplesAreRight) {
  int runs = 0;
  for (const char* folder : {"configs", "configs/demo", "bench/gsm8k"}) {
    for (const auto& entry : std::filesystem::directory_iterator(source_path(folder))) {
      if (entry.path().extension() != ".json" || read_json(entry.path().string()).contains("model_type"))
        continue;
      EXPECT_NO_THROW(load_config(entry.path(), {})) << entry.path();
      ++runs;
    }
  }
  EXPECT_GE(runs, 6);
}

TEST(Config, ReadsEveryKindOfValue) {
  const RunConfig c = parsed(R"("$schema": "x.json", "finetuning_type": "full", "zero_stage": 3,
    "lora": {"target_modules": ["q_proj", "v_proj"], "exclude_modules": ".*head", "init_lora_weights": false,
             "rank_pattern": {"z": 4, "a": 2}, "alpha_pattern": {"z": 0.5}, "layers_to_transform": 3},
    "training": {"bf16": true, "seed": 1e3, "resume_from_checkpoint": true, "warmup_steps": 0.1,
                 "gradient_checkpointing": false},
    "evaluation": {"eval_strategy": "no", "greater_is_better": false},
    "logging": {"report_to": ["none"]}, "distributed": {"nproc_per_node": "auto"})");
  EXPECT_EQ(c.zero_optimization.stage, 3);
  EXPECT_EQ(std::get<1>(c.lora.target_modules), (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(std::get<0>(*c.lora.exclude_modules), ".*head");
  EXPECT_EQ(c.lora.init_lora_weights, lora::LoraInitWord(lora::LoraInit::random_b));
  EXPECT_EQ(c.lora.rank_pattern[0].first, "z");  // in the order written
  EXPECT_EQ(c.lora.rank_pattern[1].second, 2);
  EXPECT_EQ(c.lora.alpha_pattern[0].second, 0.5);
  EXPECT_EQ(*c.lora.layers_to_transform, std::vector<std::int64_t>{3});
  EXPECT_EQ(c.training.bf16, true);
  EXPECT_EQ(c.training.seed, 1000);
  EXPECT_EQ(c.training.resume_from_checkpoint, From(Resume::newest));
  EXPECT_EQ(c.training.warmup(30), 3);
  EXPECT_EQ(c.training.gradient_checkpointing, Checkpointing::off);
  EXPECT_EQ(c.evaluation.greater_is_better, false);
}

TEST(Config, StepsAreCountsOrParts) {
  EXPECT_EQ(steps_of(10, 55), 10);
  EXPECT_EQ(steps_of(0.1, 55), 6);  // rounded up
  EXPECT_EQ(steps_of(0, 55), 0);
  TrainingConfig t;
  t.warmup_ratio = 0.03;
  EXPECT_EQ(t.warmup(101), 4);
  t.warmup_steps = 7;
  EXPECT_EQ(t.warmup(101), 7);
}

TEST(Config, UnknownSettingsAreNamedWithTheLikelyOne) {
  EXPECT_EQ(refused("\"training\": {\n  \"learing_rate\": 1}"),
            "run.json:5: training.learing_rate: no such setting; do you mean learning_rate?");
  EXPECT_EQ(refused("\"lgging\": {}"), "run.json:4: lgging: no such setting; do you mean logging?");
  EXPECT_EQ(refused("\"lora\": {\"rank\": 4}"), "run.json:4: lora.rank: no such setting; do you mean r?");
  EXPECT_EQ(refused("\"training\": {\"eval_steps\": 4}"),
            "run.json:4: training.eval_steps: no such setting; do you mean evaluation.eval_steps?");
  EXPECT_EQ(refused("\"training\": {\"cutoff_len\": 4}"),
            "run.json:4: training.cutoff_len: no such setting; do you mean data.max_seq_length?");
  EXPECT_EQ(refused("\"training\": {\"qwxyz\": 4}"), "run.json:4: training.qwxyz: no such setting");
  EXPECT_EQ(refused("\"training\": {\"\\u001b[31m\": 4}"), "run.json:4: training.\\x1b[31m: no such setting");
  EXPECT_EQ(
      refusal("{\"model\": {\"model_name_or_path\": \"m\"}, \"data\": {\"datasets\": [\n{\"path\": \"d\",\n"
              "\"tipe\": \"text\"}]}}"),
      "run.json:3: data.datasets.0.tipe: no such setting; do you mean type?");
}

TEST(Config, WrongTypes) {
  EXPECT_EQ(refused("\"training\": {\"max_steps\": \"ten\"}"),
            "run.json:4: training.max_steps: expected a whole number, not \"ten\"");
  EXPECT_EQ(refused("\"training\": {\"max_steps\": 1.5}"),
            "run.json:4: training.max_steps: expected a whole number, not 1.5");
  EXPECT_EQ(refused("\"training\": {\"learning_rate\": [1]}"),
            "run.json:4: training.learning_rate: expected a number, not a list [...]");
  EXPECT_EQ(refusal("{\"model\": \"m\", \"data\": 3}"),
            "run.json:1: model: expected a section {...}, not \"m\"\n"
            "run.json:1: data: expected a section {...}, not 3");
  EXPECT_EQ(refused("\"training\": {\"fp16\": 0}"),
            "run.json:4: training.fp16: expected true or false, not 0");
  EXPECT_EQ(
      refused("\"training\": {\"optim\": null}"),
      "run.json:4: training.optim: expected adamw, adamw_8bit, paged_adamw_32bit, paged_adamw_8bit, lion, "
      "lion_8bit, paged_lion_32bit, paged_lion_8bit, ademamix, ademamix_8bit, paged_ademamix_32bit, "
      "paged_ademamix_8bit, sgd, adagrad, rmsprop, adafactor, muon, onebit_adam, not null");
  EXPECT_EQ(refused("\"training\": {\"output_dir\": 3}"),
            "run.json:4: training.output_dir: expected a string, not 3");
  EXPECT_EQ(refused("\"training\": []"), "run.json:4: training: expected a section {...}, not a list [...]");
  EXPECT_EQ(refused("\"lora\": {\"target_modules\": 3}"),
            "run.json:4: lora.target_modules: expected a string or a list of strings, not 3");
  EXPECT_EQ(refused("\"lora\": {\"target_modules\": [\"q\", 3]}"),
            "run.json:4: lora.target_modules.1: expected a string, not 3");
  EXPECT_EQ(refused("\"lora\": {\"rank_pattern\": {\"q\": 0}}"),
            "run.json:4: lora.rank_pattern.q: 0 is out of range: it has to be at least 1");
  EXPECT_EQ(refused("\"training\": {\"bf16\": \"yes\"}"),
            "run.json:4: training.bf16: expected true, false or auto, not \"yes\"");
  EXPECT_EQ(refused("\"training\": {\"seed\": 123456789012345678901234567890}"),
            "run.json:4: training.seed: 1.2345678901234568e+29 is too large");
}

TEST(Config, Ranges) {
  EXPECT_EQ(refused("\"training\": {\"learning_rate\": -1}"),
            "run.json:4: training.learning_rate: -1 is out of range: it has to be above 0");
  EXPECT_EQ(refused("\"lora\": {\"lora_dropout\": 1.5}"),
            "run.json:4: lora.lora_dropout: 1.5 is out of range: it has to be at least 0 and below 1");
  EXPECT_EQ(refused("\"lora\": {\"r\": 0}"),
            "run.json:4: lora.r: 0 is out of range: it has to be at least 1");
  EXPECT_EQ(
      refused("\"logging\": {\"logging_steps\": 2.5}"),
      "run.json:4: logging.logging_steps: 2.5 is out of range: it has to be above 0, and a whole number "
      "from 1 on");
  EXPECT_EQ(refused("\"zero_stage\": 4"),
            "run.json:4: zero_stage: 4 is out of range: it has to be at least 0 and at most 3");
}

TEST(Config, ChoicesAreListed) {
  EXPECT_EQ(
      refused("\"training\": {\"lr_scheduler_type\": \"zigzag\"}"),
      "run.json:4: training.lr_scheduler_type: there is no \"zigzag\"; there are linear, cosine, "
      "cosine_with_restarts, cosine_with_min_lr, cosine_warmup_with_min_lr, polynomial, constant, "
      "constant_with_warmup, inverse_sqrt, warmup_stable_decay, reduce_lr_on_plateau, greedy, multi_step, "
      "WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest");
  EXPECT_EQ(
      refused("\"training\": {\"lr_scheduler_type\": \"cosin\"}"),
      "run.json:4: training.lr_scheduler_type: there is no \"cosin\"; do you mean cosine? There are linear, "
      "cosine, cosine_with_restarts, cosine_with_min_lr, cosine_warmup_with_min_lr, polynomial, constant, "
      "constant_with_warmup, inverse_sqrt, warmup_stable_decay, reduce_lr_on_plateau, greedy, multi_step, "
      "WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest");
}

TEST(Config, ValuesThatAreNotAvailableAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"training.tf32=true", "true is not available yet; available: false"},
      {"model.attn_implementation=eager", "eager is not available yet; available: auto, flash, cudnn"},
      {"model.rope_scaling={\"type\": \"linear\"}", "an object {...} is not available yet; available: null"},
      {"zero_optimization.round_robin_gradients=true", "true is not available yet; available: false"},
      {"distributed.backend=mpi", "mpi is not available yet; available: auto, tcp, nccl"},
      {"zero_optimization.offload_param.ratio=0.5", "0.5 is not available yet; available: 1"},
      {"checkpointing.save_only_model=true", "true is not available yet; available: false"},
  };
  for (const auto& [assignment, text] : cases) {
    const std::string got = refused_override(assignment), path = assignment.substr(0, assignment.find('='));
    EXPECT_TRUE(got == "command line: " + path + ": " + text ||
                got == "command line: " + path + ".0: " + text)
        << assignment << "\n"
        << got;
  }
  EXPECT_EQ(refused_override("distributed.node_rank=1"), "run.json: distributed.node_rank: 1 of 1 machines");
}

TEST(Config, SettingsThatContradictEachOther) {
  EXPECT_EQ(refused("\"zero_stage\": 1, \"zero_optimization\": {\"stage\": 2}"),
            "run.json: zero_stage is 1 and zero_optimization.stage is 2; give one of them");
  EXPECT_EQ(refused("\"evaluation\": {\"eval_strategy\": \"steps\"}"),
            "run.json: evaluation.eval_strategy is steps and there is nothing to evaluate on; set "
            "data.val_set_size or data.eval_datasets");
  EXPECT_EQ(refused("\"evaluation\": {\"load_best_model_at_end\": true}"),
            "run.json: evaluation.load_best_model_at_end needs evaluations; set evaluation.eval_strategy");
  EXPECT_EQ(refused("\"evaluation\": {\"early_stopping_patience\": 2}"),
            "run.json: evaluation.early_stopping_patience needs evaluations; set evaluation.eval_strategy");
  EXPECT_EQ(refused("\"checkpointing\": {\"save_strategy\": \"best\"}"),
            "run.json: checkpointing.save_strategy best needs evaluations; set evaluation.eval_strategy");
  EXPECT_EQ(refusal(with("\"evaluation\": {\"eval_strategy\": \"epoch\", \"load_best_model_at_end\": true}, "
                         "\"checkpointing\": {\"save_strategy\": \"no\"}"),
                    {"data.val_set_size=0.1"}),
            "run.json: evaluation.load_best_model_at_end needs checkpoints; set checkpointing.save_strategy");
  EXPECT_EQ(refused("\"evaluation\": {\"metrics\": [\"loss\", \"bleu\"]}"),
            "run.json: evaluation.metrics: bleu is measured on generated text; set "
            "evaluation.predict_with_generate=true");
  EXPECT_EQ(refused("\"evaluation\": {\"metric_for_best_model\": \"eval_rouge1\"}"),
            "run.json: evaluation.metric_for_best_model: eval_rouge1 is measured on generated text; set "
            "evaluation.predict_with_generate=true");
  const std::string predict = "\"evaluation\": {\"predict_with_generate\": true, \"metrics\": [\"bleu\"]}";
  EXPECT_EQ(refused(predict),
            "run.json: evaluation.predict_with_generate: there is nothing to answer; set "
            "data.val_set_size or data.eval_datasets");
  const auto predicting = [&](const std::string& setting) {
    return refusal(with(predict), {"data.val_set_size=0.1", setting});
  };
  EXPECT_EQ(predicting("evaluation.metric_for_best_model=chrf"),
            "run.json: evaluation.metric_for_best_model: chrf is not in evaluation.metrics");
  EXPECT_EQ(predicting("generation.early_stopping=true"),
            "run.json: generation.early_stopping: has no effect without generation.num_beams above 1");
  EXPECT_EQ(predicting("generation.stop_strings=[\"a\"]"),
            "run.json: generation.stop_strings: not with evaluation.predict_with_generate");
  EXPECT_EQ(refusal(with(predict),
                    {"data.val_set_size=0.1", "generation.num_beams=2", "generation.do_sample=true"}),
            "run.json: generation.do_sample: beam search does not sample; set generation.num_beams=1");
  EXPECT_EQ(
      refusal(with(""), {"model.sparse_attention.mode=fixed", "model.sparse_attention.num_random_blocks=1"}),
      "run.json: model.sparse_attention.num_random_blocks: has no effect in mode fixed; modes that use "
      "it: variable, bigbird");
  EXPECT_EQ(refusal(with(""), {"model.sparse_attention.mode=fixed", "model.attn_implementation=cudnn"}),
            "run.json: model.attn_implementation: cudnn has no sparse attention; leave out one of them");
  EXPECT_EQ(refused("\"model_\": 1"), "run.json:4: model_: no such setting; do you mean model?");
  EXPECT_EQ(
      refusal(with(""), {"model.torch_dtype=bfloat16"}),
      "run.json: model.torch_dtype bfloat16 with training in float32 is not available yet; leave torch_dtype "
      "out");
  EXPECT_EQ(refusal(with(""), {"training.fp16=true", "training.bf16=true"}),
            "run.json: training.fp16 and training.bf16 are both true; set one of them");
  EXPECT_EQ(refusal(with(""), {"training.loss_scaling.hysteresis=3"}),
            "run.json: training.loss_scaling: has no effect without training.fp16=true");
  EXPECT_EQ(
      refusal(with(""), {"training.fp16=true", "training.loss_scaling.initial_scale_power=3",
                         "training.loss_scaling.min_loss_scale=16"}),
      "run.json: training.loss_scaling: the first scale, 2 to the power of 3, is below min_loss_scale 16");
  EXPECT_EQ(refusal(with(""), {"training.adam_w_mode=false", "training.optim=sgd"}),
            "run.json: training.adam_w_mode: has no effect with training.optim=sgd");
  EXPECT_EQ(refused("\"training\": {\n\"lr_scheduler_type\": \"polynomial\",\n"
                    "\"lr_scheduler_kwargs\": {\"power\": 2,\n\"lr_ent\": 0}}"),
            "run.json:7: training.lr_scheduler_kwargs.lr_ent: polynomial has no such argument; do you mean "
            "lr_end? It has lr_end, power");
  EXPECT_EQ(
      refusal(with(""), {"training.lr_scheduler_kwargs.power=2"}),
      "command line: training.lr_scheduler_kwargs.power: cosine has no such argument; it has num_cycles");
}

TEST(Config, WeightsInFourBits) {
  const std::string on = "quantization.load_in_4bit=true";
  EXPECT_EQ(refusal(with(""), {on, "finetuning_type=full"}),
            "run.json: quantization.load_in_4bit: 4-bit weights cannot be trained; set finetuning_type to "
            "lora");
  EXPECT_EQ(refusal(with(""), {on, "quantization.blocksize=65"}),
            "run.json: quantization.blocksize: 65 is not a power of two");
  EXPECT_EQ(
      refusal(with(""), {on, "quantization.bnb_4bit_compute_dtype=bfloat16"}),
      "run.json: quantization.bnb_4bit_compute_dtype bfloat16 with training in float32 is not available "
      "yet; set training.bf16=true or leave bnb_4bit_compute_dtype out");
  EXPECT_EQ(refusal(with(""), {on, "quantization.bnb_4bit_compute_dtype=float32", "training.fp16=true"}),
            "run.json: quantization.bnb_4bit_compute_dtype float32 with training in float16 is not available "
            "yet; set training.fp16=false or leave bnb_4bit_compute_dtype out");
  const auto dtype = [&](const std::string& bf16) {
    return parse_config(with(""), "run.json", "", {on, bf16}).quantization.bnb_4bit_compute_dtype;
  };
  EXPECT_EQ(dtype("training.bf16=true"), DType::bf16);
  EXPECT_EQ(dtype("training.fp16=true"), DType::f16);
  EXPECT_EQ(dtype("training.bf16=auto"), DType::f32);
}

TEST(Config, MissingSettings) {
  EXPECT_EQ(refusal("{}"),
            "run.json: model.model_name_or_path: missing: A Hugging Face model folder: config.json, "
            "safetensors, tokenizer. Or the id of a model in the hub's cache: meta-llama/Llama-2-7b-hf. Or a "
            "GGUF file.\n"
            "run.json: data.datasets: missing: Training data.");
  EXPECT_EQ(refusal("{\"model\": {}, \"data\": {\"datasets\": []}}"),
            "run.json:1: model.model_name_or_path: missing: A Hugging Face model folder: config.json, "
            "safetensors, tokenizer. Or the id of a model in the hub's cache: meta-llama/Llama-2-7b-hf. Or a "
            "GGUF file.\n"
            "run.json:1: data.datasets: the list is empty");
  EXPECT_EQ(refusal("{\"model\": {\"model_name_or_path\": \"\"}, \"data\": {\"datasets\": [{}]}}"),
            "run.json:1: model.model_name_or_path: the text is empty\n"
            "run.json:1: data.datasets.0.path: missing: File, glob or folder: .parquet, .arrow, or .jsonl, "
            ".json, .csv, .tsv or .txt, also as .gz or .zst. Or the id of a data set in the hub's cache: "
            "openai/gsm8k.");
}

// The message repeats the wrong line and marks the column with a caret.
TEST(Config, TextThatIsNotJson) {
  EXPECT_EQ(refusal(""), "run.json:1: not JSON: it ends too early at column 1\n  \n  ^");
  EXPECT_EQ(refusal("[]"), "run.json: a configuration is a JSON object {...}");
  EXPECT_EQ(refusal("{\n\"a\": 1,\n# x\n\"b\": 2}"),
            "run.json:3: not JSON: invalid literal at column 1\n  # x\n  ^");
  EXPECT_EQ(refusal("{\n\"a\": 1,\n}"),
            "run.json:3: not JSON: expected a key in quotes at column 1\n  }\n  ^");
  EXPECT_EQ(refusal("{\"a\": NaN}"),
            "run.json:1: not JSON: invalid literal at column 7\n  {\"a\": NaN}\n        ^");
  EXPECT_EQ(refusal("{\"a\": 1\n\n\"b\": 2}"),
            "run.json:3: not JSON: expected ',' or '}' at column 1\n  \"b\": 2}\n  ^");
  EXPECT_EQ(refusal(with("\"training\": {\"seed\": 1,\n\"seed\": 2}")),
            "run.json:5: the key \"seed\" appears twice, again at column 2\n  \"seed\": 2}\n   ^");
  const std::string deep = refusal("{\"a\":" + std::string(100000, '['));
  EXPECT_EQ(deep.substr(0, deep.find('\n')), "run.json:1: nested more than 64 deep at column 69");
}

TEST(Config, Overrides) {
  const RunConfig c =
      parsed("", {"training.learning_rate=1e-3", "lora.target_modules=[\"q_proj\"]", "finetuning_type=full",
                  "data.datasets.0.max_samples=3", "logging.run_name=a=b", "training.learning_rate=2e-3"});
  EXPECT_EQ(c.training.learning_rate, 2e-3);  // the last override wins
  EXPECT_EQ(std::get<1>(c.lora.target_modules)[0], "q_proj");
  EXPECT_EQ(c.finetuning_type, FinetuningType::full);
  EXPECT_EQ(c.data.datasets[0].max_samples, 3);
  EXPECT_EQ(c.logging.run_name, "a=b");
  EXPECT_EQ(refused_override("training.learing_rate=1"),
            "command line: training.learing_rate: no such setting; do you mean learning_rate?");
  EXPECT_EQ(refused_override("lr=1"),
            "command line: lr: no such setting; do you mean training.learning_rate?");
  EXPECT_EQ(refused_override("trainin.seed=1"),
            "command line: trainin: no such setting; do you mean training?");
  EXPECT_EQ(refused_override("training.seed=-1"),
            "command line: training.seed: -1 is out of range: it has to be at least 0");
  EXPECT_EQ(refused_override("seed"), "seed: an override is written section.setting=value");
  EXPECT_EQ(refused_override("=1"), "=1: an override is written section.setting=value");
  EXPECT_EQ(refused_override("data.datasets.1.path=x"),
            "data.datasets.1.path=x: the list has no element 1; it has 1, counted from 0");
  EXPECT_EQ(refused_override("data.datasets[0].pth=x"),
            "command line: data.datasets.0.pth: no such setting; do you mean path?");
  EXPECT_EQ(refused_override("model.model_name_or_path.x=1"),
            "model.model_name_or_path.x=1: model.model_name_or_path is not a section");
  EXPECT_EQ(refused_override("logging.run_name=7"),
            "command line: logging.run_name: expected a string, not 7");
}

TEST(Config, PathsAreRelativeToTheConfiguration) {
  const std::string text = R"({"model": {"model_name_or_path": "../models/x", "tokenizer_name_or_path": "/t"},
    "data": {"datasets": [{"path": "d/*.jsonl"}], "eval_datasets": [{"path": "./e"}]},
    "lora": {"adapter_name_or_path": "a"}, "training": {"resume_from_checkpoint": "auto"}})";
  RunConfig c = parse_config(text, "run.json", "configs", {"training.output_dir=here"});
  EXPECT_EQ(c.model.model_name_or_path, "models/x");
  EXPECT_EQ(c.model.tokenizer(), "/t");
  EXPECT_EQ(c.data.datasets[0].path, "configs/d/*.jsonl");
  EXPECT_EQ(c.data.eval_datasets[0].path, "configs/e");
  EXPECT_EQ(c.lora.adapter_name_or_path, "configs/a");
  EXPECT_EQ(c.training.output_dir, "here");  // a path in an override is relative to the current folder
  EXPECT_EQ(c.training.resume_from_checkpoint, From(Resume::newest_if_any));
  c = parse_config(text, "run.json", "configs", {"training.resume_from_checkpoint=x/checkpoint-5"});
  EXPECT_EQ(c.training.resume_from_checkpoint, From("x/checkpoint-5"));
  c = parse_config(text, "run.json", "configs", {});
  EXPECT_EQ(c.training.output_dir, "configs/outputs");  // so is the default
}

TEST(Config, ATildeInAPathIsTheHomeFolder) {
  const std::string text = R"({"model": {"model_name_or_path": "~/models/x"},
    "data": {"datasets": [{"path": "~/d.jsonl"}], "chat_template": "~/t.jinja"},
    "training": {"output_dir": "~/out"}})";
  const std::string home = home_expanded("~");
  const RunConfig c = parse_config(text, "run.json", "configs", {"logging.wandb.output_path=~/w"});
  EXPECT_EQ(c.model.model_name_or_path, home + "/models/x");
  EXPECT_EQ(c.data.datasets[0].path, home + "/d.jsonl");
  EXPECT_EQ(c.data.chat_template, home + "/t.jinja");
  EXPECT_EQ(c.training.output_dir, home + "/out");
  EXPECT_EQ(c.logging.wandb.output_path, home + "/w");
}

TEST(Config, ResumeDespiteNamesSettings) {
  EXPECT_EQ(parsed(R"("training": {"resume_despite": "optim"})").training.resume_despite,
            std::vector<std::string>{"optim"});
  EXPECT_EQ(
      parsed(R"("training": {"resume_despite": ["lora", "training.optim"]})").training.resume_despite.size(),
      2u);
  EXPECT_EQ(
      refused_override("training.resume_despite=optimizer"),
      "run.json: training.resume_despite: there is no setting optimizer; name one as in training.optim");
}

// The configurations in configs/.
TEST(Config, ReadyMadeConfigurationsAreRead) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("configs"))) {
    if (entry.path().extension() != ".json") continue;
    EXPECT_NO_THROW(load_config(entry.path().string(), {})) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 6);
}

// The effective configuration has the same meaning in every folder.
TEST(Config, TheEffectiveConfigurationReadsBack) {
  const RunConfig c = parsed(R"("lora": {"rank_pattern": {"z": 4, "a": 2}, "layers_to_transform": [1, 2],
    "init_lora_weights": "gaussian"}, "training": {"bf16": true, "learning_rate": 3e-4}, "zero_stage": 2,
    "sweep": {"grid": {"zero_stage": [0, 1]}})");
  const std::string once = effective_config(c);
  const RunConfig again = parse_config(once, "run.json", "/elsewhere", {});
  EXPECT_EQ(effective_config(again), once);
  const Json j = Json::parse(once);
  EXPECT_EQ(j["model"]["model_name_or_path"], "m");  // no folder has this name, so it may be an id of the hub
  EXPECT_EQ(j["data"]["datasets"][0]["path"], std::filesystem::absolute("d.jsonl").string());
  EXPECT_EQ(j["training"]["bf16"], true);
  EXPECT_EQ(j["training"]["seed"], 42);
  EXPECT_EQ(j["training"]["resume_from_checkpoint"], false);
  EXPECT_EQ(j["training"]["gradient_checkpointing"], true);
  EXPECT_EQ(j["distributed"]["nproc_per_node"], "auto");
  EXPECT_EQ(j["zero_optimization"]["stage"], 2);
  EXPECT_EQ(j["lora"]["rank_pattern"].dump(), R"({"z":4,"a":2})");
  EXPECT_EQ(j["sweep"]["grid"].dump(), R"({"zero_stage":[0,1]})");
  EXPECT_EQ(j["training"]["num_train_epochs"].dump(), "3");
}

// The default target modules are PEFT's for the model's family; run.json lists them.
TEST(Config, LoraTargetsOfAFamily) {
  const std::string models = source_path("tests/golden/models/");
  const auto targets = [&](const std::string& model, std::vector<std::string> more = {}) {
    more.push_back("model.model_name_or_path=" + models + model + "/model");
    const RunConfig c = parsed("", more);
    return Json::parse(effective_config(c))["lora"]["target_modules"].dump();
  };
  for (const char* model : {"t5", "t5-v11", "mt5"}) EXPECT_EQ(targets(model), R"(["q","v"])") << model;
  EXPECT_EQ(targets("t5", {"lora.target_modules=all-linear"}), "\"all-linear\"");
  EXPECT_EQ(targets("t5", {"lora.target_modules=[\"wo\"]"}), R"(["wo"])");
  EXPECT_EQ(targets("qwen2"), "\"all-linear\"");
  EXPECT_EQ(targets("none"), "\"all-linear\"");
}

// An adapter's folder contains no model, but names its base model.
TEST(Config, AnAdapterIsNoModel) {
  const TempFolder folder;
  const auto refusal = [&](const std::string& config) {
    folder.write("tuned/adapter_config.json", config);
    return test::error_of([&] {
      parse_config(R"({"model": {"model_name_or_path": "tuned"}, "data": {"datasets": [{"path": "x"}]}})",
                   "run.json", folder.path(), {});
    });
  };
  EXPECT_NE(refusal(R"({"base_model_name_or_path": "bases/river-2b"})")
                .find("is an adapter, not a model; its base is bases/river-2b"),
            std::string::npos);
  EXPECT_NE(refusal("{}").find("does not name its base"), std::string::npos);
  folder.write("tuned/config.json", "{}");
  EXPECT_EQ(refusal("{}").find("adapter"), std::string::npos);
}

TEST(Config, FilesThatCannotBeRead) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "ft_config_test";
  std::filesystem::create_directories(folder);
  const auto message = [](const std::filesystem::path& file) -> std::string {
    try {
      load_config(file, {});
    } catch (const UserError& e) {
      return e.what();
    }
    return "read";
  };
  EXPECT_EQ(message("nowhere.json"), "nowhere.json: cannot be read: No such file or directory");
  EXPECT_EQ(message(folder), folder.string() + ": is a folder, not a regular file");
  std::ofstream(folder / "run.json") << with("");
  const auto model = [&] { return load_config(folder / "run.json", {}).model.model_name_or_path; };
  EXPECT_EQ(model(), "m");
  std::filesystem::create_directory(folder / "m");
  EXPECT_EQ(model(), (folder / "m").string());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ft
