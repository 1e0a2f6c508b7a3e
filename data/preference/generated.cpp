#include "data/preference/generated.h"

#include <algorithm>
#include <numeric>

#include "data/preference/batch.h"
#include "data/shuffle.h"
#include "engine/core/divide.h"
#include "engine/core/error.h"

namespace ft {

GeneratedAnswers::GeneratedAnswers(Dataset prompts, const GeneratedOptions& options)
    : prompts_(std::move(prompts)), options_(options), answers_(options.rows * options.batches) {
  if (options.whole) {
    answers_ = prompts_.size() * options.group;
    options_.batches = options_.step = ceil_div(answers_, options.rows);
    options_.uses = generations_ = 1;
    return;
  }
  if (answers() % options.group != 0)
    throw UserError(Exit::config,
                    str("objective.num_generations: a generation makes ", answers(),
                        answers() == 1 ? " answer" : " answers",
                        " (micro-batch, objective.steps_per_generation and ranks), groups have ",
                        options.group, ": set training.per_device_train_batch_size to a multiple of ",
                        options.group / std::gcd(options.group, options.batches)));
  if (options.batches % options.step != 0)
    throw UserError(Exit::config,
                    "objective.steps_per_generation: must be a multiple of "
                    "training.gradient_accumulation_steps, so that every step is complete");
  generations_ = prompts_.size() / (answers() / options.group);
  if (generations_ == 0)
    throw UserError(Exit::input, str("the data has ", prompts_.size(), " prompts, and a generation takes ",
                                     answers() / options.group));
}

std::vector<std::int64_t> GeneratedAnswers::places(std::int64_t generation) const {
  const std::int64_t epoch = generation / generations_, prompts = answers() / options_.group;
  std::vector<std::int64_t> order;
  if (options_.shuffle)
    order = permutation(prompts_.size(),
                        Random{options_.seed}.with("shuffle").with(static_cast<std::uint64_t>(epoch)));
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < prompts; ++i) {
    const std::int64_t at = generation % generations_ * prompts + i;
    all.insert(all.end(), static_cast<std::size_t>(options_.group),
               order.empty() ? at : order[static_cast<std::size_t>(at)]);
  }
  return all;
}

void GeneratedAnswers::put(std::int64_t generation, std::vector<GeneratedAnswer> given) {
  require(std::ssize(given) == answers(), "a generation of another size");
  const std::vector<std::int64_t> at = places(generation);
  auto store = std::make_shared<SampleStore>(false, RowKind::rollout);
  store->start_file("generated");
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const GeneratedAnswer& a = given[i];
    const auto prompt = prompts_[at[i]].input_ids;
    Sample s;
    s.input_ids.assign(prompt.begin(), prompt.end());
    s.input_ids.insert(s.input_ids.end(), a.ids.begin(), a.ids.end());
    s.labels.assign(s.input_ids.size(), kIgnored);
    if (a.trained) std::copy(a.ids.begin(), a.ids.end(), s.labels.begin() + std::ssize(prompt));
    s.value = a.advantage;
    s.old_logps = a.old_logps;
    store->add(s, static_cast<std::int64_t>(i) + 1);
    rows.push_back(static_cast<std::int64_t>(i));
  }
  rows_ = Dataset(std::move(store), std::move(rows));
  generation_ = generation;
  given_ = std::move(given);
}

Batch GeneratedAnswers::batch_of(std::int64_t i) const {
  Batch b;
  const std::int64_t end = std::min((i + 1) * options_.rows, answers_);
  for (std::int64_t r = i * options_.rows; r < end; ++r) {
    add_answers(b, rows_, r, {}, {});
    const GeneratedAnswer& a = given_[static_cast<std::size_t>(r)];
    if (!a.trained) continue;
    const auto add = [](std::vector<float>& to, const std::vector<float>& more) {
      to.insert(to.end(), more.begin(), more.end());
    };
    add(b.compared.advantages, a.advantages);
    add(b.compared.values, a.values);
    add(b.compared.returns, a.returns);
    add(b.compared.weights, a.weights);
  }
  return b;
}

Batch GeneratedAnswers::batch(std::int64_t epoch, std::int64_t i) const {
  const std::int64_t generation = epoch * generations_ + i / (options_.uses * options_.batches);
  require(generation == generation_, "answers that were not given");
  return batch_of(i % options_.batches);
}

BatchShape GeneratedAnswers::shape(std::int64_t epoch, std::int64_t i) const {
  return shape_of(batch(epoch, i));
}

BatchShape GeneratedAnswers::largest() const {
  const std::int64_t length = prompts_.longest() + options_.longest, rows = options_.rows;
  return {.tokens = rows * length,
          .targets = rows * options_.longest,
          .sequences = rows,
          .longest = length,
          .compared = rows};
}

}  // namespace ft
