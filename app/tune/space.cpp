#include "app/tune/space.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "app/ranks/ranks.h"
#include "engine/settings/fields.h"

namespace ft {
namespace {

constexpr std::size_t kMostPoints = 20'000;
constexpr const char* kRanks = "distributed.nproc_per_node";
constexpr const char* kStage = "zero_optimization.stage";
constexpr const char* kMicroBatch = "training.per_device_train_batch_size";
constexpr const char* kAccumulation = "training.gradient_accumulation_steps";
constexpr const char* kRecompute = "training.gradient_checkpointing";
constexpr const char* kOverlap = "zero_optimization.overlap_comm";
constexpr const char* kBucket = "zero_optimization.reduce_bucket_size";
constexpr const char* kPrefetch = "zero_optimization.stage3_prefetch_bucket_size";
constexpr const char* kParamHome = "zero_optimization.offload_param.device";
constexpr const char* kStatesHome = "zero_optimization.offload_optimizer.device";

using Values = std::map<std::string, Json>;  // by path

std::int64_t sequences_per_step(const RunConfig& c) {
  const TrainingConfig& t = c.training;
  return t.per_device_train_batch_size * t.gradient_accumulation_steps * configured_ranks(c.distributed);
}

std::string canonical(const std::string& path) { return path == "zero_stage" ? kStage : path; }

const Json* find(const Json& tree, const std::string& path) {
  const Json* at = &tree;
  for (std::size_t begin = 0, end = 0; end != path.npos; begin = end + 1) {
    end = path.find('.', begin);
    const auto next = at->find(path.substr(begin, end == path.npos ? end : end - begin));
    if (!at->is_object() || next == at->end()) return nullptr;
    at = &*next;
  }
  return at;
}

// Returns a value as a table shows it: "8 x 4" for a micro-batch and its accumulation, 5e8 for a large
// number.
std::string shown(const std::string& path, const Json& value, std::int64_t accumulation) {
  constexpr double kLong = 1e6;
  if (path == kMicroBatch) return str(value.dump(), " x ", accumulation);
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_float()) return value.dump();
  const double x = value.get<double>();
  if (x < kLong) return str(x);
  const int power = static_cast<int>(std::log10(x));
  return str(x / std::pow(10, power), "e", power);
}

std::vector<Json> doubling(std::int64_t most) {
  std::vector<Json> all;
  for (std::int64_t n = 1; n <= most; n *= 2) all.emplace_back(n);
  return all;
}

std::vector<Json> micro_batches(std::int64_t of) {
  constexpr std::int64_t kMost = 1024;
  std::vector<Json> all;
  for (std::int64_t n = 1; n <= std::min(of, kMost); ++n)
    if (of % n == 0) all.emplace_back(n);
  return all;
}

// Returns the dimensions to vary by default. If parameters or states are in files, keeping them in memory is
// a choice.
std::vector<TuneDimension> usual_dimensions(const RunConfig& own, int cores) {
  std::vector<TuneDimension> all;
  if (!own.on_gpu()) all.push_back({kRanks, "ranks", doubling(cores)});
  all.push_back({kStage, "zero", {0, 1, 2, 3}});
  all.push_back({kMicroBatch, "batch", micro_batches(sequences_per_step(own))});
  all.push_back({kRecompute, "recompute", {false, "auto", true}});
  all.push_back({kOverlap, "overlap", {true, false}});
  // Between CPUs a rank's buffers grow with this size up to 1 MiB. NCCL has its own buffers.
  if (!own.on_gpu()) all.push_back({kBucket, "bucket", {5e8, 65536.0}});
  all.push_back({kPrefetch, "prefetch", {5e7, 5e6, 5e8, 0.0}});
  const ZeroConfig& z = own.zero_optimization;
  if (z.offload_param.device == OffloadDevice::nvme) all.push_back({kParamHome, "params", {"nvme", "none"}});
  if (z.offload_optimizer.device == OffloadDevice::nvme)
    all.push_back({kStatesHome, "states", {"nvme", "none"}});
  return all;
}

// Returns the tree of all settings, defaults included, for points to change. The file itself may set the same
// values under other names, which would contradict a point's.
SettingsText explicit_settings(const RunConfig& own, const std::string& file) {
  SettingsText tree{.value = parse_json(effective_config(own), {file}), .lines = {}, .name = file};
  tree.value["zero_stage"] = nullptr;
  // Kinds of adapters without an alpha refuse it.
  if (own.lora.lora_alpha == lora::LoraConfig{}.lora_alpha && !own.lora.adapter_name_or_path)
    tree.value["lora"].erase("lora_alpha");
  return tree;
}

class SpaceReader {
 public:
  SpaceReader(const std::string& file, const std::vector<std::string>& overrides, int cores)
      : given_(read_settings_tree(file, overrides)) {
    space_.own = config_of(given_, std::filesystem::path(file).parent_path(), {.trains = true});
    tree_ = explicit_settings(space_.own, file);
    if (space_.own.distributed.nnodes > 1)
      refuse("distributed.nnodes", "trials use one machine; leave it out");
    const DistributedConfig& d = space_.own.distributed;
    if (d.data_parallel_size || d.sequence_parallel_size * d.tensor_parallel_size * d.pipeline_parallel_size *
                                        d.expert_parallel_size >
                                    1)
      refuse("distributed.{data,sequence,tensor,pipeline,expert}_parallel_size",
             "trials vary only the number of data-parallel ranks; leave it out");
    for (const std::string& assignment : overrides) override_setting(typed_, assignment);
    choose_dimensions(cores);
  }

