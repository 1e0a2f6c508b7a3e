// Learning rates against transformers' get_scheduler (tests/golden/schedules.json).
#include "engine/train/schedule.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/io/json.h"
#include "tests/support/source.h"

namespace ft {
namespace {

TEST(Schedule, EqualsTransformers) {
  const Json golden = read_json(source_path("tests/golden/schedules.json"));
  for (const Json& row : golden["schedules"]) {
    TrainingConfig t;
    const std::string type = row["lr_scheduler_type"];
    t.lr_scheduler_type = value_of<LrScheduler>(type).value();
    t.min_lr_ratio = row["min_lr_ratio"];
    t.warmup_steps = row["warmup_steps"];
    t.learning_rate = row["learning_rate"];
    SCOPED_TRACE(type + " with warm-up " + row["warmup_steps"].dump());
    const auto rates = row["rates"].get<std::vector<double>>();
    const auto total = static_cast<std::int64_t>(rates.size());
    for (std::int64_t step = 0; step < total; ++step) {
      const double want = rates[static_cast<std::size_t>(step)];
      EXPECT_NEAR(learning_rate(t, step, total), want, 1e-12 * t.learning_rate) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace ft
