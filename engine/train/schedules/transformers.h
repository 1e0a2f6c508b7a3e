// transformers' schedules (optimization.py, get_scheduler): the arguments that each takes, with its names and
// defaults, and its rate. All but warmup_stable_decay and cosine_warmup_with_min_lr rise linearly from 0 in
// the warm-up.
#pragma once
#include <optional>
#include <string>

#include "engine/core/rules.h"
#include "engine/train/schedules/run.h"

namespace ft::schedules {

struct Constant {
  void fields(auto&) {}
  double rate(std::int64_t, const Run& run) const { return run.rate; }
};

struct ConstantWithWarmup {
  void fields(auto&) {}
  double rate(std::int64_t step, const Run&) const;
};

struct Linear {
  void fields(auto&) {}
  double rate(std::int64_t step, const Run&) const;
};

struct Cosine {
  double num_cycles = 0.5;

  void fields(auto& f) { f("num_cycles", num_cycles, "Waves of the cosine.", at_least(0)); }
  double rate(std::int64_t step, const Run&) const;
};

struct CosineWithRestarts {
  double num_cycles = 1;

  void fields(auto& f) { f("num_cycles", num_cycles, "Times that the cosine falls.", above(0)); }
  double rate(std::int64_t step, const Run&) const;
};

// Where neither is given, training.min_lr_ratio is the lowest rate.
struct CosineWithMinLr {
  std::optional<double> min_lr, min_lr_rate;
  double num_cycles = 0.5;

  void fields(auto& f) {
    f("min_lr", min_lr, "The lowest rate.", at_least(0));
    f("min_lr_rate", min_lr_rate, "The lowest rate, as a fraction of learning_rate.", at_least(0));
    f("num_cycles", num_cycles, "Waves of the cosine.", at_least(0));
  }
  std::string mistake(const Run&) const;
  double lowest(const Run&) const;  // a fraction of the peak
  double rate(std::int64_t step, const Run&) const;
};

struct CosineWarmupWithMinLr : CosineWithMinLr {
  std::optional<double> warmup_lr_rate;

  void fields(auto& f) {
    CosineWithMinLr::fields(f);
    f("warmup_lr_rate", warmup_lr_rate,
      "The first step's rate, as a fraction of learning_rate; null: 1 / warm-up steps.", at_least(0));
  }
  double rate(std::int64_t step, const Run&) const;
};

struct Polynomial {
  double lr_end = 1e-7, power = 1;

  void fields(auto& f) {
    f("lr_end", lr_end, "The rate after the last step.", at_least(0));
    f("power", power, "Power of the fraction of steps that is left.", above(0));
  }
  std::string mistake(const Run&) const;
  double rate(std::int64_t step, const Run&) const;
};

struct InverseSqrt {
  std::optional<std::int64_t> timescale;

  void fields(auto& f) {
    f("timescale", timescale, "Steps in which the rate falls to 0.71; null: the warm-up's, else 10000.",
      at_least(1));
  }
  double rate(std::int64_t step, const Run&) const;
};

enum class Ramp : std::uint8_t { linear, cosine, one_minus_sqrt };
constexpr auto words(Ramp) {
  using enum Ramp;
  return to_words<Ramp>({{linear, "linear"}, {cosine, "cosine"}, {one_minus_sqrt, "1-sqrt"}});
}

struct WarmupStableDecay {
  std::int64_t num_decay_steps = 0;
  std::optional<std::int64_t> num_stable_steps;
  Ramp warmup_type = Ramp::linear, decay_type = Ramp::cosine;
  double min_lr_ratio = 0, num_cycles = 0.5;

  void fields(auto& f) {
    f("num_decay_steps", num_decay_steps, "Steps of the decay.", required(), at_least(0));
    f("num_stable_steps", num_stable_steps, "Steps at the full rate; null: all between.", at_least(0));
    f("warmup_type", warmup_type, "How the rate rises.");
    f("decay_type", decay_type, "How it falls.");
    f("min_lr_ratio", min_lr_ratio, "The first and the last rate, as a fraction of learning_rate.",
      at_least(0));
    f("num_cycles", num_cycles, "Waves of a decay by cosine.", at_least(0));
  }
  double rate(std::int64_t step, const Run&) const;
};

}  // namespace ft::schedules
