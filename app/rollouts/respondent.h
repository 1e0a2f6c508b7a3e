// A policy's answers to prompts, and what rewards them: all ranks answer, each a part; rank 0 has the
// answers rewarded; all know everything. What a token is depends on the seed, the answer's number and the
// token's place in it, and on neither ranks, stage nor the number of answers at once.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/rollouts/reward.h"
#include "data/preference/generated.h"
#include "engine/generate/choose.h"
#include "engine/layers/kv_cache.h"
#include "engine/train/objectives/objective.h"

namespace ft {

struct RespondentParts {
  const RunConfig& config;
  std::vector<std::unique_ptr<Reward>> rewards;
  std::vector<std::int32_t> end_tokens;
  std::unique_ptr<Tokenizer> tokenizer;  // null: there is none
  GenerationShape shape;
  std::string scorer = {};    // the reward model's name; empty: none
  std::int32_t padding = -1;  // of it
};

// The answers of a generation, in the order of their numbers.
struct RewardedAnswers {
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<std::vector<double>> each;  // (rewards, answers)
  std::vector<double> sums;               // (answers) NaN: nothing rewards it
};

class Respondent {
 public:
  explicit Respondent(RespondentParts);

  RewardedAnswers give(const Pass&, const GeneratedAnswers&, std::int64_t generation);

  const std::vector<std::string>& names() const { return names_; }  // of rewards
  bool ended(const std::vector<std::int32_t>& answer) const;
  bool has_texts() const { return p_.tokenizer != nullptr; }
  std::string text(std::span<const std::int32_t>) const;

  // Figures of a generation by TRL's names, and all the names.
  std::map<std::string, double> figures(const RewardedAnswers&) const;
  std::vector<std::string> columns() const;
  // The shares that generating and rewarding took of the time since the last call.
  Measures shares();
  void log_to(const std::string& folder);  // what rewards may write
  // `begun` is called as answers are begun, with how many of this rank's there are.
  using Progress = std::function<void(std::int64_t begun, std::int64_t of)>;
  void tell(Progress begun) { begun_ = std::move(begun); }

 private:
  using Tokens = std::vector<std::vector<std::int32_t>>;
  Tokens generate(const Pass&, const GeneratedAnswers&, std::int64_t generation);
  void reward(const Pass&, const GeneratedAnswers&, std::int64_t generation, RewardedAnswers&);
  std::vector<double> judge(Communicator&, const GeneratedAnswers&, std::int64_t generation, const Tokens&);
  std::vector<double> score(const Pass&, const GeneratedAnswers&, std::int64_t generation, const Tokens&);
  std::vector<RewardedAnswer> as_texts(const GeneratedAnswers&, std::int64_t generation, const Tokens&,
                                       const std::vector<Json>& rows);

  RespondentParts p_;
  TokenChooser chooser_;
  std::vector<std::string> names_;
  Progress begun_;
  double generating_ = 0, rewarding_ = 0;
  std::chrono::steady_clock::time_point asked_ = std::chrono::steady_clock::now();
};

// f of each of `batches` micro-batches, which ranks take in turns: its numbers, one batch behind another, on
// all ranks. size: how many a batch has. Ranks make their passes together: one without a batch repeats the
// last.
std::vector<double> of_batches(const Pass&, std::int64_t batches,
                               const std::function<std::size_t(std::int64_t)>& size,
                               const std::function<std::vector<double>(std::int64_t)>& f);

}  // namespace ft
