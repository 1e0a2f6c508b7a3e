#include "app/tune/candidates.h"

#include <algorithm>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "app/assembly/engine.h"
#include "app/plan/planned.h"
#include "app/ranks/ranks.h"
#include "engine/cpu/cores.h"
#include "engine/settings/fields.h"

namespace ft {
namespace {

// Assumed speeds and times before anything is measured. Only their ratios matter, and trials correct them.
struct Prices {
  double flops = 0;       // FLOP per second of a core, or of a GPU
  double sent = 0;        // bytes per second between ranks
  double read = 0;        // bytes of weights per second
  double micro_step = 0;  // seconds that each micro-step adds
  double moved = 0;       // offloaded bytes per second
};
constexpr Prices kCpu{.flops = 5e10, .sent = 1e9, .read = 1e10, .micro_step = 1e-3, .moved = 1e9};
constexpr Prices kGpu{.flops = 2e14, .sent = 1e11, .read = 1e12, .micro_step = 3e-3, .moved = 2e10};
constexpr double kRecomputed = 0.4;  // part of a step's arithmetic, if every block is recomputed
constexpr double kExposed = 0.5;     // part of the time of sending, if nothing overlaps it

// The data of a point: read once, and batched again if the micro-batch changes.
class PointData {
 public:
  const BuiltData& of(const RunConfig& c) {
    const std::string read = json_text({{"data", write_settings(c.data)},
                                        {"efficiency", write_settings(c.data_efficiency)},
                                        {"model", write_settings(c.model)},
                                        {"seed", c.training.seed},
                                        {"eval", c.training.per_device_eval_batch_size}});
    const std::int64_t micro = c.training.per_device_train_batch_size;
    const bool in_memory = data_.train && !data_.efficient && !data_.own;  // nothing else has its batches
    if (read != read_ || (micro != micro_ && !in_memory)) {
      const BuiltModel built = build_model(c, Weights::ignore);
      data_ = build_data(c, built.made.info, LoadPart::train_and_eval, {}, configured_ranks(c.distributed));
    } else if (micro != micro_) {
      BatcherOptions options = data_.train->options();
      options.batch_size = micro;
      data_.train = std::make_unique<Batcher>(data_.loaded.train, options);
    }
    read_ = read;
    micro_ = micro;
    return data_;
  }

 private:
  std::string read_;
  std::int64_t micro_ = 0;
  BuiltData data_;
};

// The memory for one of several ranks, by the number of ranks. Measured in a thread that is bound to the
// rank's part of the cores, so that this process and its children are not bound.
class Rooms {
 public:
  Room of(const RunConfig& c) {
    const int ranks = configured_ranks(c.distributed);
    const auto [at, fresh] = rooms_.try_emplace({ranks, c.on_gpu(), attention_of(c)});
    if (fresh)
      at->second = std::async(std::launch::async, [&] {
                     if (!c.on_gpu()) cpu::take_share_of_cores(0, ranks);
                     return room_of(c);
                   }).get();
    return at->second;
  }

 private:
  std::map<std::tuple<int, bool, AttentionKernels>, Room> rooms_;
};

class Planning {
 public:
  Planning(const TuneSpace& space, int cores) : space_(space), cores_(cores) {}

  void add(std::size_t i) {
    const TunePoint& point = space_.points[i];
    const Room room = rooms_.of(point.config);
    const Planned p = planned(point.config, &data_.of(point.config), room);
    const std::int64_t memory = p.plan.memory.total;
    if (out_.smallest == 0 || memory < out_.smallest) out_.smallest = memory, out_.there = room.there;
    if (room.there > 0 && memory > room.there) {
      ++out_.too_large;
      return;
    }
    const auto [same, fresh] = seen_.try_emplace(effects(point, p.plan), out_.fit.size());
    if (fresh) out_.fit.push_back(candidate(i, p));
    if (i == space_.start) out_.start = same->second;
  }
  TuneCandidates take() { return std::move(out_); }

