// Beam search: of all continuations of `num_beams` branches the best are kept, by the sum of their tokens'
// log probabilities; finished ones compete by that sum divided by length^length_penalty. Graves, "Sequence
// transduction with recurrent neural networks", 2012; the rules of when to stop, the order of operations and
// their rounding are transformers' (GenerationMixin._beam_search).
//   early_stopping  "true"   when num_beams answers have ended
//                   "false"  when no branch could beat the worst of them at its present length
//                   "never"  when none could at any length
#pragma once
#include "engine/generate/decoding.h"

namespace ft {

class BeamSearch final : public Decoding {
 public:
  BeamSearch(const TokenChooser& chooser, const Prompt& prompt, OnToken on_token);
  std::span<const Branch> branches() const override { return branches_; }
  // The answer's tokens are given out when it is complete.
  bool step(std::span<float> scores) override;

 private:
  struct Candidate {
    float score;  // sum of log probabilities
    std::size_t parent;
    std::int32_t token;
    bool ends;
  };
  struct Ended {
    float score;
    bool real;                      // false: a place that is still free
    std::vector<std::int32_t> ids;  // without the end token
  };
  std::vector<Candidate> best_candidates(std::span<float> scores) const;
  void finish(const std::vector<Candidate>&);
  void go_on(std::vector<Candidate>);
  bool could_improve() const;
  bool all_ended() const;
  double divisor(std::size_t length) const;  // length: new tokens

  const TokenChooser& chooser_;
  OnToken on_token_;
  std::size_t beams_, prompt_, most_;  // ids of the prompt, ids at the end
  std::vector<Branch> branches_;
  std::vector<float> sums_;   // of the branches, best first
  std::vector<Ended> ended_;  // best first
};

}  // namespace ft
