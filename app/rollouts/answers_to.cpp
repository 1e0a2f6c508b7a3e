#include "app/rollouts/answers_to.h"

#include <algorithm>

#include "engine/generate/ranks.h"

namespace ft {

bool AnswerSampling::ended(const std::vector<std::int32_t>& answer) const {
  return std::find(end_tokens.begin(), end_tokens.end(), answer.back()) != end_tokens.end();
}

std::vector<std::vector<std::int32_t>> answers_to(std::span<const Prompt> prompts, const Ctx& context,
                                                  const Policy& policy, const AnswerSampling& sampling,
                                                  const BegunAnswers& begun) {
  Ctx own_context = context;
  ParameterStore& store = *policy.store;
  const auto rank = static_cast<std::size_t>(store.communicator().rank()),
             ranks = static_cast<std::size_t>(store.communicator().size());
  Generator generator(own_context, store, *policy.model, sampling.shape, sampling.chooser);
  const std::vector<Prompt> own = own_prompts(prompts, store.communicator());
  std::vector<std::vector<std::int32_t>> given(prompts.size());
  std::int64_t count = 0;
  generator.run(
      own,
      [&](std::size_t i, std::int32_t token) {
        std::vector<std::int32_t>& answer = given[rank + i * ranks];
        if (answer.empty() && begun) begun(++count, std::ssize(own));
        answer.push_back(token);
        return !sampling.ended(answer);
      },
      asked_of_all(store));
  share_answers(store.communicator(), given);
  return given;
}

}  // namespace ft
