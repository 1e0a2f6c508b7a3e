// ft import of axolotl's and LLaMA-Factory's files: a run.json that ft's own reader accepts.
#include "tests/app/translate/import_fixture.h"

namespace ft {
namespace {

using test::Import;
using test::Words;

const char* const kAxolotl = R"(base_model: NousResearch/Llama-3.2-1B
load_in_4bit: true
adapter: qlora
lora_r: 32
lora_alpha: 16
lora_dropout: 0.05
lora_target_linear: true
datasets:
  - path: mlabonne/FineTome-100k
    type: chat_template
    split: train[:20%]
    field_messages: conversations
    message_property_mappings:
      role: from
      content: value
chat_template: llama3
val_set_size: 0.05
sequence_len: 2048
sample_packing: true
micro_batch_size: 2
gradient_accumulation_steps: 4
num_epochs: 2
optimizer: adamw_bnb_8bit
lr_scheduler: cosine
learning_rate: 2e-4
warmup_ratio: 0.1
bf16: auto
gradient_checkpointing: true
evals_per_epoch: 4
saves_per_epoch: 1
wandb_project:
output_dir: ./outputs/lora-out
)";

TEST_F(Import, Axolotl) {
  const Json made = imported(kAxolotl);
  EXPECT_EQ(made["program"], "axolotl");
  EXPECT_EQ(missing(made), Words{});
  EXPECT_EQ(at(made, "model.model_name_or_path"), "NousResearch/Llama-3.2-1B");
  EXPECT_EQ(at(made, "finetuning_type"), "lora");
  EXPECT_EQ(at(made, "quantization.load_in_4bit"), true);
  EXPECT_EQ(at(made, "lora.r"), 32);
  EXPECT_EQ(at(made, "lora.target_modules"), "all-linear");
  EXPECT_EQ(at(made, "data.datasets"), Json::parse(R"([{"path": "mlabonne/FineTome-100k", "weight": 0.2,
            "type": "messages", "columns": {"messages": "conversations"}}])"));
  EXPECT_EQ(at(made, "data.chat_template"), "llama3");
  EXPECT_EQ(at(made, "data.val_set_size"), 0.05);
  EXPECT_EQ(at(made, "data.packing"), true);
  EXPECT_EQ(at(made, "data.truncation"), "drop");
  EXPECT_EQ(at(made, "training.per_device_train_batch_size"), 2);
  EXPECT_EQ(at(made, "training.per_device_eval_batch_size"), 2);
  EXPECT_EQ(at(made, "training.learning_rate"), 2e-4);
  EXPECT_EQ(at(made, "training.optim"), "adamw_bnb_8bit");
  EXPECT_EQ(at(made, "evaluation.eval_strategy"), "steps");
  EXPECT_EQ(at(made, "evaluation.eval_steps"), 0.125) << "4 times in each of 2 epochs";
  EXPECT_EQ(at(made, "checkpointing.save_strategy"), "epoch");
  EXPECT_EQ(verdict(made, "lora_r"), "other_name");
  EXPECT_EQ(verdict(made, "gradient_accumulation_steps"), "same");
  EXPECT_EQ(row(made, "lora_r")["line"], 4);
  EXPECT_EQ(verdict(made, "wandb_project"), "no_effect");
  EXPECT_EQ(verdict(made, "save_total_limit"), "default");
  EXPECT_EQ(at(made, "checkpointing.save_total_limit"), 4);
  EXPECT_EQ(made["command"], "ft train --config run.json");
}

