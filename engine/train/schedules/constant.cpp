// constant and constant_with_warmup: transformers' schedules that never fall.
#include "engine/train/schedules/made.h"
#include "engine/train/schedules/warmed_up.h"

namespace ft::schedules {
namespace {

struct Constant {
  void fields(auto&) {}
  double rate(std::int64_t, const Run& run) const { return run.rate; }
};

struct ConstantWithWarmup {
  void fields(auto&) {}
  double rate(std::int64_t step, const Run&) const;
};

double ConstantWithWarmup::rate(std::int64_t step, const Run& run) const {
  return warmed_up(step, run, [](double, double) { return 1.0; });
}

}  // namespace

const ScheduleKind kConstant{"constant", make<Constant>};
const ScheduleKind kConstantWithWarmup{"constant_with_warmup", make<ConstantWithWarmup>};

}  // namespace ft::schedules
