// Beam search: of all continuations of the `num_beams` branches the best are kept, by the sum of their
// tokens' log probabilities. Finished answers compete by that sum divided by length^length_penalty. Graves,
// "Sequence transduction with recurrent neural networks", 2012. The stopping rules, the order of operations
// and their rounding are transformers' (GenerationMixin._beam_search). The search stops
//   early_stopping  "true"   when num_beams answers have ended
//                   "false"  when no branch could beat the worst of those at its present length
//                   "never"  when no branch could beat it at any length
#pragma once
#include "engine/generate/decoding.h"

namespace ft {

class BeamSearch final : public Decoding {
 public:
  BeamSearch(const TokenChooser& chooser, const Prompt& prompt, OnToken on_token);
  std::span<const Branch> branches() const override { return branches_; }
  // Calls on_token for all of the answer's tokens once the answer is complete.
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
    bool real;                      // false: a free place
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
  std::size_t beams_, prompt_, most_;  // number of ids in the prompt, and at most with the answer
  std::vector<Branch> branches_;
  std::vector<float> sums_;   // of the branches, best branch first
  std::vector<Ended> ended_;  // best first
};

}  // namespace ft
