// The beginning of adapters with lora.init_lora_weights=lora_ga: gradients of the weights, averaged over
// micro-batches of the training data.
#include <algorithm>

#include "app/plan/request.h"
#include "app/train/eva.h"
#include "engine/ops/ops.h"
#include "lora/convert.h"
#include "lora/starts/gradients.h"
#include "lora/starts/lora_ga.h"

namespace ft {
namespace {

using Matrices = std::vector<std::vector<float>>;  // (linears), each (out, in)

// Passes over the first `count` batches, as one step of training, and returns the mean of the gradients of
// the batches' mean losses.
Matrices mean_gradients(Engine& engine, BuiltModel& b, Objective& objective, const Batcher& data,
                        std::int64_t count, lora::WeightGradients& gradients, Working& working) {
  Matrices sums;
  for (const lora::LinearAdapter* l : b.attached.adapters)
    sums.emplace_back(static_cast<std::size_t>(l->weight_shape().numel()));
  gradients.see = [&](std::size_t linear, const Tensor& dw) {
    for (std::int64_t i = 0; i < dw.numel(); ++i)
      sums[linear][static_cast<std::size_t>(i)] += dw.as<float>()[i];
  };
  const Random random = Random{b.seed}.with("lora_ga");
  constexpr double zero = 0;
  engine.store.begin_step();
  for (std::int64_t i = 0; i < count; ++i) {
    Pass pass = engine.pass(b.model());
    pass.context.random = random.with(static_cast<std::uint64_t>(i));
    Scope scratch(pass.context.scratch);
    const Tensor loss = pass.context.scratch.take({1}, DType::f64);
    pass.context.ops.upload(loss, &zero);
    const std::int64_t targets = std::max<std::int64_t>(1, objective.count(data.shape(0, i)));
    pass.context.tokens_weight = static_cast<float>(targets);  // of a mean over the batch's tokens
    engine.store.begin_micro_step(i + 1 == count);
    objective.forward_backward(pass, data.batch(0, i), loss, 1 / static_cast<float>(targets * count));
    objective.take_columns();
    working(i + 1, count);
  }
  engine.store.reduction().add_up_ends();
  engine.store.grad_norm();  // waits for the gradients that are under way
  gradients.see = nullptr;
  return sums;
}

Matrices gradients_on_data(Run& run, Screen& screen) {
  BuiltModel& b = run.built;
  const Batcher batches = unpadded(run.data);
  const std::int64_t count = std::min(b.lora_config.lora_ga_config.batches, batches.batches_per_epoch());
  lora::WeightGradients gradients(b.model(), b.attached);
  PlanRequest request =
      plan_request(run.config, b, run.objective, run.data, run.ops().workspace(), run.ranks.grid);
  request.zero = frozen_options(request);
  request.states = no_states;
  request.optimizer = nullptr;
  request.train = largest_shapes(batches, 1);
  request.eval.clear();
  request.generation.clear();
  request.inputs_on_host = false;
  request.recompute = b.model().blocks();
  request.costs = Costs::none;
  Matrices all;
  run.before(request, [&](Engine& engine) {
    Working working(screen, "lora_ga: computing gradients", "batches");
    all = mean_gradients(engine, b, *run.objective.objective, batches, count, gradients, working);
  });
  return all;
}

std::vector<lora::Factors> factors_of(BuiltModel& b, const Matrices& gradients) {
  const lora::Attached& a = b.attached;
  std::vector<lora::Factors> all;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const lora::LoraAdapter& l = lora::as_lora(*a.adapters[i]);
    const std::int64_t out = l.weight_shape()[0], in = l.weight_shape()[1];
    const auto largest = [&, i] {
      const std::vector<float> w = lora::read_whole(*b.base, a, i);
      return lora::largest_singular({w.data(), out, in}, 1).values[0];
    };
    all.push_back(lora::begin_from_gradient({.gradient = {gradients[i].data(), out, in},
                                             .rank = l.rank(),
                                             .scale = static_cast<double>(l.scale()),
                                             .rows = a.turned[i] ? in : out,
                                             .largest_singular = largest},
                                            b.lora_config.lora_ga_config,
                                            Random{b.seed}.with("init").with(a.linears[i])));
  }
  return all;
}

}  // namespace

void begin_by_gradients(Run& run, const RunFolder& folder, Screen& screen) {
  BuiltModel& b = run.built;
  const Checkpoint* from = folder.checkpoint();
  begin_as(b, run.config, b.lora_config,
           from ? lora::read_first_factors(from->path, b.attached, Exit::checkpoint)
                : factors_of(b, gradients_on_data(run, screen)));
}

void begin_from_data(Run& run, const RunFolder& folder, Screen& screen) {
  if (!begins_from_data(run.built)) return;
  const bool eva = run.built.lora_config.init_lora_weights == lora::LoraInitWord(lora::LoraInit::eva);
  return eva ? begin_by_eva(run, folder, screen) : begin_by_gradients(run, folder, screen);
}

}  // namespace ft
