#include "tests/crash/scenes.h"

#include <utility>

namespace ft::test {
namespace {

const Words kTrain{"train", "--config", "run.json"};

Words launched(int ranks, Words words) {
  words.insert(words.begin(), {"launch", "-n", std::to_string(ranks)});
  return words;
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Scene run(const char* name, int ranks, const Words& settings,
          const char* result = "out/adapter_model.safetensors") {
  const auto start = [&](const Words& words) { return ranks > 1 ? launched(ranks, words) : words; };
  const Words command = with(kTrain, settings);
  return {name, {}, start(command), start(with(command, {kAuto})), {result}};
}

Scene resumed() {
  Scene s = run("resumed", 1, {});
  s.prepare = with(kTrain, {"training.max_steps=3"});
  s.command = s.again;
  return s;
}

// The old run has another rate, so that its result is not taken for the new one's.
Scene overwritten() {
  Scene s = run("overwritten", 1, {});
  s.prepare = with(kTrain, {"training.learning_rate=0.01"});
  s.command = with(s.command, {"--overwrite"});
  return s;
}

Scene written(const char* name, const Words& prepare, const Words& command,
              std::vector<const char*> results) {
  return {name, prepare, command, with(command, {"--overwrite"}), std::move(results)};
}

// A command without --overwrite: its output is complete or absent, so that it may be tried again.
Scene made(const char* name, const Words& command) {
  return {name, {}, command, command, {"out/model.safetensors", "out/config.json"}};
}

Scene replaced(const char* name, const Words& prepare, const Words& command) {
  return {name, prepare, command, command, {"out/model.safetensors", "out/config.json"}};
}

Words adapter() { return with(kTrain, {"training.output_dir=adapter", "checkpointing.save_total_limit=2"}); }

}  // namespace

std::vector<Scene> scenes() {
  const Words full{"finetuning_type=full"};
  return {
      run("lora", 1, {}),
      run("full", 1, full, "out/model.safetensors"),
      run("two_ranks_zero_2", 2, {"zero_stage=2"}),
      run("two_ranks_full_zero_3", 2, with(full, {"zero_stage=3"}), "out/model.safetensors"),
      resumed(),
      overwritten(),
      written("merge", adapter(), {"merge", "--model", "model", "--adapter", "adapter", "--output", "out"},
              {"out/model.safetensors", "out/config.json"}),
      written("average", adapter(),
              {"merge", "--average", "adapter/checkpoint-2", "adapter/checkpoint-4", "--output", "out"},
              {"out/adapter_model.safetensors", "out/adapter_config.json"}),
      written("export_hf", adapter(), {"export", "--to", "hf", "--from", "adapter", "--output", "out"},
              {"out/model.safetensors", "out/config.json"}),
      written("export_peft", adapter(),
              {"export", "--to", "peft", "--from", "adapter/checkpoint-4", "--output", "out"},
              {"out/adapter_model.safetensors", "out/adapter_config.json"}),
      made("quantize", {"quantize", "--model", "model", "--output", "out"}),
      made("init", {"init", "--config", "model", "--output", "out"}),
  };
}

std::vector<Scene> scenes_of_layouts() {
  const Words full{"finetuning_type=full"};
  const std::string zero = "zero_optimization.";
  const Words files{zero + "offload_optimizer.device=nvme", zero + "offload_optimizer.nvme_path=.",
                    zero + "offload_param.device=nvme", zero + "offload_param.nvme_path=.",
                    zero + "stage3_param_persistence_threshold=0"};
  return {
      run("two_ranks_full_zero_0", 2, full, "out/model.safetensors"),
      run("two_ranks_full_zero_1", 2, with(full, {"zero_stage=1"}), "out/model.safetensors"),
      run("two_ranks_zero_3", 2, {"zero_stage=3"}),
      run("qlora_average", 1, {"quantization.load_in_4bit=true", "training.ema_decay=0.9"}),
      run("offloaded", 1, with(full, files), "out/model.safetensors"),
      replaced("merge_over", adapter(),
               {"merge", "--model", "model", "--adapter", "adapter", "--output", "out", "--overwrite"}),
  };
}

Json saving() {
  return {{"lora", {{"r", 4}, {"lora_dropout", 0.1}}},
          {"training", {{"max_steps", 4}, {"num_train_epochs", 1}}},
          {"logging", {{"progress", "plain"}, {"report_to", {"tensorboard", "csv", "wandb"}}}},
          {"checkpointing", {{"save_strategy", "steps"}, {"save_steps", 2}, {"save_total_limit", 1}}}};
}

std::vector<std::string> leftovers(const Workplace& w) {
  std::vector<std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(w / "."))
    for (const char* mark : {".tmp-ft", ".trash-ft", "replaced-run"})
      if (entry.path().filename().string().find(mark) != std::string::npos)
        all.push_back(entry.path().string());
  return all;
}

}  // namespace ft::test
