#include "app/deepspeed/apply.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/deepspeed/batch.h"
#include "app/deepspeed/read.h"
#include "app/deepspeed/rows.h"
#include "engine/core/lower_case.h"
#include "engine/core/suggest.h"
#include "engine/files/file.h"

namespace ft::deepspeed {
namespace {

// Optimizers that DeepSpeed names, and ft's names for them.
struct OptimizerType {
  const char* name;
  const char* optim;  // training.optim; empty: ft does not have it
};
constexpr OptimizerType kOptimizers[] = {
    {"Adam", "adamw"},  {"AdamW", "adamw"},     {"Adagrad", "adagrad"},
    {"Lion", "lion"},   {"RMSprop", "rmsprop"}, {"SGD", "sgd"},
    {"Lamb", ""},       {"Muon", ""},           {"OneBitAdam", "onebit_adam"},
    {"OneBitLamb", ""}, {"MuAdam", ""},         {"MuAdamW", ""},
    {"MuSGD", ""},      {"ZeroOneAdam", ""},
};

constexpr const char* kArguments = "training.optim_args";

bool equal(const Json& a, const Json& b) {
  return a.is_number() && b.is_number() ? a.get<double>() == b.get<double>() : a == b;
}

class Application {
 public:
  Application(const SettingsText& file, SettingsText& tree, const RunSide& run)
      : file_(file), tree_(tree), run_(run) {
    report_.file = file.name;
  }

  Report run() {
    const auto on = [&](const std::string& block) {  // true if a block's `enabled`, written "auto", is on
      return block == "fp16" ? setting("training.fp16") == true : block == "bf16";
    };
    for (const Leaf& leaf : read_rows(file_, on, report_)) take(report_.rows[leaf.row], *leaf.key);
    take_usual("flops_profiler");
    check_halves();
    keep_prefetch_in_step();
    take_batch();
    return std::move(report_);
  }

 private:
  // Returns the run's value of a setting, its default included.
  Json setting(const std::string& path) const {
    const Json* value = find_value(run_.settings, path);
    return value ? *value : Json();
  }
  // Returns the value in run.json or on the command line. Null: they leave the setting open.
  const Json* given(const std::string& path) const {
    if (path == "zero_optimization.stage")
      if (const Json* stage = find_value(tree_.value, "zero_stage"); stage && !stage->is_null()) return stage;
    const Json* value = find_value(tree_.value, path);
    return value && !value->is_null() && *value != "auto" ? value : nullptr;
  }
  std::string place_of(const std::string& path) const {
    const auto line = tree_.lines.find(path);
    if (line == tree_.lines.end()) return tree_.name;
    return line->second == 0 ? "the command line" : str(tree_.name, ":", line->second);
  }
  bool is_known(const std::string& path) const {
    return std::any_of(run_.known.begin(), run_.known.end(),
                       [&](const Setting& s) { return s.path == path; });
  }

  bool is_ours(const std::string& path) const {
    return std::find(ours_.begin(), ours_.end(), path) != ours_.end();
  }
  void put(const Row& row, const std::string& path, const Json& value) {
    put_setting(tree_, path, value, 0, path);
    tree_.places[path] = str(row.place, ": ", printable(row.key), ": ");
    ours_.push_back(path);
  }
  void contradicts(Row& row, const Json& value, const std::string& path) {
    report_.reject(row, str("is ", json_excerpt(value), ", and ", path, " is ", json_excerpt(*given(path)),
                            " (", place_of(path), "); make them agree, or write \"auto\""));
  }

  void take(Row& row, const Key& key) {
    if (row.known == "train_batch_size" || row.known == "train_micro_batch_size_per_gpu" ||
        row.known == "gradient_accumulation_steps")
      return take_batch_number(row);
    if (row.known.starts_with("optimizer.")) {
      if (!of_type(row, key, "optimizer.type")) return;
      if (row.known == "optimizer.type") return take_optimizer(row, key);
      if (row.known == "optimizer.params.adam_w_mode" && row.value == false && is_adamw())
        return stays_adamw(row);
      if (is_argument(row)) return take_argument(row);
    }
    if (row.known.starts_with("scheduler."))
      return of_type(row, key, "scheduler.type") ? take_schedule(row) : void();
    if (row.known.ends_with("_parallel_size") || row.known == "pipeline.stages" ||
        row.known == "tensor_parallel.autotp_size")
      take_parallel(row);
    if (row.known.starts_with("zero_optimization.offload_")) return take_offload(row, key);
    if (row.known == "zero_optimization.sub_group_size") {
      if (!uses_file()) return leave(row, key);
      row.why.clear();
    }
    if (row.known == "activation_checkpointing.partition_activations" && !shares_layers())
      return leave(row, key);
    if (row.known == "activation_checkpointing.cpu_checkpointing") {
      if (row.value != true || given("training.gradient_checkpointing")) return leave(row, key);
      row.value = "offload";
    }
    if (row.automatic && !fill(row)) return check_there(row, key);
    take_settings(row, key);
  }
  bool shares_layers() const {
    const Json *file = find_value(file_.value, "tensor_parallel.autotp_size"),
               *own = given("distributed.tensor_parallel_size");
    const auto above_1 = [](const Json* n) { return n && n->is_number() && *n > 1; };
    return above_1(file) || above_1(own);
  }