TEST_F(Import, AxolotlFullTrainingOnTexts) {
  const Json made = imported(R"(base_model: m
datasets:
  - path: json
    data_files: books.jsonl
    type: completion
    field: chapter
fsdp: [full_shard, auto_wrap]
fsdp_config:
  fsdp_offload_params: true
  fsdp_state_dict_type: FULL_STATE_DICT
learning_rate: 1e-5
optimizer: adamw_torch_fused
batch_size: 8
micro_batch_size: 2
lr_scheduler: cosine
cosine_min_lr_ratio: 0.1
)");
  EXPECT_EQ(missing(made), Words{});
  EXPECT_EQ(at(made, "finetuning_type"), "full");
  EXPECT_EQ(at(made, "data.datasets"),
            Json::parse(R"([{"path": "books.jsonl", "type": "text", "columns": {"text": "chapter"}}])"));
  EXPECT_EQ(made["warnings"].size(), 2u) << "long texts are not cut without sample_packing, and no GPU";
  EXPECT_EQ(at(made, "training.gradient_accumulation_steps"), 4);
  EXPECT_EQ(at(made, "training.optim"), "adamw");
  EXPECT_EQ(at(made, "training.lr_scheduler_type"), "cosine_with_min_lr");
  EXPECT_EQ(at(made, "training.min_lr_ratio"), 0.1);
  EXPECT_EQ(at(made, "training.warmup_ratio"), 0.03);
  EXPECT_EQ(at(made, "zero_optimization.stage"), 3);
  EXPECT_EQ(at(made, "zero_optimization.offload_param.device"), "cpu");
  EXPECT_EQ(verdict(made, "eval_batch_size"), "default");
}

TEST_F(Import, AxolotlObjectives) {
  const std::string begin = "base_model: m\nlearning_rate: 1e-6\ndatasets:\n  - path: d.jsonl\n    type: ";
  const Json dpo = imported(
      begin + "chat_template.default\n    split: train\nrl: dpo\nrl_beta: 0.2\nsample_packing: true\n");
  EXPECT_EQ(at(dpo, "objective.type"), "dpo");
  EXPECT_EQ(at(dpo, "objective.beta"), 0.2);
  EXPECT_EQ(at(dpo, "data.datasets")[0]["columns"]["prompt"], "messages");
  EXPECT_EQ(verdict(dpo, "sample_packing"), "no_effect");
  EXPECT_EQ(missing(dpo), Words{});
  const Json simpo =
      imported(begin + "chat_template.argilla_chat\nrl: simpo\nsimpo_gamma: 1\ncpo_alpha: 0.5\n");
  EXPECT_EQ(at(simpo, "objective.type"), "cpo");
  EXPECT_EQ(at(simpo, "objective.loss_type"), Json::array({"simpo"}));
  const Json chatml = imported(begin + "chatml.intel\nrl: dpo\n");
  EXPECT_EQ(missing(chatml), Words{"datasets[0].type"});
  const Json grpo =
      imported(begin + "rwd.prompts\nrl: grpo\ntrl:\n  num_generations: 4\n  reward_funcs: [rwd.correct]\n");
  EXPECT_EQ(missing(grpo), (Words{"datasets[0].type", "trl.reward_funcs"}));
  EXPECT_EQ(at(grpo, "objective.reward_command"), "./reward");
  EXPECT_EQ(at(grpo, "objective.num_generations"), 4);
  expect_refusal(begin + "x\nrl: ebft\n", "rl: ft has no ebft; it has dpo");
}

TEST_F(Import, Fp8IsForFrozenWeightsAndForTrainedOnes) {
  const std::string full = "base_model: x\nlearning_rate: 1e-5\ndatasets:\n  - path: y\n    type: alpaca\n";
  const Json trained = imported(full + "fp8: true\n");
  EXPECT_EQ(missing(trained), Words{});
  EXPECT_EQ(at(trained, "training.fp8"), true);
  EXPECT_EQ(at(trained, "training.bf16"), true);
  EXPECT_FALSE(trained["config"]["model"].contains("frozen_dtype"));
  const Json frozen = imported(full + "adapter: lora\nlora_r: 8\nlora_target_linear: true\nfp8: true\n");
  EXPECT_EQ(missing(frozen), Words{});
  EXPECT_EQ(at(frozen, "model.frozen_dtype"), "fp8");
  EXPECT_EQ(verdict(imported(full + "fp8: false\n"), "fp8"), "no_effect");
  EXPECT_EQ(missing(imported(full + "fp16: true\nfp8: true\n")), Words{"fp8"});
  EXPECT_EQ(missing(imported(std::string(kAxolotl) + "fp8: true\n")), Words{"fp8"});
}

