#include "app/planned.h"

#include "app/ranks.h"

namespace ft {
namespace {

// The largest micro-batch there can be: every sequence as long as max_seq_length.
BatchShape full_shape(std::int64_t sequences, std::int64_t length) {
  return {.tokens = sequences * length,
          .targets = sequences * (length - 1),
          .sequences = sequences,
          .longest = length};
}

}  // namespace

Planned planned(const RunConfig& config, const BuiltData* data, std::int64_t workspace,
                std::optional<std::int64_t> length) {
  const BuiltModel built = build_model(config, Weights::ignore);
  const BuiltData none;
  PlanRequest request =
      plan_request(config, built, data ? *data : none, workspace, configured_ranks(config.distributed));
  if (length || !data) {
    const std::int64_t tokens = length.value_or(config.data.max_seq_length);
    request.train = {full_shape(config.training.per_device_train_batch_size, tokens)};
    if (config.evaluation.eval_strategy != "no")
      request.eval = {full_shape(config.training.per_device_eval_batch_size, tokens)};
  }
  const BatchShape largest = request.train.empty() ? BatchShape{} : request.train[0];
  return {plan_run(built.model(), request), largest};
}

std::int64_t longest_that_fits(const RunConfig& config, std::int64_t workspace, std::int64_t there) {
  constexpr std::int64_t kStep = 64, kMost = 1 << 17;
  const auto fits = [&](std::int64_t steps) {
    return planned(config, nullptr, workspace, steps * kStep).plan.memory.total <= there;
  };
  std::int64_t low = 0, high = 1;
  while (high * kStep <= kMost && fits(high)) low = high, high *= 2;
  if (high * kStep > kMost) return low * kStep;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low * kStep;
}

}  // namespace ft
