#include "app/train/verify_zero.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <sstream>

#include "app/assembly/experts.h"
#include "app/config/together.h"
#include "app/plan/planned.h"
#include "app/process/watched_process.h"
#include "app/ranks/grid.h"
#include "app/ranks/offload.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "engine/files/file.h"
#include "engine/files/hash.h"
#include "engine/files/json.h"
#include "engine/files/staged_folder.h"
#include "engine/ops/null_ops.h"
#include "engine/train/optimizers/list.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/zero/formula.h"
#include "engine/zero/planned.h"

namespace ft {
namespace {

constexpr std::int64_t kLargestLog = 1 << 24;  // bytes of a log that is read

// Returns the largest allowed relative difference of losses: sums have another order, and 16-bit values may
// be rounded differently.
double bound_of(const RunConfig& config) { return config.dtype() == DType::f32 ? 1e-6 : 1e-3; }

struct Measured {
  std::vector<double> losses;
  std::string weights;      // hash of the weights
  std::int64_t states = 0;  // bytes in memory or in files
  Traffic traffic;          // bytes of a step
};

// Sizes of the model, or of a pipeline's first stage, as the formulas for sharding need them.
struct Sizes {
  double trained = 0, frozen_bytes = 0;
  double complete = 0;  // trained parameters whose update needs the complete gradient
  bool experts = false;
  StateBytes bytes{};  // average bytes of a trained parameter
};

Sizes sizes_of(const RunConfig& config) {
  const DistributedConfig& d = config.distributed;
  const BuiltModel built = build_model(config, Weights::ignore,
                                       {.tensor = {},
                                        .stage = 0,
                                        .stages = static_cast<int>(d.pipeline_parallel_size),
                                        .chunks = static_cast<int>(d.virtual_pipeline_parallel_size)});
  const StatesOf states = states_of(config.training);
  NullOps null;
  PlannedCommunicator one(1, 0);
  ParameterStore store(null, one, ZeroStage::of(0));
  built.model().add_units(store);
  Sizes s;
  double kept = 0;
  store.layout().each_parameter([&](const Parameter& p) {
    const auto n = static_cast<double>(p.shape.numel());
    if (!p.trainable) {
      s.frozen_bytes += n * static_cast<double>(size_of(p.dtype));
      return;
    }
    s.bytes = bytes_of(p.dtype, states(p));
    s.trained += n;
    if (want_complete_gradient(states(p))) s.complete += n;
    kept += n * s.bytes.optimizer;
  });
  s.experts = has_experts(built);
  if (s.trained > 0) s.bytes.optimizer = kept / s.trained;
  return s;
}

std::string weights_hash(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().string());
  std::sort(names.begin(), names.end());
  std::string all;
  for (const std::string& name : names) all += sha256(InputFile(name));
  return all;
}

Measured read_run(const std::string& folder) {
  Measured m;
  const std::string file = join_path(folder, "log.jsonl");
  std::istringstream log(read_file(file, kLargestLog));
  for (std::string line; std::getline(log, line);) {
    const Json row = parse_json(line, {file});
    if (row.contains("loss") && row["loss"].is_number()) m.losses.push_back(row["loss"]);
    if (!row.contains("memory")) continue;
    for (const char* what : {"weights", "adapter", "gradients", "optimizer", "elsewhere"})
      m.states += row["memory"][what].get<std::int64_t>();
    const auto moved = [&](const char* what) { return row.value(what, std::int64_t{0}); };
    m.traffic = {.sent = row["sent_per_step"],
                 .moved = {.read = moved("read_per_step"),
                           .written = moved("written_per_step"),
                           .to_device = moved("to_device_per_step"),
                           .to_host = moved("to_host_per_step")}};
  }
  m.weights = weights_hash(folder);
  return m;
}

double largest_difference(const Measured& a, const Measured& b) {
  double most = a.losses.size() == b.losses.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.losses.size(), b.losses.size()); ++i)
    most = std::max(most, std::abs(a.losses[i] - b.losses[i]) / std::max(1e-30, std::abs(b.losses[i])));
  return most;
}

bool same_bits(const Measured& a, const Measured& b) {
  return a.losses == b.losses && a.weights == b.weights;
}

struct Layouts {  // the setup of a row
  int ranks = 1, stage = 0;
  bool files = false;  // states are in files, and values if the stage shards them
  std::string name() const { return str(stage, files ? ", files" : ""); }
};

// Returns the setups for a number of ranks. One rank holds everything under every stage, so it has one setup,
// and another with files.
std::vector<Layouts> layouts_of(int ranks, bool files) {
  if (ranks == 1 && !files) return {{1, 0, false}};
  if (ranks == 1) return {{1, 0, false}, {1, 0, true}};
  std::vector<Layouts> all;
  for (const bool in_files : {false, true})
    for (int stage = in_files ? 1 : 0; stage <= 3 && in_files <= files; ++stage)
      all.push_back({ranks, stage, in_files});
  return all;
}