TEST_F(Import, WhatIsNotThereIsNamedAndStrictRefusesIt) {
  const std::string text =
      std::string(kAxolotl) +
      "relora: true\nload_in_8bit: false\nlearning_rte: 3\nloss_watchdog_threshold: 5.0\n";
  const Json made = imported(text);
  EXPECT_EQ(missing(made), (Words{"relora", "learning_rte", "loss_watchdog_threshold"}));
  EXPECT_EQ(row(made, "learning_rte")["why"], "ft knows no such key of axolotl; do you mean learning_rate?");
  EXPECT_EQ(verdict(made, "load_in_8bit"), "no_effect");
  expect_refusal(text, "ft import --strict: ft does not have relora, learning_rte, loss_watchdog_threshold",
                 {"--strict"});
  const Outcome o = run({"import", "--strict", "--json", folder_ / "f.yml"});
  EXPECT_EQ(o.code, 2);
  EXPECT_EQ(Json::parse(o.out)["config"], Json());
  const Outcome plain = run({"import", folder_ / "f.yml"});
  EXPECT_EQ(plain.code, 0);
  EXPECT_NE(plain.err.find("not there"), std::string::npos) << plain.err;
  EXPECT_NE(plain.err.find("next: ft train --config run.json"), std::string::npos);
  EXPECT_EQ(Json::parse(plain.out), made["config"]);
}

TEST_F(Import, WritesTheFileThatIsNamed) {
  const std::string file = folder_ / "made.json";
  const Json made = imported(kAxolotl, {"--output", file});
  EXPECT_EQ(Json::parse(test::slurp(file)), made["config"]);
  EXPECT_EQ(made["command"], "ft train --config " + file);
  const std::string text = std::string(kAxolotl) + "relora: true\n";
  expect_refusal(text, "--output: " + file + " exists; give another name, or --overwrite",
                 {"--output", file});
  expect_refusal(text, "is a folder; give the name of a file", {"--output", folder_.path(), "--overwrite"});
  expect_refusal(text, "does not have relora", {"--output", folder_ / "none.json", "--strict"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none.json"));
  const Outcome again = run({"import", folder_ / "f.yml", "--output", file, "--overwrite"});
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.out, "");
  EXPECT_EQ(Json::parse(test::slurp(file)), made["config"]);
}

// A value that ft's own reader refuses is taken out, and its key is not there.
TEST_F(Import, ValuesThatFtDoesNotHave) {
  const Json made = imported(std::string(kAxolotl) + "optimizer: came_pytorch\nlr_scheduler: rex\n");
  EXPECT_EQ(missing(made), (Words{"optimizer", "lr_scheduler"}));
  EXPECT_EQ(at(made, "training.optim"), "(not set)");
  EXPECT_NE(row(made, "optimizer")["why"].get<std::string>().find("came_pytorch"), std::string::npos);
  EXPECT_EQ(made["warnings"].size(), 3u)
      << "two keys are given twice, and there is no GPU: " << made["warnings"];
}

TEST_F(Import, MistakesInFiles) {
  expect_refusal(std::string(kAxolotl) + "micro_batch_size: many\n",
                 ":33: micro_batch_size: \"many\" is not a whole number");
  expect_refusal("base_model: m\ndatasets: [x]\n", ":2: datasets[0]: \"x\" is not a mapping");
  expect_refusal("base_model: m\nadapter: lora\n", "datasets is missing");
  expect_refusal("base_model: m\ndatasets: [{type: alpaca}]\n", "datasets[0].path is missing");
  expect_refusal("base_model: m\nadapter: ia3\ndatasets: [{path: d}]\n", "adapter: ft has no ia3");
  expect_refusal("base_model: m\nprocessor_type: AutoProcessor\ndatasets: [{path: d}]\n",
                 "pictures or sound");
  expect_refusal("a: b\n", "its keys are of no program that ft knows");
  expect_refusal("a: b\n", "--from axolot: do you mean axolotl?", {"--from", "axolot"});
  expect_refusal("a: b\n", "it has command lines and no files", {"--from", "run-translation"});
  expect_refusal("model_name_or_path: m\ndataset_name: d\n",
                 "its keys are those of several programs: trl-sft, trl-dpo");
  expect_refusal("a: [", "not YAML");
  EXPECT_NE(run({"import"}).err.find("give a file, or a command after --"), std::string::npos);
  EXPECT_NE(run({"import", "a", "--", "trl"}).err.find("not both"), std::string::npos);
  EXPECT_NE(run({"import", folder_ / "none.yml"}).err.find("none.yml"), std::string::npos);
}

class ImportLlamaFactory : public Import {
 protected:
  void SetUp() override {
    folder_.write("data/dataset_info.json", R"({
      "demo": {"file_name": "demo.json"},
      "chat": {"hf_hub_url": "org/chat", "formatting": "sharegpt", "subset": "en",
               "columns": {"messages": "turns"}, "tags": {"role_tag": "role", "content_tag": "content",
               "user_tag": "user", "assistant_tag": "assistant"}},
      "pairs": {"file_name": "pairs.json", "ranking": true, "formatting": "sharegpt",
                "columns": {"messages": "conversations", "chosen": "chosen", "rejected": "rejected"}},
      "seen": {"file_name": "seen.json", "columns": {"images": "images"}},
      "wild": {"script_url": "x"}})");
  }
  std::string begin(const std::string& names) const {
    return "model_name_or_path: m\nstage: sft\ndo_train: true\ntemplate: llama3\ndataset: " + names +
           "\ndataset_dir: " + (folder_ / "data") + "\n";
  }
};

