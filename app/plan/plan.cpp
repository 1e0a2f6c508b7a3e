#include "app/plan/plan.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/assembly/built_data.h"
#include "app/assembly/engine.h"
#include "app/config/hub_folders.h"
#include "app/config/together.h"
#include "app/plan/fitting.h"
#include "app/plan/gpu_sizes.h"
#include "app/plan/planned.h"
#include "app/plan/table.h"
#include "app/plan/ways_out.h"
#include "app/ranks/offload.h"
#include "app/ranks/ranks.h"
#include "app/screen/screen.h"
#include "engine/cpu/cores.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "models/text_config.h"

namespace ft {
namespace {

// The run to plan, and the memory for it. Without data the model is planned at full length.
struct Subject {
  RunConfig config;
  std::optional<BuiltData> data;
  Room room;

  Planned with(const RunConfig& other) const { return planned(other, data ? &*data : nullptr, room); }
};

// Sets the memory to plan for: a GPU's, which need not be in this machine, or a rank's part of this
// machine's.
void place(Subject& s, const PlanArgs& args) {
  if (args.ranks > 0) {
    DistributedConfig& d = s.config.distributed;
    if (args.ranks % d.nnodes != 0) d.nnodes = 1;
    d.nproc_per_node = args.ranks / d.nnodes;
  }
  if (!args.gpu.empty()) {
    s.room = {.workspace = CudaWorkspace::of(attention_of(s.config)).total(),
              .driver = CudaWorkspace::kDriver,
              .there = gpu_memory(args.gpu)};
    return;
  }
  cpu::take_share_of_cores(0, configured_ranks(s.config.distributed));  // as a rank does
  s.room = room_of(s.config);
}

// Returns the folder of --model, absolute.
std::string folder_of(const PlanArgs& args) {
  std::filesystem::path folder(model_folder(args.model, "main", "ft plan"));
  if (folder.filename() == "config.json") folder = folder.has_parent_path() ? folder.parent_path() : ".";
  return std::filesystem::absolute(folder).string();
}

// Returns the settings of --config with the model of --model; without --config, the defaults.
RunConfig settings_of(const PlanArgs& args) {
  std::vector<std::string> overrides = args.settings();
  if (!args.gpu.empty()) overrides.emplace_back("device=cuda");
  if (args.config.empty()) {
    Json j;
    j["model"]["model_name_or_path"] = folder_of(args);
    j["data"]["datasets"] = Json::array({{{"path", "none"}}});  // required by the configuration, but not read
    return parse_config(j.dump(), "--model", "", overrides);
  }
  if (!args.model.empty()) overrides.push_back("model.model_name_or_path=" + folder_of(args));
  return load_config(args.config, overrides, {.ranks = static_cast<int>(args.ranks), .trains = true});
}

Subject subject(const PlanArgs& args, Screen& screen) {
  Subject s;
  s.config = settings_of(args);
  place(s, args);
  if (!args.model.empty()) return s;
  Working working(screen, "reading data");
  const BuiltModel built = build_model(s.config, Weights::ignore);
  s.data = build_data(
      s.config, built.made.info, LoadPart::train_and_eval,
      [&](std::int64_t done, std::int64_t of) { working(done, of); }, grid_of(s.config.distributed).data);
  return s;
}

// Returns the number of positions in the model's config.json; 0: it does not say.
std::int64_t positions_of(const RunConfig& config) {
  const JsonObject j = text_settings(JsonObject::read(join_path(config.model.folder(), "config.json")));
  for (const char* name : {"max_position_embeddings", "n_positions"})
    if (j.is_number(name)) return j.integer(name, 1);
  return 0;
}

// Returns the cost of moving offloaded data; empty: the run offloads nothing.
std::optional<StepCost> cost_of(const Subject& s, const Planned& p, const PlanArgs& args) {
  const Moved m = p.plan.per_step(s.config.training.gradient_accumulation_steps).moved;
  const auto useless = [](const char* option, const std::string& given, bool moves, const char* where) {
    if (!moves && !given.empty())
      throw UserError(Exit::config, str(option, ": this run moves no data ", where, "; leave it out"));
  };
  useless("--disk", args.speeds.disk, m.read + m.written > 0, "from or to files");
  useless("--pcie", args.speeds.pcie, m.to_device + m.to_host > 0, "between a GPU and the host's memory");
  useless("--flops", args.speeds.flops, m != Moved{}, "beside its arithmetic");
  if (m == Moved{}) return {};
  return step_cost(s.config, p, s.room, speeds_of(s.config, args.speeds, args.gpu.empty()));
}

}  // namespace

Exit plan(const PlanArgs& args) {
  Screen screen(Screen::standard_error());
  const Subject s = subject(args, screen);
  const int ranks = all_ranks(s.config.distributed);
  const auto own = static_cast<int>(s.config.zero_optimization.stage);
  PlanTable table{.ranks = ranks,
                  .grid = grid_of(s.config.distributed),
                  .there = s.room.there,
                  .host = s.room.host,
                  .positions = positions_of(s.config)};
  for (int stage = 0; stage <= 3; ++stage) {
    if (stage != own && ranks == 1) continue;  // with one rank all stages are the same
    RunConfig config = s.config;
    config.zero_optimization = at_stage(config.zero_optimization, stage);
    if (stage != own && !goes_together(config, table.grid.zero())) continue;
    table.stages.push_back({stage, s.with(config)});
    if (s.room.there > 0) table.stages.back().longest = longest_that_fits(config, s.room);
    if (stage == own) table.own = table.stages.size() - 1;
  }
  table.accumulation = s.config.training.gradient_accumulation_steps;
  table.choose_recomputed = !s.config.training.gradient_checkpointing;
  const CheckpointingConfig& saved = s.config.checkpointing;
  table.waits_for_checkpoints =
      !table.mine().planned.plan.saves_beside && !saved.async_save && saved.save_strategy != SaveStrategy::no;
  table.cost = cost_of(s, table.mine().planned, args);
  screen.clear();
  if (args.json) {
    std::cout << as_json(table) << "\n";
    return Exit::done;
  }
  std::cout << as_text(table);
  if (s.room.there > 0 && table.mine().planned.plan.memory.total > s.room.there)
    std::cout << fits_text(fits(s.config, s.data ? &*s.data : nullptr, s.room, table.mine().longest));
  if (s.room.host > 0 && table.mine().planned.host() > s.room.host)
    std::cout << "it does not fit into the host's memory; try: " << advice_on_host_memory(s.config) << "\n";
  return Exit::done;
}

}  // namespace ft
