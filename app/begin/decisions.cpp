#include "app/begin/decisions.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "app/screen/format.h"
#include "engine/core/error.h"
#include "engine/train/objectives/list.h"

namespace ft {
namespace {

constexpr std::int64_t kLengthStep = 64;                       // tokens
constexpr std::int64_t kCpuTokens = 2048, kGpuTokens = 16384;  // of a micro-batch: enough for full speed
constexpr double kBillion = 1e9;
constexpr double kMostGiven = 1 << 20;

std::int64_t rounded_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }
std::int64_t parts(std::int64_t n, std::int64_t of) { return (n + of - 1) / of; }
// Returns the largest power of two that is at most n, for n >= 1.
std::int64_t power_of_two(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

// Makes the decisions one after another. Later ones depend on earlier ones and on given settings.
class Choosing {
 public:
  Choosing(const BeginFacts& facts, const Json& given, const Thrift& thrift)
      : f_(facts), given_(given), thrift_(thrift) {}

  std::vector<Decision> all() {
    objective();
    device();
    adapter();
    lengths();
    held_out();
    batch();
    duration();
    rate();
    evaluations();
    return std::move(made_);
  }

 private:
  bool is_given(const std::string& key) const { return find_setting(given_, key) != nullptr; }

  void add(const std::string& key, Json value, std::string reason) {
    if (!is_given(key)) made_.push_back({key, std::move(value), std::move(reason)});
  }
  // Decides unless the setting is given. Returns the value in effect; `value` if a word such as auto is
  // given. A given number counts as at most kMostGiven, so that nothing overflows.
  double choose(const std::string& key, double value, const std::string& reason) {
    const Json* given = find_setting(given_, key);
    if (given && given->is_number()) return std::clamp(given->get<double>(), 0.0, kMostGiven);
    add(key, value == std::floor(value) ? Json(std::llround(value)) : Json(value), reason);
    return value;
  }
  std::int64_t choose(const std::string& key, std::int64_t value, const std::string& reason) {
    return std::llround(choose(key, static_cast<double>(value), reason));
  }
  bool choose(const std::string& key, bool value, const std::string& reason) {
    return chosen(key, value, reason, &Json::is_boolean);
  }
  std::string choose(const std::string& key, const char* value, const std::string& reason) {
    return chosen(key, std::string(value), reason, &Json::is_string);
  }
  template <class T>
  T chosen(const std::string& key, T value, const std::string& reason, bool (Json::*fits)() const noexcept) {
    const Json* given = find_setting(given_, key);
    if (given && ((*given).*fits)()) return given->get<T>();
    add(key, value, reason);
    return value;
  }

  void objective();
  void device();
  void adapter();
  void lengths();
  void held_out();
  void batch();
  void packing(std::int64_t rows_of_step);
  void duration();
  void rate();
  void evaluations();
  std::int64_t length_limit(const std::string& key, const LengthFacts&, const char* what);

  const BeginFacts& f_;
  const Json& given_;
  const Thrift& thrift_;
  std::vector<Decision> made_;

  const ObjectiveKind* objective_ = nullptr;
  bool full_ = false;
  std::int64_t tokens_ = 0;   // of the longest sequence
  std::int64_t samples_ = 0;  // to train on
  bool holds_out_ = false;    // there is data to evaluate on
  bool packs_ = false;
  std::int64_t rows_ = 0;     // of an epoch: samples, or packs
  std::int64_t of_step_ = 0;  // rows of a step, on all ranks
  std::int64_t steps_ = 0;
};

// Returns "1,234 samples" or, for preferences, "1,234 pairs".
std::string counted(std::int64_t n, RowKind rows) {
  return show::plural(n, rows == RowKind::pair ? "pair" : "sample");
}

void Choosing::objective() {
  objective_ = &objective_of(f_, given_);
  add("objective.type", objective_->name,
      f_.rows == RowKind::pair       ? "the rows have chosen and rejected answers"
      : f_.rows == RowKind::labelled ? "the rows have answers with a label"
                                     : "the rows have answers to learn");
}

void Choosing::device() {
  choose("device", f_.gpu ? "cuda" : "cpu", f_.device);
  if (!is_given("training.fp16") && !is_given("model.torch_dtype")) {
    const bool bf16 = f_.fast_bf16 || thrift_.bf16;
    choose("training.bf16", bf16,
           f_.gpu         ? "GPUs compute bfloat16 fastest"
           : f_.fast_bf16 ? "this processor computes bfloat16 fastest"
           : bf16         ? "float32 does not fit into the memory"
                          : "this processor computes bfloat16 no faster than float32");
  }
  if (thrift_.zero_stage > 0 && !is_given("zero_stage"))
    choose("zero_optimization.stage", std::int64_t{thrift_.zero_stage},
           str("shared among ", f_.ranks, " ranks; the run does not fit otherwise"));
  choose("training.gradient_checkpointing", "auto", "recomputes only as many blocks as the memory asks for");
}

void Choosing::adapter() {
  full_ = choose("finetuning_type", "lora", "an adapter; --full trains all weights") == "full";
  if (full_ || is_given("lora.adapter_name_or_path")) return;
  const std::int64_t r = choose("lora.r", std::int64_t{16}, "enough for most tasks");
  choose("lora.lora_alpha", 2 * r, "twice r");
  if (!is_given("lora.target_parameters"))
    choose("lora.target_modules", "all-linear", "closest to full fine-tuning");
}

// Decides on a length limit, and returns it.
std::int64_t Choosing::length_limit(const std::string& key, const LengthFacts& lengths, const char* what) {
  const std::int64_t wanted = rounded_up(std::max<std::int64_t>(lengths.p99, 1), kLengthStep);
  const std::int64_t most = f_.positions > 0 ? f_.positions : wanted;
  std::string why = lengths.p99 == lengths.longest
                        ? str("the longest ", what, " has ", show::count(lengths.longest), " tokens")
                        : str("99 % of the ", what, "s have at most ", show::count(lengths.p99), " tokens");
  if (wanted > most) why = "the model's limit; " + why;
  return choose(key, std::min(wanted, most), why);
}

void Choosing::lengths() {
  if (!f_.encoder_decoder) {
    tokens_ = length_limit("data.max_seq_length", f_.lengths, "sample");
    return;
  }
  const std::int64_t source = length_limit("data.max_source_length", f_.lengths, "source");
  tokens_ = source + length_limit("data.max_target_length", f_.targets, "target");
}

void Choosing::held_out() {
  constexpr std::int64_t kFew = 20, kMany = 1000, kMost = 256;
  samples_ = f_.samples;
  holds_out_ = is_given("data.eval_datasets") && !find_setting(given_, "data.eval_datasets")->empty();
  if (holds_out_) return;
  const std::int64_t n = f_.samples;
  const std::int64_t part = n < kFew ? 0 : std::min(n < kMany ? n / 10 : n / 20, kMost);
  const double size = choose("data.val_set_size", static_cast<double>(part),
                             part == 0 ? counted(n, f_.rows) + ": too few to hold some out"
                                       : "of " + counted(n, f_.rows) + ", for evaluations");
  const auto held = static_cast<std::int64_t>(std::ceil(size < 1 ? size * static_cast<double>(n) : size));
  holds_out_ = held > 0;
  samples_ = std::max<std::int64_t>(1, n - held);
}

// Decides on packing. Nothing is padded without packs. They help where a micro-batch, whose memory is taken
// for the longest samples, is mostly shorter and a step needs several of them.
void Choosing::packing(std::int64_t of_step) {
  constexpr std::int64_t kManySamples = 1000;
  rows_ = samples_, of_step_ = of_step;
  const bool packable = objective_->rows == ObjectiveRows::examples && !f_.encoder_decoder;
  if (!packable) return;
  const double mean = std::max(1.0, std::min(f_.lengths.mean, static_cast<double>(tokens_)));
  const auto in_pack = static_cast<std::int64_t>(static_cast<double>(tokens_) / mean);
  const bool helps =
      f_.gpu && in_pack > 1 && samples_ >= kManySamples && of_step * tokens_ > kGpuTokens * f_.ranks;
  packs_ = choose("data.packing", helps,
                  helps ? str("a sample has ", show::count(std::llround(mean)), " tokens on average")
                        : "nothing is padded, so packs would save nothing");
  if (!packs_) return;
  rows_ = parts(samples_, std::max<std::int64_t>(1, in_pack));
  of_step_ = std::max<std::int64_t>(f_.ranks, of_step / std::max<std::int64_t>(1, in_pack));
}

void Choosing::batch() {
  // KTO compares each answer with another one of its micro-batch.
  const std::int64_t least = objective_->rows == ObjectiveRows::labelled ? 2 : 1;
  const std::int64_t suits = samples_ < 100 ? 4 : samples_ < 1000 ? 8 : samples_ < 10'000 ? 16 : 32;
  packing(std::max(suits, least * f_.ranks));
  const std::int64_t tokens = f_.gpu ? kGpuTokens : kCpuTokens;
  const std::int64_t fast = power_of_two(std::min(parts(of_step_, f_.ranks), tokens / tokens_));
  const std::int64_t rows = std::max(least, std::min(fast, thrift_.most_rows));
  const std::string each = str("of at most ", show::count(tokens_), " tokens each: ");
  std::int64_t accumulated = 1;
  if (const Json* given = find_setting(given_, "training.gradient_accumulation_steps");
      given && given->is_number())
    accumulated = std::llround(std::clamp(given->get<double>(), 1.0, kMostGiven));
  const std::int64_t micro = choose(
      "training.per_device_train_batch_size",
      accumulated == 1 ? rows : std::max(least, std::min(rows, parts(of_step_, accumulated * f_.ranks))),
      each + (rows < fast ? "more do not fit into the memory" : "enough for full speed"));
  if (holds_out_) choose("training.per_device_eval_batch_size", std::max(least, micro), "as in training");
  accumulated = choose("training.gradient_accumulation_steps", parts(of_step_, micro * f_.ranks),
                       str(f_.ranks > 1 ? str("on ", f_.ranks, " ranks: ") : "",
                           show::plural(of_step_, packs_ ? "pack" : "sequence"), " per step suit ",
                           counted(samples_, f_.rows)));
  of_step_ = micro * accumulated * f_.ranks;
}

void Choosing::duration() {
  const bool compares = objective_->rows != ObjectiveRows::examples;
  const double suits = compares            ? (samples_ < 1000 ? 3 : 1)
                       : samples_ < 100    ? 10
                       : samples_ < 1000   ? 5
                       : samples_ < 20'000 ? 3
                                           : 1;
  const std::int64_t epoch = parts(rows_, of_step_);
  if (const Json* most = find_setting(given_, "training.max_steps");
      most && most->is_number() && most->get<double>() > 0) {
    steps_ = std::llround(std::min(most->get<double>(), kMostGiven));
    return;
  }
  const auto steps = [&](double epochs) {
    return static_cast<std::int64_t>(std::ceil(epochs * static_cast<double>(epoch)));
  };
  steps_ = steps(choose("training.num_train_epochs", suits,
                        str(show::count(epoch), " steps each, ", show::count(steps(suits)), " in all")));
}

void Choosing::rate() {
  const UsualRate& usual = objective_->rate;
  const auto parameters = static_cast<double>(f_.parameters);
  double rate = full_ ? usual.full : usual.adapter;
  std::string why = str("usual for ", objective_->name);
  if (objective_ == &objectives::kSft) {
    const bool small = parameters < kBillion;
    if (full_)
      rate = small ? 5e-5 : parameters < 10 * kBillion ? 2e-5 : 1e-5;
    else
      rate = small ? 5e-4 : 2e-4;
    why = str("usual for ", full_ ? "full fine-tuning" : "LoRA", " of ", show::quantity(parameters),
              " parameters", small ? ": small models take more" : "");
  }
  choose("training.learning_rate", rate, why);
  if (!is_given("training.warmup_steps") && !is_given("training.lr_scheduler_type"))
    choose("training.warmup_ratio", 0.03, "of the steps, in which the rate rises");
}

// Decides when to evaluate, to save and to log, so that a short run does each of them too.
void Choosing::evaluations() {
  constexpr std::int64_t kShort = 100;
  const double often = full_ ? 0.25 : 0.1;
  const std::string times = full_ ? "four times in the run" : "ten times in the run";
  bool evaluates = false;
  if (holds_out_) {
    const std::string strategy = choose("evaluation.eval_strategy", "steps", "there is held-out data");
    evaluates = strategy != "no";
    if (strategy == "steps") choose("evaluation.eval_steps", often, times);
  }
  const std::string saves = choose("checkpointing.save_strategy", "steps", "to resume a stopped run");
  if (saves == "steps")
    choose("checkpointing.save_steps", often, full_ ? times + ": each has all weights" : times);
  if (saves != "no") {
    choose("checkpointing.save_total_limit", std::int64_t{2},
           evaluates ? "the newest and the best are kept" : "the newest are kept");
    if (evaluates)
      choose("evaluation.load_best_model_at_end", true, "the result is the best checkpoint, not the last");
  }
  if (steps_ < kShort) choose("logging.logging_steps", std::int64_t{1}, "the run is short");
}

}  // namespace

std::string Decision::assignment() const {
  return key + "=" + (value.is_string() ? value.get<std::string>() : value.dump());
}

std::vector<Decision> decide(const BeginFacts& facts, const Json& given, const Thrift& thrift) {
  return Choosing(facts, given, thrift).all();
}

const Json* find_setting(const Json& settings, const std::string& path) {
  const Json* at = &settings;
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = path.find('.', begin);
    const std::string key = path.substr(begin, end == std::string::npos ? end : end - begin);
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[key];
  }
  return at;
}