TEST_F(ImportLlamaFactory, Fp8) {
  const Json made = imported(begin("demo") + "finetuning_type: full\nbf16: true\nfp8: true\noutput_dir: x\n");
  EXPECT_EQ(missing(made), Words{});
  EXPECT_EQ(at(made, "training.fp8"), true);
}

TEST_F(ImportLlamaFactory, LoraOnInstructionsAndChats) {
  const Json made = imported(begin("demo, chat") + R"(finetuning_type: lora
lora_rank: 16
lora_target: q_proj,v_proj
quantization_bit: 4
cutoff_len: 4096
max_samples: 1000
output_dir: saves/x
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
learning_rate: 1.0e-4
num_train_epochs: 3.0
lr_scheduler_type: cosine
warmup_ratio: 0.1
bf16: true
ddp_timeout: 180000000
report_to: none
save_only_model: false
overwrite_output_dir: true
plot_loss: true
)");
  EXPECT_EQ(made["program"], "llama-factory");
  EXPECT_EQ(missing(made), Words{});
  EXPECT_EQ(at(made, "lora.target_modules"), (Json{"q_proj", "v_proj"}));
  EXPECT_EQ(at(made, "lora.lora_alpha"), 32) << "twice the rank";
  EXPECT_EQ(at(made, "quantization.load_in_4bit"), true);
  const Json sources = at(made, "data.datasets");
  EXPECT_EQ(sources[0]["path"], folder_ / "data/demo.json");
  EXPECT_EQ(sources[0]["type"], "alpaca_chat");
  EXPECT_EQ(sources[1], Json::parse(R"({"path": "org/chat", "name": "en", "type": "messages",
                                        "columns": {"messages": "turns"}, "max_samples": 1000})"));
  EXPECT_EQ(at(made, "data.prompt_template"), "none");
  EXPECT_EQ(at(made, "data.chat_template"), "llama3");
  EXPECT_EQ(at(made, "training.gradient_checkpointing"), true);
  EXPECT_EQ(at(made, "distributed.timeout_s"), 180000000);
  EXPECT_EQ(made["command"], "ft train --config run.json --overwrite");
}