class ZeroVerification {
 public:
  explicit ZeroVerification(const VerifyZeroArgs& args)
      : args_(args),
        config_(load_config(args.config, args.settings())),
        staged_(config_.training.output_dir + ".verify-zero") {
    if (config_.distributed.tensor_parallel_size > 1)
      throw UserError(Exit::config,
                      "distributed.tensor_parallel_size: ft verify zero compares ZeRO's stages by its "
                      "formulas, which do not cover split layers; leave it out");
    if (config_.distributed.expert_parallel_size > 1)
      throw UserError(Exit::config,
                      "distributed.expert_parallel_size: ft verify zero compares ZeRO's stages by its "
                      "formulas, which do not cover rows that ranks send to experts; leave it out");
    if (config_.training.optim == &optimizers::kOneBitAdam)
      throw UserError(Exit::config,
                      "training.optim: onebit_adam gives other results with every number of ranks, so ft "
                      "verify zero has nothing to compare; choose adamw");
    const ZeroConfig& z = config_.zero_optimization;
    if (z.zero_quantized_weights || z.zero_quantized_gradients)
      throw UserError(Exit::config,
                      "zero_optimization.zero_quantized_*: rounding before sending changes the results, so "
                      "ft verify zero has nothing to compare; leave it out");
    for (const int n : args.ranks) common_ = std::lcm(common_, grid_of(n).data);
  }

  Exit run() {
    const ZeroConfig& z = config_.zero_optimization;
    screen_.line(str(args_.steps, " steps under each stage; losses may differ by ",
                     show::digits(bound_of(config_)), " where sums have another order; parameters of up to ",
                     show::count(static_cast<std::int64_t>(z.stage3_param_persistence_threshold)),
                     " elements are not sharded under stage 3"));
    std::cout << "ranks  stage     loss, vs the first row      weights             states, by formula      "
                 "sent per step, by formula  from and to files"
              << std::endl;
    bool good = true;
    for (const int n : args_.ranks) {
      std::vector<Measured> stages;
      for (const Layouts& l : layouts_of(n, !config_.on_gpu() && z.mics_shard_size <= 0)) {
        const RunConfig config = config_of(l);
        if (!goes_together(config)) continue;
        const Measured m = run_one(config, str("ranks ", n, ", stage ", l.name()), n);
        if (stopped_) return Exit::preempted;
        if (!l.files) stages.push_back(m);
        if (!first_) first_ = m;
        good = report(config, l, m, stages) && good;
      }
    }
    if (good) return Exit::done;
    throw UserError(Exit::mismatch, "values marked with ! differ from ZeRO's guarantees");
  }

 private:
  // Returns the configured grid for a number of ranks. One rank has no axes; all others are compared with it.
  GridShape grid_of(int ranks) const {
    if (ranks == 1) return {};
    DistributedConfig d = config_.distributed;
    d.data_parallel_size.reset();
    return grid_shape(d, ranks);
  }
  // Returns the configuration of a setup. Every number of ranks trains on the same samples in a step.
  RunConfig config_of(const Layouts& l) const {
    const int ranks = l.ranks;
    RunConfig c = config_;
    c.training.output_dir =
        join_path(staged_.path(), str("ranks-", ranks, "-stage-", l.stage, l.files ? "-files" : ""));
    c.training.gradient_accumulation_steps *= common_ / grid_of(ranks).data;
    c.training.max_steps = args_.steps;
    c.training.resume_from_checkpoint = Resume::none;
    c.zero_stage.reset();
    ZeroConfig& z = c.zero_optimization;
    z = at_stage(z, l.stage);
    if (!c.on_gpu()) {
      z.offload_param = {};
      z.offload_optimizer = {};
    }
    const OffloadConfig files{.device = OffloadDevice::nvme, .nvme_path = staged_.path()};
    if (l.files) z.offload_optimizer = {files};
    if (l.files && (ranks == 1 || l.stage == 3)) z.offload_param = files;
    if (z.mics_shard_size > ranks || ranks % std::max<std::int64_t>(1, z.mics_shard_size) != 0)
      z.mics_shard_size = -1;
    if (l.files || ranks % z.zero_hpz_partition_size != 0) z.zero_hpz_partition_size = 1;
    c.distributed.nproc_per_node.reset();
    if (ranks > 1) c.distributed.nproc_per_node = ranks;
    c.distributed.data_parallel_size.reset();
    if (ranks == 1)
      c.distributed.sequence_parallel_size = c.distributed.tensor_parallel_size =
          c.distributed.pipeline_parallel_size = c.distributed.virtual_pipeline_parallel_size = 1;
    c.evaluation = {};
    c.checkpointing.save_strategy = SaveStrategy::no;
    c.logging.logging_steps = 1;
    c.logging.report_to = {Reporter::none};
    c.logging.progress = ProgressStyle::plain;
    c.logging.plot_loss = false;
    c.logging.html_report = false;
    return c;
  }

