// cosine, cosine_with_restarts, cosine_with_min_lr and cosine_warmup_with_min_lr: transformers' schedules
// that fall as a cosine does.
#include <algorithm>
#include <cmath>

#include "engine/core/rules.h"
#include "engine/train/schedules/made.h"
#include "engine/train/schedules/warmed_up.h"

namespace ft::schedules {
namespace {

struct Cosine {
  double num_cycles = 0.5;

  void fields(auto& f) { f("num_cycles", num_cycles, "Waves of the cosine.", at_least(0)); }
  double rate(std::int64_t step, const Run&) const;
};

struct CosineWithRestarts {
  double num_cycles = 1;

  void fields(auto& f) { f("num_cycles", num_cycles, "Number of times that the cosine falls.", above(0)); }
  double rate(std::int64_t step, const Run&) const;
};

// Without min_lr and min_lr_rate, training.min_lr_ratio is the lowest rate.
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

double Cosine::rate(std::int64_t step, const Run& run) const {
  return warmed_up(step, run,
                   [&](double x, double span) { return std::max(0.0, cosine(num_cycles, x / span)); });
}

double CosineWithRestarts::rate(std::int64_t step, const Run& run) const {
  return warmed_up(step, run, [&](double x, double span) {
    return x >= span ? 0 : std::max(0.0, cosine(0.5, std::fmod(num_cycles * (x / span), 1)));
  });
}

std::string CosineWithMinLr::mistake(const Run& run) const {
  if (min_lr && min_lr_rate) return "min_lr and min_lr_rate are both given; give one of them";
  if (run.min_lr_ratio > 0 && (min_lr || min_lr_rate))
    return str(min_lr ? "min_lr" : "min_lr_rate",
               " and training.min_lr_ratio are both given; give one of them");
  return "";
}

double CosineWithMinLr::lowest(const Run& run) const {
  return min_lr ? *min_lr / run.rate : min_lr_rate.value_or(run.min_lr_ratio);
}

double CosineWithMinLr::rate(std::int64_t step, const Run& run) const {
  return warmed_up(step, run,
                   [&](double x, double span) { return raised(cosine(num_cycles, x / span), lowest(run)); });
}

// Goes one step ahead of CosineWithMinLr: no step has rate 0.
double CosineWarmupWithMinLr::rate(std::int64_t step, const Run& run) const {
  const auto at = static_cast<double>(step), warmup = static_cast<double>(run.warmup);
  if (step >= run.warmup)
    return warmed_up(step, run, [&](double x, double span) {
      return raised(cosine(num_cycles, (x + 1) / span), lowest(run));
    });
  if (!warmup_lr_rate) return run.rate * ((at + 1) / warmup);
  return run.rate * (*warmup_lr_rate + (1 - *warmup_lr_rate) * at / std::max(1.0, warmup - 1));
}

}  // namespace

const ScheduleKind kCosine{"cosine", make<Cosine>};
const ScheduleKind kCosineWithRestarts{"cosine_with_restarts", make<CosineWithRestarts>};
const ScheduleKind kCosineWithMinLr{"cosine_with_min_lr", make<CosineWithMinLr>};
const ScheduleKind kCosineWarmupWithMinLr{"cosine_warmup_with_min_lr", make<CosineWarmupWithMinLr>};

}  // namespace ft::schedules