const ObjectiveKind& objective_of(const BeginFacts& facts, const Json& given) {
  if (const Json* type = find_setting(given, "objective.type")) {
    const auto all = ObjectiveKind::all();
    const auto kind = std::find_if(all.begin(), all.end(), [&](const auto* k) { return *type == k->name; });
    require(kind != all.end(), "a known objective");
    if ((*kind)->rows == ObjectiveRows::rollouts)
      throw UserError(Exit::config, str("objective.type: settings for ", (*kind)->name,
                                        " depend on its rewards and cannot be chosen from the data; write a "
                                        "run.json (docs/preferences.md)"));
    if ((*kind)->rows == ObjectiveRows::classified || (*kind)->rows == ObjectiveRows::texts)
      throw UserError(Exit::config,
                      str("objective.type: settings for ", (*kind)->name,
                          " are not chosen from the data; write a run.json (docs/classify.md)"));
    return **kind;
  }
  switch (facts.rows) {
    case RowKind::pair:
      return facts.encoder_decoder ? objectives::kOrpo : objectives::kDpo;
    case RowKind::labelled:
      return objectives::kKto;
    case RowKind::prompt:
      throw UserError(Exit::input,
                      "data: the rows have prompts without answers. Add the answer to learn (a column "
                      "completion), or reward the model's own answers: objective.type grpo or rloo, with a "
                      "run.json (docs/preferences.md)");
    case RowKind::rollout:
      throw UserError(Exit::input,
                      "data: the rows have answers with rewards, which objective.type grpo learns from; "
                      "write a run.json for it (docs/preferences.md)");
    default:
      return objectives::kSft;
  }
}

}  // namespace ft