  TuneSpace read() {
    check_values();
    std::vector<Values> all{{}};
    for (const TuneDimension& d : space_.dimensions) {
      std::vector<Values> longer;
      for (const Values& before : all)
        for (const Json& value : d.values) {
          longer.push_back(before);
          longer.back()[d.path] = value;
        }
      all = only_different(std::move(longer));
    }
    for (const Values& values : all) add_point(values);
    if (space_.points.empty())
      refuse("tune.space", "no combination of these values is possible with " +
                               std::to_string(sequences_per_step(space_.own)) + " sequences per step");
    return std::move(space_);
  }

 private:
  [[noreturn]] void refuse(const std::string& place, const std::string& what) const {
    const auto line = given_.lines.find(place);
    const std::string at = line != given_.lines.end() && line->second > 0 ? str(":", line->second) : "";
    throw UserError(Exit::config, str(given_.name, at, ": ", printable(place), ": ", what));
  }

  bool is_typed(const std::string& path) const {
    return find(typed_.value, path) || (path == kStage && find(typed_.value, "zero_stage"));
  }

  void choose_dimensions(int cores) {
    std::vector<TuneDimension> all = usual_dimensions(space_.own, cores);
    for (TuneDimension& d : all) add_own_value(d);
    const Json* given = find(given_.value, "tune.space");
    const Json chosen = given && !given->is_null() ? *given : Json::object();
    if (!chosen.is_object()) refuse("tune.space", "expected {\"section.setting\": [values]}");
    for (const auto& [key, values] : chosen.items()) {
      const std::string place = "tune.space." + key, path = canonical(key);
      if (!values.is_array() || values.empty()) refuse(place, "expected a list of values [...]");
      if (path == kAccumulation)
        refuse(place, str("follows from the micro-batch; vary ", kMicroBatch, " instead"));
      if (path == "training.output_dir" || path.starts_with("tune."))
        refuse(place, "is not a setting of a trial");
      const auto at = std::find_if(all.begin(), all.end(), [&](auto& d) { return d.path == path; });
      // Ranks come first, because they decide which other settings have an effect.
      TuneDimension& d = at != all.end() ? *at : *all.emplace(path == kRanks ? all.begin() : all.end());
      if (d.path.empty()) d = {path, path.substr(path.rfind('.') + 1), {}};
      d.values.assign(values.begin(), values.end());
    }
    for (TuneDimension& d : all)
      if (!is_typed(d.path)) space_.dimensions.push_back(std::move(d));
  }

  // Puts the configured value first, so that it wins ties.
  void add_own_value(TuneDimension& d) const {
    Json own = *find(tree_.value, d.path);
    if (d.path == kRanks) own = configured_ranks(space_.own.distributed);
    std::erase(d.values, own);
    d.values.insert(d.values.begin(), std::move(own));
  }

  // Checks each value alone, so that a wrong value is not taken for a combination that contradicts itself.
  void check_values() const {
    for (const TuneDimension& d : space_.dimensions)
      for (const Json& value : d.values) {
        SettingsText tree = tree_;
        put_setting(tree, d.path, value, 0, "tune.space." + d.path);
        settle_offload(tree, d.path);
        config_of(tree, "");
      }
  }

