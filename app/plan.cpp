// ft plan: what a run will take, before it starts: memory by category, arithmetic of a step, and when it does
// not fit the settings that would make it fit. The very code that trains is run on memory that is only
// counted.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/assembly.h"
#include "app/commands.h"
#include "app/format.h"
#include "app/planned.h"
#include "app/ranks.h"
#include "app/screen.h"
#include "engine/cpu/cores.h"
#include "engine/io/json.h"

namespace ft {
namespace {

// What is planned: a run with its data, or a model at full length.
struct Subject {
  RunConfig config;
  std::optional<BuiltData> data;
};

struct Row {
  const char *name, *shown;
  std::int64_t MemoryReport::*bytes;
};
constexpr Row kRows[] = {
    {"weights", "weights", &MemoryReport::weights},
    {"adapter", "adapter", &MemoryReport::adapter},
    {"gradients", "gradients", &MemoryReport::gradients},
    {"optimizer", "optimizer", &MemoryReport::optimizer},
    {"activations", "activations", &MemoryReport::activations},
    {"scratch", "workspace", &MemoryReport::scratch},
    {"communication", "communication", &MemoryReport::communication},
    {"total", "total", &MemoryReport::total},
};

Json as_json(const Planned& p, const RunConfig& config, std::int64_t there) {
  Json j;
  for (const Row& row : kRows) j[row.name] = p.plan.memory.*row.bytes;
  const double steps = static_cast<double>(config.training.gradient_accumulation_steps);
  j["flops_per_step"] = p.plan.flops * steps;
  j["ranks"] = all_ranks(config.distributed);
  j["zero_stage"] = config.zero_optimization.stage;
  j["sent_per_step"] = p.plan.sent_per_step(config.training.gradient_accumulation_steps);
  j["flops_per_token"] = p.plan.flops_per_token;
  j["parameters"] = p.plan.parameters;
  j["trained_parameters"] = p.plan.trained;
  j["memory_there"] = there > 0 ? Json(there) : Json();
  return j;
}

void print_table(const Planned& p, const RunConfig& config, std::int64_t there) {
  const auto unit = show::memory_unit(p.plan.memory.total);
  const auto line = [](const std::string& name, const std::string& value) {
    const std::size_t width = 18 - std::min<std::size_t>(17, value.size());
    std::cout << name << std::string(name.size() < 14 ? 14 - name.size() : 1, ' ')
              << std::string(width - 6, ' ') << value;
  };
  const int ranks = all_ranks(config.distributed);
  if (ranks > 1)
    std::cout << "of each of " << ranks << " ranks, ZeRO stage " << config.zero_optimization.stage << "\n";
  line("memory", unit.name);
  std::cout << "\n";
  for (const Row& row : kRows) {
    const std::int64_t bytes = p.plan.memory.*row.bytes;
    line(row.shown, bytes > 0 ? show::memory(bytes, unit) : "-");
    if (row.bytes == &MemoryReport::total && there > 0)
      std::cout << "     " << show::memory(there) << " are free";
    std::cout << "\n";
  }
  const std::int64_t accumulation = config.training.gradient_accumulation_steps;
  std::cout << "trained: " << show::quantity(static_cast<double>(p.plan.trained)) << " of "
            << show::quantity(static_cast<double>(p.plan.parameters))
            << " parameters\none step: " << show::quantity(p.plan.flops * static_cast<double>(accumulation))
            << " FLOP, " << show::count(accumulation) << " x " << show::count(p.largest.all_tokens())
            << " tokens at most\n";
  if (ranks > 1)
    std::cout << "sent in a step: " << show::memory(p.plan.sent_per_step(accumulation)) << " by each rank\n";
}

// The settings that would help, each with what it leaves, those that fit.
void print_ways_out(const Subject& s, std::int64_t workspace, std::int64_t there) {
  std::vector<std::pair<std::string, RunConfig>> ways;
  const auto way = [&](const std::string& setting, bool helps, const auto& change) {
    if (!helps) return;
    ways.emplace_back(setting, s.config);
    change(ways.back().second);
  };
  way("training.gradient_checkpointing=true", !s.config.training.gradient_checkpointing,
      [](RunConfig& c) { c.training.gradient_checkpointing = true; });
  way("training.bf16=true", !s.config.training.bf16.value_or(false),
      [](RunConfig& c) { c.training.bf16 = true; });
  way("finetuning_type=lora", s.config.finetuning_type == "full",
      [](RunConfig& c) { c.finetuning_type = "lora"; });
  way("quantization.load_in_4bit=true",
      s.config.finetuning_type == "lora" && !s.config.quantization.load_in_4bit,
      [](RunConfig& c) { c.quantization.load_in_4bit = true; });
  std::cout << "it does not fit";
  bool any = false;
  for (const auto& [setting, config] : ways) {
    const std::int64_t total = planned(config, s.data ? &*s.data : nullptr, workspace).plan.memory.total;
    if (total > there) continue;
    std::cout << (any ? "" : "; it would with") << "\n  " << setting << "  " << show::memory(total);
    any = true;
  }
  std::cout << "\n";
}

Subject subject(const PlanArgs& args, Screen& screen) {
  if (!args.config.empty()) {
    Subject s{load_config(args.config, args.overrides), {}};
    Working working(screen, "reading data");
    const BuiltModel built = build_model(s.config, Weights::ignore);
    s.data = build_data(s.config, built.made.info.vocab_size, LoadPart::train_and_eval,
                        [&](std::int64_t done, std::int64_t of) { working(done, of); });
    return s;
  }
  std::filesystem::path folder(args.model);
  if (folder.filename() == "config.json") folder = folder.has_parent_path() ? folder.parent_path() : ".";
  Json j;
  j["model"]["model_name_or_path"] = std::filesystem::absolute(folder).string();
  j["data"]["datasets"] = Json::array({{{"path", "none"}}});  // none is read
  return {parse_config(j.dump(), "--model", "", args.overrides), {}};
}

}  // namespace

Exit plan(const PlanArgs& args) {
  Screen screen(Screen::standard_error());
  const Subject s = subject(args, screen);
  cpu::take_share_of_cores(0, configured_ranks(s.config.distributed));  // as a rank would
  const auto ops = make_ops(device_of(s.config));
  const std::int64_t workspace = ops->workspace(),
                     there = ops->free_memory() / configured_ranks(s.config.distributed);
  const Planned p = planned(s.config, s.data ? &*s.data : nullptr, workspace);
  screen.clear();
  if (args.json) {
    std::cout << json_text(as_json(p, s.config, there), -1) << "\n";
    return Exit::done;
  }
  print_table(p, s.config, there);
  if (there == 0) return Exit::done;
  if (const std::int64_t length = longest_that_fits(s.config, workspace, there); length > 0)
    std::cout << "longest " << (p.largest.source_tokens > 0 ? "max_source_length" : "max_seq_length")
              << " that fits: " << show::count(length) << "\n";
  if (p.plan.memory.total > there) print_ways_out(s, workspace, there);
  return Exit::done;
}

}  // namespace ft
