// The growth of an answer, one token at a time. An answer has one branch when tokens are chosen directly,
// several in a beam search. Decodings know neither models nor memory.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/generate/choose.h"

namespace ft {

struct Prompt {
  std::vector<std::int32_t> ids;  // at least one; for an encoder-decoder, the decoder's first ids
  std::int64_t max_new_tokens = 0;
  std::uint64_t number = 0;               // key of its random numbers
  std::vector<std::int32_t> source = {};  // encoder-decoders: the encoder's ids, at least one
  const TokenChooser* chooser = nullptr;  // null: use the generator's
  std::int32_t adapter = -1;  // for a model with several adapters: the index of this prompt's; -1: none
  bool scores = false;        // report the model's scores before each token of the answer to the PromptSource
  bool prompt_scores = false;  // and before each token of the prompt; decoders only
};

// A partial answer.
struct Branch {
  std::vector<std::int32_t> ids;  // the prompt, then the chosen tokens; of equal length in every branch
  std::size_t parent = 0;         // index of the branch that it continues, in the step before
};

class Decoding {
 public:
  // Called for each new token of the answer, except the end token. Return false to end the answer here.
  using OnToken = std::function<bool(std::int32_t token)>;

  virtual ~Decoding() = default;
  // The branches that the model must continue; at first one, the prompt alone.
  virtual std::span<const Branch> branches() const = 0;
  // Takes the scores (branches, V) of the token after each branch, and changes them. Returns false when the
  // answer is complete and on_token was called for all of its tokens.
  virtual bool step(std::span<float> scores) = 0;
  // Returns the end token that ended the answer; empty: something else did, or it is a beam's.
  virtual std::optional<std::int32_t> end_token() const { return {}; }
};

// A greedy or sampled answer.
class SingleBranch final : public Decoding {
 public:
  SingleBranch(const TokenChooser& chooser, const Prompt& prompt, OnToken on_token);
  std::span<const Branch> branches() const override { return {&branch_, 1}; }
  bool step(std::span<float> scores) override;
  std::optional<std::int32_t> end_token() const override { return end_; }

 private:
  const TokenChooser& chooser_;
  OnToken on_token_;
  Branch branch_;
  std::size_t prompt_, most_;  // number of ids in the prompt, and at most with the answer
  Random random_;
  std::optional<std::int32_t> end_;
};

}  // namespace ft