  // Refuses a key whose settings ft does not have, unless the key has DeepSpeed's default, which switches it
  // off.
  void check_there(Row& row, const Key& key) {
    for (const std::string& path : row.to) {
      if (is_known(path)) continue;
      if (!*key.value.usual || !equal(row.value, Json::parse(key.value.usual)))
        return report_.reject(row, str("ft has no ", path, " yet"));
      row.verdict = Verdict::no_effect;
      row.why = "it is off";
      return row.to.clear();
    }
  }

  // Sets the settings that the run leaves open. If the run sets one, its value must equal the file's; for
  // keys that affect only speed and memory, the run's value is used instead.
  void take_settings(Row& row, const Key& key) {
    check_there(row, key);
    if (row.verdict == Verdict::rejected) return;
    for (std::size_t i = 0; i < row.to.size(); ++i) {
      const Json value = row.value.is_array() && row.to.size() > 1 ? row.value[i] : row.value;
      const std::string& path = row.to[i];
      const Json* said = given(path);
      if (!said) {
        put(row, path, value);
      } else if (!equal(*said, value)) {
        if (is_ours(path))
          return report_.reject(row, str("another key of the file says ", json_excerpt(*said)));
        if (key.fate != Fate::speed) return contradicts(row, value, path);
        row.verdict = Verdict::no_effect;
        row.why = str(path, " is ", json_excerpt(*said), " (", place_of(path), ")");
        row.surprise = true;
        return row.to.clear();
      }
    }
  }

  // Replaces "auto" by the value of ft's rule for the key. Returns false if there is no rule or the run gives
  // a value: then the run's setting is used.
  bool fill(Row& row) {
    const bool stage3 = setting_of_stage() == 3;
    const auto h = static_cast<double>(run_.hidden_size);
    double size = 0;
    if (row.known == "zero_optimization.reduce_bucket_size")
      size = h * h;
    else if (row.known == "zero_optimization.stage3_prefetch_bucket_size" && stage3)
      size = std::floor(0.9 * h * h);
    else if (row.known == "zero_optimization.stage3_param_persistence_threshold" && stage3)
      size = 10 * h;
    if (size == 0 || given(row.known)) return false;
    row.value = static_cast<std::int64_t>(size);
    row.automatic = false;
    return true;
  }
  std::int64_t setting_of_stage() const {
    const Json* said = given("zero_optimization.stage");
    const Json* own = find_value(file_.value, "zero_optimization.stage");
    if (!said) said = own;
    return said && said->is_number() ? static_cast<std::int64_t>(said->get<double>()) : 0;
  }

  // Returns true if the file's optimizer or scheduler type takes the parameter. Without a type DeepSpeed
  // ignores all parameters.
  bool of_type(Row& row, const Key& key, const std::string& type_key) {
    if (row.known == type_key) return true;
    const Json* type = find_value(file_.value, type_key);
    if (!type || !type->is_string()) return report_.reject(row, type_key + " is missing"), false;
    const std::vector<std::string> types = split(key.of);
    const bool fits = std::any_of(types.begin(), types.end(), [&](const std::string& t) {
      return lower_case(t) == lower_case(type->get<std::string>());
    });
    if (types.empty() || fits) return true;
    return report_.reject(row, str(json_excerpt(*type), " takes no such parameter; it is for ", key.of)),
           false;
  }