TEST_F(ImportLlamaFactory, StagesAndLosses) {
  const Json dpo =
      imported(begin("pairs") + "stage: dpo\npref_beta: 0.2\npref_ftx: 0.5\nfinetuning_type: full\n");
  EXPECT_EQ(at(dpo, "objective.loss_type"), (Json{"sigmoid", "sft"}));
  EXPECT_EQ(at(dpo, "objective.loss_weights"), (Json{1, 0.5}));
  EXPECT_EQ(at(dpo, "data.datasets")[0]["columns"], Json::parse(R"({"prompt": "conversations"})"));
  EXPECT_EQ(missing(dpo), Words{});
  const Json simpo = imported(begin("pairs") + "stage: dpo\npref_loss: simpo\n");
  EXPECT_EQ(at(simpo, "objective.type"), "simpo");
  const Json other = imported(begin("pairs") + "stage: dpo\npref_loss: kto_pair\n");
  EXPECT_EQ(missing(other), Words{"pref_loss"});
  EXPECT_EQ(at(imported(begin("pairs") + "stage: rm\n"), "objective.type"), "reward");
  const Json dft = imported(begin("demo") + "stage: sft\nuse_dft_loss: true\n");
  EXPECT_EQ(at(dft, "objective.loss_type"), Json::array({"dft"}));
  const Json compared = imported(begin("pairs") + "stage: dpo\nuse_dft_loss: true\n");
  EXPECT_EQ(at(compared, "objective.loss_type"), Json::array({"sigmoid"}));
  const Json texts = imported(begin("demo") + "stage: pt\npure_bf16: true\n");
  EXPECT_EQ(at(texts, "data.packing"), true);
  EXPECT_EQ(at(texts, "data.packing_strategy"), "wrapped");
  EXPECT_EQ(at(texts, "data.datasets")[0]["type"], "text");
  EXPECT_EQ(missing(texts), Words{"pure_bf16"});
  EXPECT_EQ(at(imported(begin("demo")), "training.lr_scheduler_type"), "linear");
}

TEST_F(ImportLlamaFactory, Mistakes) {
  expect_refusal(begin("dmeo"), "has no dmeo; do you mean demo?");
  expect_refusal(begin("seen"), "dataset: seen has images, and ft trains on text only");
  expect_refusal(begin("wild"), "neither file_name nor hf_hub_url");
  expect_refusal("model_name_or_path: m\nstage: sft\ndataset: demo\ndataset_dir: nowhere\n",
                 "dataset_info.json describes");
  expect_refusal("model_name_or_path: m\nstage: sft\ndataset: demo\ndataset_dir: REMOTE:org/x\n",
                 "is on a hub");
  expect_refusal(begin("demo") + "finetuning_type: oft\n", "finetuning_type: ft has no oft");
  expect_refusal(begin("demo") + "stage: xx\n", "stage: xx is none of");
  expect_refusal("model_name_or_path: m\ntemplate: llama3\nexport_dir: x\n", "ft merge");
  expect_refusal("model_name_or_path: m\ntemplate: llama3\ninfer_backend: hf\n", "trains nothing");
}

TEST_F(ImportLlamaFactory, CommandLine) {
  const std::string file = folder_.write("a.yaml", begin("demo") + "learning_rate: 1.0e-4\n");
  const Json made = command({"llamafactory-cli", "train", file, "learning_rate=3e-5", "lora_rank=4"});
  EXPECT_EQ(at(made, "training.learning_rate"), 3e-5);
  EXPECT_EQ(at(made, "lora.r"), 4);
}

}  // namespace
}  // namespace ft
