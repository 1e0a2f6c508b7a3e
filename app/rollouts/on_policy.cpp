#include "app/rollouts/on_policy.h"

#include "app/rollouts/sampling.h"
#include "engine/train/objectives/rollouts.h"

namespace ft {

OnPolicy::OnPolicy(std::unique_ptr<Objective> learning, OwnAnswers& answers, AnswerSampling sampling)
    : learning_(std::move(learning)), answers_(answers), sampling_(std::move(sampling)) {}

OwnAnswers::Tokens OnPolicy::ask(const Pass& pass, const Policy& whom, std::int64_t step,
                                 Author author) const {
  std::vector<Prompt> prompts;
  for (OwnPrompt& q : answers_.questions(step, author))
    prompts.push_back({.ids = std::move(q.prompt),
                       .max_new_tokens = q.most,
                       .number = static_cast<std::uint64_t>(q.number)});
  return prompts.empty() ? OwnAnswers::Tokens{} : answers_to(prompts, pass.context, whom, sampling_);
}

void OnPolicy::begin_step(const Pass& pass, std::int64_t step) {
  root_ = pass.policy.store->communicator().rank() == 0;
  const OwnAnswers::Tokens own = ask(pass, pass.policy, step, Author::policy),
                           taught = ask(pass, pass.others.reference, step, Author::teacher);
  answers_.put(step, own, taught);
  measure(own);
}

void OnPolicy::measure(const OwnAnswers::Tokens& given) {
  for (const auto& answer : given) {
    lengths_.push_back(static_cast<double>(answer.size()));
    cuts_.push_back(sampling_.ended(answer) ? 0 : 1);
  }
}

std::vector<std::string> OnPolicy::columns() const {
  return {"completions/mean_length", "completions/clipped_ratio"};
}

// Returns the columns' sums and counts. All ranks have all answers, so only rank 0 counts them.
std::vector<double> OnPolicy::take_columns() {
  learning_->take_columns();
  std::vector<double> sums(4);
  if (root_ && !lengths_.empty())
    sums = {mean_and_deviation(lengths_).mean, 1, mean_and_deviation(cuts_).mean, 1};
  lengths_.clear();
  cuts_.clear();
  return sums;
}

}  // namespace ft