  bool is_adamw() const {
    const Json* type = find_value(file_.value, "optimizer.type");
    return type->is_string() && lower_case(*type) == "adamw";
  }
  static void stays_adamw(Row& row) {
    row.verdict = Verdict::no_effect;
    row.why = "AdamW decays weights, not gradients, in DeepSpeed too; this key is for Adam";
    row.surprise = true;
    row.to.clear();
  }

  void take_optimizer(Row& row, const Key& key) {
    std::vector<std::string> names;
    std::string all;
    for (const OptimizerType& type : kOptimizers) {
      names.emplace_back(type.name);
      if (!*type.optim) continue;
      all += (all.empty() ? "" : ", ") + std::string(type.name);
    }
    const std::string name = row.value.is_string() ? row.value.get<std::string>() : "";
    for (const OptimizerType& type : kOptimizers) {
      if (lower_case(type.name) != lower_case(name)) continue;
      if (!*type.optim) return report_.reject(row, str("ft has no ", type.name, " yet; there are ", all));
      const Json written = row.value;
      row.value = type.optim;
      take_settings(row, key);
      row.value = written;
      return;
    }
    const std::string near = nearest(name, names);
    report_.reject(row, str("there is no optimizer ", json_excerpt(row.value),
                            near.empty() ? "; there are " + all : str("; do you mean ", near, "?")));
  }

  // Returns true for a row that goes into training.optim_args. eps is a setting for AdamW, but an argument
  // for Adagrad and RMSprop.
  bool is_argument(const Row& row) const {
    if (row.known != "optimizer.params.eps") return row.to == std::vector<std::string>{kArguments};
    const std::string type = lower_case(find_value(file_.value, "optimizer.type")->get<std::string>());
    return type == "adagrad" || type == "rmsprop";
  }
  void take_argument(Row& row) {
    row.to = {kArguments};
    if (row.automatic) return report_.reject(row, "\"auto\" has no meaning here; give a value");
    const bool flag = row.value.is_boolean();
    const std::string text = str(row.known.substr(row.known.rfind('.') + 1), "=",
                                 flag ? (row.value == true ? "True" : "False") : row.value.dump());
    const Json* said = given(kArguments);
    if (said && !is_ours(kArguments)) {
      const std::vector<std::string> words = split(said->get<std::string>());
      if (std::find(words.begin(), words.end(), text) == words.end()) contradicts(row, text, kArguments);
      return;
    }
    put(row, kArguments, said ? str(said->get<std::string>(), ", ", text) : text);
  }

  // Takes the file's schedule, whatever training.lr_scheduler_type is. The schedule itself fills in "auto".
  void take_schedule(Row& row) {
    const std::string kwargs = "training.lr_scheduler_kwargs";
    const std::string& path = row.to[0];
    if (!is_known("training.lr_scheduler_kwargs"))
      return report_.reject(row, str("ft has no ", path, " yet"));
    if (!is_ours(kwargs)) put(row, kwargs, Json::object());
    if (row.known == "scheduler.type" && row.automatic)
      return report_.reject(row, "\"auto\" has no meaning here; name a schedule");
    if (const Json* said = row.known == "scheduler.type" ? given(path) : nullptr;
        said && *said != row.value) {
      row.why = str("holds instead of ", json_excerpt(*said), " (", place_of(path), ")");
      row.surprise = true;
    }
    put(row, path, row.value);
    if (row.automatic) return;
    if (row.known == "scheduler.params.warmup_max_lr") {
      if (const Json* rate = given("training.learning_rate"); rate && !equal(*rate, row.value))
        contradicts(row, row.value, "training.learning_rate");
    } else if (row.known == "scheduler.params.warmup_num_steps") {
      for (const char* own : {"training.warmup_steps", "training.warmup_ratio"})
        if (const Json* said = given(own); said && *said != 0) return compare_warmup(row, own, *said);
      if (const Json* said = given("training.warmup_steps"))
        compare_warmup(row, "training.warmup_steps", *said);
    }
  }
  // Compares the warm-up steps of run and file. Notes a fraction for settle_steps(), because the number of
  // steps is known only with the data.
  void compare_warmup(Row& row, const std::string& path, const Json& said) {
    const auto steps = said.get<double>();
    if (steps > 0 && steps < 1)
      report_.warmup = path;
    else if (!equal(said, row.value))
      contradicts(row, row.value, path);
  }

  void take_parallel(Row& row) {
    const bool off = row.automatic || (row.known == "tensor_parallel.autotp_size" && row.value == 0);
    if (off) row.value = 1, row.automatic = false;
    if (!row.value.is_number_integer() || row.value < 1)
      report_.reject(row, str("has to be a whole number from 1 on, not ", json_excerpt(row.value)));
  }

