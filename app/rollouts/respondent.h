// Generates a policy's answers to prompts and has them rewarded. Each rank generates a part of the answers,
// or a server all of them; all ranks get all. Rank 0 computes the rewards. A token that the run chooses
// depends on the seed, the answer's number and the token's place in it, but not on the number of ranks, the
// stage or the number of answers at once.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/rollouts/answers_to.h"
#include "app/rollouts/remote_answers.h"
#include "app/rollouts/reward.h"
#include "data/preference/generated.h"
#include "engine/layers/attention/kv_cache.h"
#include "engine/train/objectives/objective.h"

namespace ft {

struct RespondentParts {
  const RunConfig& config;
  std::vector<std::unique_ptr<Reward>> rewards;
  std::vector<std::int32_t> end_tokens;
  std::unique_ptr<Tokenizer> tokenizer;  // null: there is none
  GenerationShape shape;
  std::string scorer = {};                     // the reward model's name; empty: none
  std::int32_t padding = -1;                   // the reward model's padding token
  std::unique_ptr<RemoteAnswers> remote = {};  // generates the answers; null: the policy does
};

// The answers and rewards of a generation, in the order of the answers' numbers.
struct RewardedAnswers {
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<std::vector<double>> logps;  // by token, of the server that gave them; empty: there is none
  std::vector<std::vector<double>> each;   // [reward][answer]
  std::vector<double> sums;                // [answer]; NaN: no reward
};

class Respondent {
 public:
  explicit Respondent(RespondentParts);

  RewardedAnswers give(const Pass&, const GeneratedAnswers&, std::int64_t generation);

  const std::vector<std::string>& names() const { return names_; }  // names of the rewards
  bool ended(const std::vector<std::int32_t>& answer) const;
  bool has_texts() const { return p_.tokenizer != nullptr; }
  std::string text(std::span<const std::int32_t>) const;

  // Columns of a generation, with TRL's names; the names of all columns.
  std::map<std::string, double> figures(const RewardedAnswers&) const;
  std::vector<std::string> columns() const;
  // Returns the shares of the time since the last call that were spent on generating and on rewarding.
  Measures shares();
  // folder: for the files that rewards write. `warned` hears of what cannot be written.
  void log_to(const std::string& folder, Report& warned);
  using Progress = BegunAnswers;
  void tell(Progress begun) { begun_ = std::move(begun); }
  // Return and set the answers of the next generation that a server was asked for: see RemoteAnswers.
  bool looks_ahead() const { return p_.remote && p_.config.objective.looks_ahead(); }
  std::vector<double> ahead(Communicator& comm) const { return p_.remote->state(comm); }
  void set_ahead(std::span<const double> state) { p_.remote->set_state(state); }

 private:
  using Tokens = std::vector<std::vector<std::int32_t>>;
  void generate(const Pass&, const GeneratedAnswers&, std::int64_t generation, RewardedAnswers&);
  static std::vector<Prompt> prompts(const GeneratedAnswers&, std::int64_t generation);
  void reward(const Pass&, const GeneratedAnswers&, std::int64_t generation, RewardedAnswers&);
  std::vector<double> judge(Communicator&, const GeneratedAnswers&, std::int64_t generation, const Tokens&);
  std::vector<double> score(const Pass&, const GeneratedAnswers&, std::int64_t generation, const Tokens&);
  std::vector<RewardedAnswer> as_texts(const GeneratedAnswers&, std::int64_t generation, const Tokens&,
                                       const std::vector<Json>& rows);

  RespondentParts p_;
  AnswerSampling sampling_;
  std::vector<std::string> names_;
  Progress begun_;
  double generating_ = 0, rewarding_ = 0;
  std::chrono::steady_clock::time_point asked_ = std::chrono::steady_clock::now();
};

// Calls f for each of `batches` micro-batches, which ranks take in turns. Returns its numbers, one batch
// after another, on all ranks. `size`: numbers of a batch. All ranks make the same number of passes: a rank
// without a batch repeats the last.
std::vector<double> of_batches(const Pass&, std::int64_t batches,
                               const std::function<std::size_t(std::int64_t)>& size,
                               const std::function<std::vector<double>(std::int64_t)>& f);

}  // namespace ft