 private:
  // Returns the effects of a point's settings as text; points with equal effects run the same.
  std::string effects(const TunePoint& point, const Plan& plan) const {
    constexpr double kLargestBucket = 1 << 18;  // elements: MeshCommunicator's 1 MiB
    Json all = Json::array();
    for (std::size_t d = 0; d < space_.dimensions.size(); ++d) {
      const auto& [path, label, values] = space_.dimensions[d];
      const Json& value = values[point.choice[d]];
      if (point.values[d].empty())
        all.push_back(nullptr);
      else if (path == "training.gradient_checkpointing")
        all.push_back({plan.recomputed, plan.segment, plan.whole});
      else if (path == "zero_optimization.stage3_prefetch_bucket_size")
        all.push_back(std::min(value.get<double>(), static_cast<double>(plan.parameters)));
      else if (path == "zero_optimization.reduce_bucket_size")
        all.push_back(std::min(value.get<double>(), kLargestBucket));
      else
        all.push_back(value);
    }
    return json_text(all, -1);
  }

  TuneCandidate candidate(std::size_t i, const Planned& p) {
    const TunePoint& point = space_.points[i];
    const RunConfig& c = point.config;
    const Plan& plan = p.plan;
    const int ranks = configured_ranks(c.distributed);
    const auto micro_steps = static_cast<double>(c.training.gradient_accumulation_steps);
    const Prices& price = c.on_gpu() ? kGpu : kCpu;
    const double cores = c.on_gpu() ? 1 : std::max(1, cores_ / ranks);
    const double recomputed =
        plan.blocks > 0 ? static_cast<double>(plan.recomputed) / static_cast<double>(plan.blocks) : 0;
    if (tokens_ == 0) tokens_ = static_cast<double>(p.largest.all_tokens()) * micro_steps * ranks;
    const double compute = plan.flops_per_token * tokens_ / (ranks * cores * price.flops);
    const Traffic traffic = plan.per_step(c.training.gradient_accumulation_steps);
    const double sent = static_cast<double>(traffic.sent) / price.sent;
    const double moved = static_cast<double>(traffic.moved.read + traffic.moved.written) / price.moved;
    const double micro = price.micro_step + static_cast<double>(plan.memory.weights) / price.read;
    TuneCandidate out{
        .point = i, .memory = plan.memory.total, .sharing = c.on_gpu() ? 1 : ranks, .traits = {}};
    out.traits.costs = {compute,
                        compute * kRecomputed * recomputed,
                        micro * micro_steps,
                        sent,
                        c.zero_optimization.overlap_comm ? 0 : sent * kExposed,
                        moved};
    for (std::size_t d = 0; d < space_.dimensions.size(); ++d)
      out.traits.settings.push_back(space_.dimensions[d].path == "training.gradient_checkpointing"
                                        ? recomputed
                                        : rank_of_value(d, point.choice[d]));
    return out;
  }

  // Returns a value's rank in its dimension: numbers by size, other values in the order of the list.
  double rank_of_value(std::size_t dimension, std::size_t choice) const {
    const std::vector<Json>& values = space_.dimensions[dimension].values;
    const bool numbers =
        std::all_of(values.begin(), values.end(), [](const Json& v) { return v.is_number(); });
    if (!numbers) return static_cast<double>(choice);
    return static_cast<double>(
        std::count_if(values.begin(), values.end(), [&](const Json& v) { return v < values[choice]; }));
  }

  const TuneSpace& space_;
  int cores_;
  double tokens_ = 0;  // tokens of a step
  PointData data_;
  Rooms rooms_;
  std::map<std::string, std::size_t> seen_;
  TuneCandidates out_;
};

}  // namespace

TuneCandidates plan_candidates(const TuneSpace& space, int cores,
                               const std::function<void(std::int64_t, std::int64_t)>& progress) {
  Planning planning(space, cores);
  for (std::size_t i = 0; i < space.points.size(); ++i) {
    progress(static_cast<std::int64_t>(i), static_cast<std::int64_t>(space.points.size()));
    planning.add(i);
  }
  return planning.take();
}

}  // namespace ft
