#include "app/answers.h"

#include <algorithm>

namespace ft {

AnswerTest::AnswerTest(const Dataset& data, std::int64_t count, std::int64_t at_once) {
  for (std::int64_t i = 0; i < std::min(count, data.size()); ++i) {
    const SampleStore::View sample = data[i];
    const auto first = std::find_if(sample.labels.begin() + 1, sample.labels.end(),
                                    [](std::int32_t label) { return label != kIgnored; });
    const auto answer = sample.input_ids.begin() + (first - sample.labels.begin());
    Prompt p{.ids = {sample.input_ids.begin(), answer}};
    p.max_new_tokens = std::max<std::int64_t>(1, data.longest() - static_cast<std::int64_t>(p.ids.size()));
    prompts_.push_back(std::move(p));
    expected_.emplace_back(answer, sample.input_ids.end());
  }
  shape_ = generation_shape(prompts_, at_once);
}

std::vector<Answer> AnswerTest::run(
    Engine& engine, Model& model, const Tokenizer& tokenizer, std::vector<std::int32_t> end_tokens,
    const std::function<void(std::int64_t done, std::int64_t of)>& progress) const {
  Generator generator(engine.context, engine.store, model, shape_, {{}, std::move(end_tokens)});
  std::vector<std::vector<std::int32_t>> given(prompts_.size());
  std::int64_t begun = 0;
  generator.run(prompts_, [&](std::size_t i, std::int32_t token) {
    if (given[i].empty()) progress(begun++, static_cast<std::int64_t>(given.size()));
    given[i].push_back(token);
    return true;
  });
  const auto text = [&](const std::vector<std::int32_t>& ids) { return tokenizer.decode(ids, true); };
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < prompts_.size(); ++i)
    answers.push_back({text(prompts_[i].ids), text(expected_[i]), text(given[i])});
  return answers;
}

}  // namespace ft
