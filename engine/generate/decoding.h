// How an answer grows, one token at a time: one branch when tokens are chosen directly, several in a beam
// search. Knows neither models nor memory.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/generate/choose.h"

namespace ft {

struct Prompt {
  std::vector<std::int32_t> ids;  // at least one; of an encoder-decoder what its decoder begins with
  std::int64_t max_new_tokens = 0;
  std::uint64_t number = 0;               // names its random numbers
  std::vector<std::int32_t> source = {};  // encoder-decoders: what the encoder reads, at least one
  const TokenChooser* chooser = nullptr;  // null: the generator's
  std::int32_t adapter = -1;              // where a model has several: this one; -1: none
  bool scores = false;         // its source is given the model's scores before each token of the answer
  bool prompt_scores = false;  // and before each of the prompt; for decoders
};

// A beginning of the answer.
struct Branch {
  std::vector<std::int32_t> ids;  // the prompt, then the chosen tokens; the same number in every branch
  std::size_t parent = 0;         // the branch of the step before that it continues
};

class Decoding {
 public:
  // Called for each new token of the answer, except the end token. False ends the answer here.
  using OnToken = std::function<bool(std::int32_t token)>;

  virtual ~Decoding() = default;
  // What the model is to go on from; at first the prompt alone.
  virtual std::span<const Branch> branches() const = 0;
  // scores (branches, V), of the token after each branch, are changed. False: the answer is complete, and all
  // of its tokens were given out.
  virtual bool step(std::span<float> scores) = 0;
};

// Greedy and sampled answers.
class SingleBranch final : public Decoding {
 public:
  SingleBranch(const TokenChooser& chooser, const Prompt& prompt, OnToken on_token);
  std::span<const Branch> branches() const override { return {&branch_, 1}; }
  bool step(std::span<float> scores) override;

 private:
  const TokenChooser& chooser_;
  OnToken on_token_;
  Branch branch_;
  std::size_t prompt_, most_;  // ids of the prompt, ids at the end
  Random random_;
};

}  // namespace ft
