#include "tests/app/config/together_page.h"

#include <algorithm>
#include <vector>

#include "app/config/together.h"
#include "engine/settings/fields.h"

namespace ft {
namespace {

struct Choice {
  std::string name, set;  // as in Feature
};
struct Group {
  std::string name;
  bool inside = false;  // its choices are combined with each other, too
  std::vector<Choice> choices;
};

// Returns the choices of a setting that has these words for values.
std::vector<Choice> each(const std::string& setting, const std::vector<std::string>& words) {
  std::vector<Choice> all;
  for (const std::string& word : words) all.push_back({word, setting + "=" + word});
  return all;
}

Group axes() {
  const std::string d = "distributed.";
  return {"Parallel axes",
          true,
          {{"tensor", d + "tensor_parallel_size=2"},
           {"partition_activations", d + "tensor_parallel_size=2 " + d + "partition_activations=true"},
           {"sequence", d + "sequence_parallel_size=2"},
           {"ring", d + "sequence_parallel_type=ring " + d + "sequence_parallel_size=2"},
           {"pipeline", d + "pipeline_parallel_size=2"},
           {"interleaved", d + "pipeline_parallel_size=2 " + d + "virtual_pipeline_parallel_size=2"},
           {"experts", d + "expert_parallel_size=2"}}};
}

Group stages() {
  const std::string z = "zero_optimization.", third = z + "stage=3 ";
  return {"ZeRO",
          true,
          {{"stage 0", z + "stage=0"},
           {"stage 1", z + "stage=1"},
           {"stage 2", z + "stage=2"},
           {"stage 3", z + "stage=3"},
           {"MiCS", third + z + "mics_shard_size=2"},
           {"qwZ", third + z + "zero_quantized_weights=true"},
           {"qgZ", third + z + "zero_quantized_gradients=true"},
           {"hpZ", third + z + "zero_hpz_partition_size=2"}}};
}

Group offload() {
  const std::string z = "zero_optimization.", param = z + "offload_param.", states = z + "offload_optimizer.";
  return {"Offload",
          true,
          {{"parameters", z + "stage=3 " + param + "nvme_path=. " + param + "device=nvme"},
           {"states", z + "stage=1 " + states + "nvme_path=. " + states + "device=nvme"},
           {"delayed updates", z + "stage=1 " + states + "device=cpu " + states + "delayed_update=true"},
           {"activations", "training.gradient_checkpointing=offload"}}};
}

Group objective_group() {
  const std::string rewarded = "objective.reward_funcs=exact_match objective.type=";
  Group g{"Objectives", false, each("objective.type", {"sft"})};
  g.choices.push_back({"dft", "objective.loss_type=dft"});
  g.choices.push_back({"distill", "objective.teacher_model_name_or_path=t objective.type=distill"});
  g.choices.push_back({"distill on own answers",
                       "objective.teacher_model_name_or_path=t objective.type=distill objective.lmbda=0.5"});
  g.choices.push_back({"distill from a file", "objective.teacher_file=taught objective.type=distill"});
  for (Choice& c : each("objective.type", {"dpo", "kto", "orpo", "cpo", "simpo", "reward"}))
    g.choices.push_back(std::move(c));
  g.choices.push_back({"grpo on given answers", "objective.type=grpo"});
  g.choices.push_back({"grpo", rewarded + "grpo"});
  g.choices.push_back({"rloo", rewarded + "rloo"});
  g.choices.push_back({"reinforce++", rewarded + "reinforce++"});
  g.choices.push_back({"ppo", rewarded + "ppo"});
  for (Choice& c : each("objective.type", {"classify", "embed"})) g.choices.push_back(std::move(c));
  return g;
}

Group optimizer_group() {
  Group g{"Optimizers", false, each("training.optim", {"adamw", "adamw_8bit"})};
  g.choices.push_back(
      {"paged adamw", "device=cuda zero_optimization.stage=1 training.optim=paged_adamw_32bit"});
  for (Choice& c : each("training.optim", {"lion", "lion_8bit", "ademamix", "ademamix_8bit", "sgd", "adagrad",
                                           "rmsprop", "adafactor", "muon", "onebit_adam"}))
    g.choices.push_back(std::move(c));
  return g;
}

Group methods() {
  const std::string start = "lora.init_lora_weights=", four = "quantization.load_in_4bit=true";
  return {"Methods",
          false,
          {{"LoRA", "finetuning_type=lora"},
           {"QLoRA", four},
           {"LoRA on FP8", "model.frozen_dtype=fp8"},
           {"DoRA", "lora.use_dora=true"},
           {"MiSS", "lora.peft_type=miss"},
           {"HiRA", "lora.peft_type=hira"},
           {"SHiRA", "lora.peft_type=shira"},
           {"OFT", "lora.peft_type=oft"},
           {"aLoRA", "lora.alora_invocation_tokens=[1]"},
           {"LoRA+", "training.loraplus_lr_ratio=16"},
           {"PiSSA", start + "pissa"},
           {"OLoRA", start + "olora"},
           {"LoftQ", four + " " + start + "loftq"},
           {"EVA", start + "eva"},
           {"LoRA-GA", start + "lora_ga"},
           {"full", "finetuning_type=full"}}};
}

Group precisions() {
  return {"Precision",
          false,
          {{"float32", "training.bf16=false"},
           {"bfloat16", "training.bf16=true"},
           {"float16", "training.fp16=true"}}};
}

Group devices() {
  return {"Devices",
          false,
          {{"CPU", "device=cpu"},
           {"GPU", "device=cuda"},
           {"GPU with cuDNN", "device=cuda model.attn_implementation=cudnn"}}};
}

Group data() {
  const std::string e = "data_efficiency.", sampling = e + "data_sampling.";
  return {"Data and evaluation",
          true,
          {{"packing", "data.packing=true"},
           {"streaming", "training.max_steps=100 data.streaming=true"},
           {"curriculum",
            e + "enabled=true " + sampling + "enabled=true " + sampling + "curriculum_learning.enabled=true"},
           {"random-LTD", e + "enabled=true " + e + "data_routing.enabled=true " + e +
                              "data_routing.random_ltd.enabled=true"},
           {"sparse attention", "model.sparse_attention.mode=fixed"},
           {"NEFTune", "training.neftune_noise_alpha=5"},
           {"label smoothing", "training.label_smoothing_factor=0.1"},
           {"evaluations", R"(data.eval_datasets=[{"path":"e.jsonl"}] evaluation.eval_strategy=steps)"},
           {"predict_with_generate",
            R"(data.eval_datasets=[{"path":"e.jsonl"}] evaluation.predict_with_generate=true)"}}};
}

// Returns a configuration with two choices. Where both set one thing, the last setting of a choice, which is
// its own, holds.
RunConfig combined(const std::string& a, const std::string& b) {
  SettingsText tree{
      .value = Json::parse(
          R"({"model": {"model_name_or_path": "m"}, "data": {"datasets": [{"path": "d.jsonl"}]}})"),
      .lines = {},
      .name = "page"};
  std::vector<std::string> first = settings_of(a), second = settings_of(b);
  for (const auto* all : {&first, &second})
    for (std::size_t i = 0; i + 1 < all->size(); ++i) override_setting(tree, (*all)[i]);
  for (const auto* all : {&first, &second}) override_setting(tree, all->back());
  return read_settings<RunConfig>(tree, "");
}

std::string own(const Choice& c) {
  const std::string last = settings_of(c.set).back();
  return last.substr(0, last.find('='));
}

// Returns the numbers of the pairs that a configuration has, those that a model decides in parentheses.
std::vector<std::string> pairs_in(const RunConfig& c) {
  std::vector<std::string> numbers;
  int number = 0;
  for (const auto& [pairs, by_model] : {std::pair{clashes(), false}, {clashes_by_model(), true}})
    for (const Clash& pair : pairs) {
      const std::string text = std::to_string(++number);
      if (pair.first.on(c, kRanks) && pair.second.on(c, kRanks))
        numbers.push_back(by_model ? "(" + text + ")" : text);
    }
  return numbers;
}

// Returns the numbers of the pairs that forbid two choices; "✓": none does. Where both need another value of
// one setting, such as the stage, either may give way.
std::string cell(const Choice& a, const Choice& b) {
  if (own(a) == own(b)) return "–";
  std::vector<std::string> numbers = pairs_in(combined(a.set, b.set));
  if (!numbers.empty()) {
    std::vector<std::string> other = pairs_in(combined(b.set, a.set));
    if (other.size() < numbers.size()) numbers = std::move(other);
  }
  std::string out;
  for (const std::string& n : numbers) out += (out.empty() ? "" : ", ") + n;
  return out.empty() ? "✓" : out;
}

bool is_free(const std::string& text) { return text == "✓" || text == "–"; }

// Returns the rows of a group in the grid of another. Adds the choices that go with all columns to `free`.
std::string rows(const Group& group, const Group& columns, std::vector<std::string>& free) {
  std::string out;
  for (const Choice& choice : group.choices) {
    std::string row = "| " + choice.name;
    bool any = false;
    for (const Choice& column : columns.choices) {
      const std::string text = &choice == &column ? "–" : cell(choice, column);
      any = any || !is_free(text);
      row += " | " + text;
    }
    if (any)
      out += row + " |\n";
    else
      free.push_back(choice.name);
  }
  return out;
}

std::string grid(const std::vector<Group>& groups, std::size_t at) {
  const Group& columns = groups[at];
  std::string head = "| ", line = "|---", body;
  for (const Choice& c : columns.choices) {
    head += "| " + c.name + " ";
    line += "|---";
  }
  std::vector<std::string> free;
  for (std::size_t i = columns.inside ? at : at + 1; i < groups.size(); ++i)
    body += rows(groups[i], columns, free);
  std::string out = "## " + columns.name + "\n\n";
  if (!body.empty()) out += head + "|\n" + line + "|\n" + body + "\n";
  if (free.empty()) return out;
  std::string text = body.empty() ? "All of these go with all of" : "With all of these go";
  if (body.empty())
    for (std::size_t i = 0; i < columns.choices.size(); ++i)
      text += (i == 0 ? " " : ", ") + columns.choices[i].name;
  text += ":";
  std::string wrapped;
  std::size_t column = 0;
  std::vector<std::string> words = settings_of(text);
  for (std::size_t i = 0; i < free.size(); ++i)
    for (std::string& word : settings_of(free[i] + (i + 1 < free.size() ? "," : ".")))
      words.push_back(std::move(word));
  for (const std::string& word : words) {
    const bool full = column + 1 + word.size() > 110;
    wrapped += (column == 0 ? "" : full ? "\n" : " ") + word;
    column = (full || column == 0 ? 0 : column + 1) + word.size();
  }
  return out + wrapped + "\n\n";
}

// Returns the list of pairs, with numbers from `number` on.
std::string pair_list(std::span<const Clash> pairs, int number) {
  std::string out = "| | this | and this | what ft says |\n|---|---|---|---|\n";
  for (const Clash& pair : pairs)
    out += str("| ", number++, " | ", pair.first.name, " | ", pair.second.name, " | ",
               message(pair, combined(pair.first.set, pair.second.set)), " |\n");
  return out;
}

}  // namespace

std::vector<std::string> settings_of(const std::string& set) {
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin < set.size();) {
    const std::size_t end = std::min(set.find(' ', begin), set.size());
    all.push_back(set.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

std::string together_page() {
  std::string out = R"(# What goes with what

A run combines a method, a precision, a device, a ZeRO stage and more. This page shows which of them go
together. ✓: no rule forbids it. A number: ft refuses it, and the [list](#the-pairs) says why. A number in
parentheses: the model or the machine decides. The page is made from the table that ft itself asks
(`app/config/together_rules.cpp`), for a run on 8 ranks. `ft validate`, `ft plan` and `ft tune` give the
same answers. On one rank all ZeRO stages are equal, and offload goes with stage 0. What models have is in
[features.md](features.md), and limits of families are in [parallel.md](parallel.md),
[mixtures.md](mixtures.md) and [t5.md](t5.md).

Each pair of choices is in one grid: that of the choice that comes first on this page. Choices that go with
all columns of a grid have no row there: they are named below it.

)";
  const std::vector<Group> groups{
      axes(),       stages(),  offload(), objective_group(), optimizer_group(), methods(),
      precisions(), devices(), data()};
  for (std::size_t i = 0; i < groups.size(); ++i) out += grid(groups, i);
  const auto settled = clashes();
  out += "## The pairs\n\nft refuses both at once, with exit code 2:\n\n" + pair_list(settled, 1);
  out += "\nThe model or the machine decides these:\n\n" +
         pair_list(clashes_by_model(), static_cast<int>(settled.size()) + 1);
  return out;
}

}  // namespace ft