  // True if optimizer states or parameters are offloaded to files.
  bool uses_file() const {
    const auto in_file = [&](const char* block) {
      const Json* device = find_value(file_.value, str("zero_optimization.", block, ".device"));
      return device && *device == "nvme";
    };
    return in_file("offload_optimizer") || in_file("offload_param");
  }
  static void leave(Row& row, const Key& key) {
    std::string none;
    const Json usual = checked(key.value, Json::parse(key.value.usual), none);
    if (row.automatic) row.value = usual;
    row.automatic = false;
    row.verdict = Verdict::no_effect;
    row.to.clear();
    row.why = key.why;
    row.surprise = !equal(row.value, usual);
  }

  // Takes the keys beside an offload device: nvme_path needs device nvme, pin_memory needs a GPU that
  // offloads to host memory, buffer_count needs one of the two.
  void take_place(Row& row, const Key& key) {
    const std::string block = row.known.substr(0, row.known.rfind('.'));
    const Json* device = find_value(file_.value, block + ".device");
    const bool nvme = device && *device == "nvme", host = run_.gpu && device && *device == "cpu";
    const bool of_memory = row.known.ends_with(".pin_memory"), of_file = row.known.ends_with(".nvme_path");
    if (of_memory ? host : nvme || (host && !of_file)) return take_settings(row, key);
    row.verdict = Verdict::no_effect;
    row.to.clear();
    row.why = of_memory ? "it is for offload from a GPU to the host's memory" : "it is for device nvme";
  }

  void take_offload(Row& row, const Key& key) {
    const bool param = row.known == "zero_optimization.offload_param.device";
    if (row.automatic) return;
    if (!row.known.ends_with(".device")) return take_place(row, key);
    const Json written = row.value;
    if (written.is_boolean()) row.value = written == true ? "cpu" : "none";  // the old cpu_offload
    if (row.value != "none" && param && setting_of_stage() != 3)
      return report_.reject(row, "offload_param needs zero_optimization.stage 3");
    if (row.value == "cpu" && !run_.gpu) row.why = "the run's memory is the CPU's already";
    take_settings(row, key);
    row.value = written;
  }

  // Sets DeepSpeed's defaults for the settings that an enabled block leaves open.
  void take_usual(const std::string& block) {
    const Row* on = report_.find(block + ".enabled");
    if (!on || on->value != true || on->verdict == Verdict::rejected) return;
    for (const Key* key : all_keys())
      if (std::string(key->name).starts_with(block + ".") && *key->value.usual && !given(key->to))
        put(*on, key->to, Json::parse(key->value.usual));
  }

  void check_halves() {
    Row* fp16 = report_.find("fp16.enabled");
    const Row* bf16 = report_.find("bf16.enabled");
    if (fp16 && bf16 && fp16->value == true && bf16->value == true)
      return report_.reject(*fp16, "and bf16.enabled are both true; set one of them");
    for (const auto& [name, other] :
         {std::pair{"fp16.enabled", "training.bf16"}, std::pair{"bf16.enabled", "training.fp16"}}) {
      Row* row = report_.find(name);
      const Json* said = given(other);
      if (row && row->value == true && said && *said == true && !is_ours(other))
        report_.reject(*row,
                       str("is true, and ", other, " is true (", place_of(other), "); set one of them"));
    }
  }

  // Drops the prefetch size if overlap_comm is false, because then nothing is gathered ahead.
  void keep_prefetch_in_step() {
    const std::string prefetch = "zero_optimization.stage3_prefetch_bucket_size";
    Row* row = report_.find(prefetch);
    const Json* overlap = find_value(tree_.value, "zero_optimization.overlap_comm");
    if (!row || !overlap || *overlap != false || row->verdict != Verdict::honoured || row->automatic) return;
    put(*row, prefetch, setting(prefetch));
    row->verdict = Verdict::no_effect;
    row->to.clear();
    row->why = "with overlap_comm false nothing is prefetched";
  }

  void take_batch_number(Row& row) {
    if (row.to.size() > 1 || row.automatic) return;
    if (const Json* said = given(row.to[0]); said && !equal(*said, row.value))
      contradicts(row, row.value, row.to[0]);
  }

