#include "engine/generate/decoding.h"

namespace ft {

SingleBranch::SingleBranch(const TokenChooser& chooser, const Prompt& prompt, OnToken on_token)
    : chooser_(chooser),
      on_token_(std::move(on_token)),
      branch_{prompt.ids},
      prompt_(prompt.ids.size()),
      most_(prompt_ + static_cast<std::size_t>(prompt.max_new_tokens)),
      random_(
          Random{static_cast<std::uint64_t>(chooser.config().seed)}.with("generate").with(prompt.number)) {}

bool SingleBranch::step(std::span<float> scores) {
  const std::int32_t token = chooser_.choose(scores, {branch_.ids, prompt_, most_}, random_);
  if (chooser_.ends(token)) {
    end_ = token;
    return false;
  }
  branch_.ids.push_back(token);
  return on_token_(token) && branch_.ids.size() < most_;
}

}  // namespace ft