  Measured run_one(const RunConfig& config, const std::string& name, int ranks) {
    const std::string folder = config.training.output_dir, file = folder + ".json";
    write_file(file, effective_config(config));
    std::vector<std::string> words{"train", "--config", file};
    if (ranks > 1) words.insert(words.begin(), "launch");
    WatchedProcess process(words, folder + ".log", signals_);
    const int exit = process.wait(stopped_, [&](const std::string& last) {
      screen_.live_line([&name, last](int) { return str(name, "  ", last); });
    });
    screen_.clear();
    if (stopped_) return {};
    if (exit != 0)
      throw UserError(Exit{exit}, str(name, " ended with exit code ", exit, ": ", process.last_line()));
    const Measured m = read_run(folder);
    std::filesystem::remove_all(folder);
    return m;
  }

  // Prints a row. Returns true if all its values are as expected. `stages`: results for the same number of
  // ranks without files, up to this row.
  bool report(const RunConfig& config, const Layouts& l, const Measured& m,
              const std::vector<Measured>& stages) {
    const int ranks = l.ranks, stage = l.stage;
    const double from_first = largest_difference(m, *first_), bound = bound_of(config);
    const bool close = from_first <= bound;
    // Stages 1 and 3 must have the same bits as 0 and 2, because they only shard what those hold. Files must
    // have the same bits as their stage.
    const int twin = l.files ? stage : stage == 3 ? 2 : 0;
    const bool same = same_bits(m, stages[static_cast<std::size_t>(twin)]), must = l.files || stage % 2 == 1;
    const std::string weights =
        stage == 0 && !l.files ? "" : str(same ? "bits of stage " : "near stage ", twin);
    const Traffic plan =
        planned(config, nullptr, {}).stages[0].per_step(config.training.gradient_accumulation_steps);
    // The plan is an upper bound in two cases. Ranks that exchange states send bytes for their actual rows,
    // but the plan is for the longest sequences. With experts, the bytes depend on which experts are used.
    const GridShape grid = grid_of(ranks);
    const Sizes sizes = sizes_of(config);
    const bool exact = grid.sequence * grid.pipeline == 1 && !(sizes.experts && stage == 3 && ranks > 1);
    const bool sent_right = exact ? m.traffic.sent == plan.sent : m.traffic.sent <= plan.sent;
    const bool moved_right = m.traffic.moved == plan.moved;
    const ZeroStage layout = ZeroStage::of(ranks == 1 ? 0 : stage);
    const double shards = config.zero_optimization.mics_shard_size > 0
                              ? double(config.zero_optimization.mics_shard_size)
                              : grid.zero();
    const double states = state_bytes(layout, shards, sizes.trained, sizes.bytes) +
                          sizes.frozen_bytes / (layout.params == Placement::sharded ? shards : 1);
    const double gathered =
        layout.states == Placement::sharded ? sizes.bytes.gradient * sizes.complete * (1 - 1 / shards) : 0;
    const auto micro_steps = double(config.training.gradient_accumulation_steps);
    const PlusPlus copies{.near = double(config.zero_optimization.zero_hpz_partition_size)};
    const double by_stage =
        copies.near > 1
            ? sent_bytes(copies, shards, sizes.trained, sizes.frozen_bytes, sizes.bytes, micro_steps)
            : sent_bytes(layout, shards, sizes.trained, sizes.frozen_bytes, sizes.bytes, micro_steps);
    const double sent = gathered + by_stage;
    const auto mark = [](bool right) { return right ? " " : "!"; };
    const auto memory = [](double b) { return show::memory(static_cast<std::int64_t>(b)); };
    std::cout << cell(std::to_string(ranks), 7) << cell(l.name(), 10)
              << cell((from_first == 0 ? "equal" : show::digits(from_first, 2)) + mark(close), 28)
              << cell(weights + mark(same || !must), 20) << cell(memory(double(m.states)), 12)
              << cell(memory(states), 12) << cell(memory(double(m.traffic.sent)) + mark(sent_right), 15)
              << cell(memory(sent), 12)
              << (l.files ? memory(double(m.traffic.moved.read + m.traffic.moved.written)) + mark(moved_right)
                          : "")
              << std::endl;
    return close && (same || !must) && sent_right && moved_right;
  }
  static std::string cell(std::string text, std::size_t width) {
    text.resize(std::max(width, text.size()), ' ');
    return text;
  }

  VerifyZeroArgs args_;
  RunConfig config_;
  StagedFolder staged_;  // temporary: never committed
  std::int64_t common_ = 1;
  std::optional<Measured> first_;
  Screen screen_{Screen::standard_error()};
  SignalQueue signals_;
  bool stopped_ = false;
};

}  // namespace

Exit verify_zero(const VerifyZeroArgs& args) { return ZeroVerification(args).run(); }

}  // namespace ft