  // Returns the number of data-parallel ranks.
  int data_ranks() {
    std::int64_t split = 1;
    for (const char* kind : {"tensor", "pipeline", "sequence"})
      if (const Json* size = find_value(tree_.value, str("distributed.", kind, "_parallel_size"));
          size && size->is_number_integer() && *size >= 1 && *size <= 1 << 20)
        split *= size->get<std::int64_t>();
    if (run_.ranks % split != 0 && run_.trains)
      report_.mistakes.push_back(str(file_.name, ": tensor x pipeline x sequence parallel size is ", split,
                                     ", which does not divide ", run_.ranks, " ranks"));
    return static_cast<int>(std::max<std::int64_t>(1, run_.ranks / split));
  }

  void take_batch() {
    constexpr const char* kMicro = "training.per_device_train_batch_size";
    constexpr const char* kAccumulation = "training.gradient_accumulation_steps";
    Row* rows[] = {report_.find("train_batch_size"), report_.find("train_micro_batch_size_per_gpu"),
                   report_.find("gradient_accumulation_steps")};
    for (const Row* row : rows)
      if (row && row->verdict == Verdict::rejected) return;
    const auto number = [&](const Row* row, const char* path) -> std::optional<std::int64_t> {
      if (row && row->value.is_number_integer()) return row->value.get<std::int64_t>();
      const Json* said = path ? given(path) : nullptr;
      return said ? std::optional(static_cast<std::int64_t>(said->get<double>())) : std::nullopt;
    };
    const GivenBatch known{number(rows[0], nullptr), number(rows[1], kMicro), number(rows[2], kAccumulation)};
    std::string mistake;
    report_.batch = solve_batch(known, data_ranks(), setting(kMicro), mistake);
    if (!mistake.empty() && run_.trains) return report_.reject(*rows[0], mistake);
    const Batch& b = *report_.batch;
    const std::int64_t values[] = {b.train, b.micro, b.accumulation};
    for (std::size_t i = 0; i < 3; ++i)
      if (rows[i] && rows[i]->automatic) rows[i]->value = values[i], rows[i]->automatic = false;
    if (const Row* from = rows[1] ? rows[1] : rows[0]; from && !given(kMicro)) put(*from, kMicro, b.micro);
    if (const Row* from = rows[2] ? rows[2] : rows[0]; from && !given(kAccumulation))
      put(*from, kAccumulation, b.accumulation);
  }

  const SettingsText& file_;
  SettingsText& tree_;
  const RunSide& run_;
  Report report_;
  std::vector<std::string> ours_;  // settings that the file has set
};

}  // namespace

SettingsText file_of(const SettingsText& tree, const std::filesystem::path& folder) {
  const Json& given = tree.value.at("deepspeed");
  const auto line = tree.lines.find("deepspeed");
  if (given.is_string()) {
    const std::filesystem::path path = home_expanded(given.get<std::string>());
    const bool typed = line != tree.lines.end() && line->second == 0;
    return read_file((typed || path.is_absolute() ? path : folder / path).lexically_normal().string());
  }
  if (!given.is_object())
    throw UserError(
        Exit::config,
        str(tree.name, ": deepspeed: expected a file's name or an object {...}, not ", json_excerpt(given)));
  SettingsText file{.value = given, .lines = {}, .name = tree.name};
  const std::string inside = "deepspeed.";
  for (auto at = tree.lines.lower_bound(inside); at != tree.lines.end() && at->first.starts_with(inside);
       ++at)
    file.lines.emplace(at->first.substr(inside.size()), at->second);
  return file;
}

Report apply(const SettingsText& file, SettingsText& tree, const RunSide& run) {
  return Application(file, tree, run).run();
}

void settle(Report& report, const Json& settings) {
  const auto of = [&](const std::string& path) {
    const Json* value = find_value(settings, path);
    return value ? *value : Json();
  };
  for (Row& row : report.rows) {
    if (!row.automatic || row.to.empty()) continue;
    if (row.known == "scheduler.params.warmup_num_steps" || row.known == "scheduler.params.total_num_steps")
      continue;  // settle_steps() fills them in
    if (row.known == "scheduler.params.warmup_min_lr") {
      row.value = 0;
    } else if (row.known == "scheduler.params.warmup_max_lr") {
      row.value = of("training.learning_rate");
    } else if (row.to.size() == 2) {
      row.value = Json::array({of(row.to[0]), of(row.to[1])});
    } else {
      row.value = of(row.to[0]);
    }
    row.automatic = false;
  }
}

}  // namespace ft::deepspeed