  template <class T>
  T value_of(const Values& values, const char* path, T own) const {
    const auto at = values.find(path);
    return at == values.end() ? own : at->second.get<T>();
  }

  bool has_effect(const std::string& path, const Values& values) const {
    const auto& zero = space_.own.zero_optimization;
    const bool alone = value_of<std::int64_t>(values, kRanks, configured_ranks(space_.own.distributed)) == 1;
    const bool prefetches = value_of<std::int64_t>(values, kStage, zero.stage) == 3 &&
                            value_of<bool>(values, kOverlap, zero.overlap_comm);
    if (path == kStage || path == kOverlap || path == kBucket) return !alone;
    return path != kPrefetch || (!alone && prefetches);
  }

  // Gives settings without effect one value, and merges points that became equal.
  std::vector<Values> only_different(std::vector<Values> all) const {
    std::vector<Values> kept;
    std::set<std::string> seen;
    for (Values& values : all) {
      std::string name;
      for (auto& [path, value] : values) {
        if (!has_effect(path, values)) value = dimension(path).values[0];
        name += value.dump() + ",";
      }
      if (!seen.insert(name).second) continue;
      kept.push_back(std::move(values));
      if (kept.size() > kMostPoints)
        refuse("tune.space", str("there are more than ", kMostPoints, " combinations; give fewer values"));
    }
    return kept;
  }

  const TuneDimension& dimension(const std::string& path) const {
    return *std::find_if(space_.dimensions.begin(), space_.dimensions.end(),
                         [&](const TuneDimension& d) { return d.path == path; });
  }

  void add_point(const Values& values) {
    const ZeroConfig& zero = space_.own.zero_optimization;
    const auto ranks = value_of<std::int64_t>(values, kRanks, configured_ranks(space_.own.distributed));
    const auto micro =
        value_of<std::int64_t>(values, kMicroBatch, space_.own.training.per_device_train_batch_size);
    const std::int64_t sequences = sequences_per_step(space_.own);
    if (sequences % (ranks * micro) != 0) return;
    const std::int64_t accumulation = sequences / (ranks * micro);
    if (is_typed(kAccumulation) && accumulation != space_.own.training.gradient_accumulation_steps) return;
    TunePoint point;
    SettingsText tree = tree_;
    put_setting(tree, kAccumulation, accumulation, 0, kAccumulation);
    for (const TuneDimension& d : space_.dimensions) {
      const Json& value = values.at(d.path);
      const auto at = std::find(d.values.begin(), d.values.end(), value);
      point.choice.push_back(static_cast<std::size_t>(at - d.values.begin()));
      const bool effect = has_effect(d.path, values);
      point.values.push_back(effect ? shown(d.path, value, accumulation) : "");
      put_setting(tree, d.path, effect ? value : default_of(d.path, value), 0, "tune.space." + d.path);
    }
    for (const TuneDimension& d : space_.dimensions) settle_offload(tree, d.path);
    try {
      point.config = config_of(tree, "");
      ZeroConfig& z = point.config.zero_optimization;
      if (z.stage == 0 && zero.stage != 0) z.mics_shard_size = -1;  // stage 0 shards nothing
      zero_options(point.config, static_cast<int>(ranks));
    } catch (const UserError&) {
      ++space_.refused;
      return;
    }
    if (is_start(point)) space_.start = space_.points.size();
    space_.points.push_back(std::move(point));
  }

  // Returns the value of a setting without effect: one that no other setting contradicts.
  static Json default_of(const std::string& path, const Json& value) {
    const ZeroConfig usual;
    if (path == kStage) return usual.stage;
    if (path == kPrefetch) return usual.stage3_prefetch_bucket_size;
    return value;
  }

  bool is_start(const TunePoint& point) const {
    for (std::size_t d = 0; d < space_.dimensions.size(); ++d) {
      const std::string& path = space_.dimensions[d].path;
      Json own = *find(tree_.value, path);
      if (path == kRanks) own = configured_ranks(space_.own.distributed);
      if (!point.values[d].empty() && space_.dimensions[d].values[point.choice[d]] != own) return false;
    }
    return true;
  }

  SettingsText given_, tree_, typed_{.value = Json::object(), .lines = {}, .name = ""};
  TuneSpace space_;
};

}  // namespace

TuneSpace read_tune_space(const std::string& file, const std::vector<std::string>& overrides, int cores) {
  return SpaceReader(file, overrides, cores).read();
}

}  // namespace ft
