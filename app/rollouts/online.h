// GRPO on answers that the policy gives itself, by the weights that a step begins with. Before the steps of a
// generation all ranks answer its prompts, each a part of them; rank 0 has the answers rewarded; all know
// everything. What a token is depends on the seed, the answer's number and the token's place in it, and on
// neither ranks, stage nor the number of answers at once.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <optional>

#include "app/assembly/built_data.h"
#include "app/assembly/built_objective.h"
#include "app/rollouts/reward.h"
#include "app/rollouts/rollouts_file.h"
#include "engine/generate/choose.h"
#include "engine/nn/kv_cache.h"

namespace ft {

struct OnlineParts {
  const RunConfig& config;
  std::unique_ptr<Objective> learning;  // GRPO on given answers
  GeneratedAnswers& answers;
  std::vector<std::unique_ptr<Reward>> rewards;
  std::vector<std::int32_t> end_tokens;
  std::unique_ptr<Tokenizer> tokenizer;  // null: there is none
  std::int64_t vocab_size = 0;
  GenerationShape shape;
  std::string scorer = {};    // the reward model's name; empty: none
  std::int32_t padding = -1;  // of it
};

class Online final : public Objective {
 public:
  explicit Online(OnlineParts);

  void begin_step(const Pass&, std::int64_t step) override;
  std::int64_t count(const BatchShape& s) const override { return p_.learning->count(s); }
  void forward(const Pass& p, const Batch& b, Tensor loss) override { p_.learning->forward(p, b, loss); }
  void forward_backward(const Pass& p, const Batch& b, Tensor loss, float scale) override {
    p_.learning->forward_backward(p, b, loss, scale);
  }
  std::vector<std::string> columns() const override { return columns_; }
  std::vector<double> take_columns() override;
  // The answers, where the next step goes on with them.
  std::vector<double> state(Ctx&, Communicator&) const override;
  void set_state(const std::vector<double>&) override;

  // On rank 0, in the run's folder, which has the rows of the steps before `step`.
  void write_to(const std::string& folder, std::int64_t step);
  // Of the seconds since it was last asked: the shares that generating and rewarding took.
  Measures shares();

 private:
  using Tokens = std::vector<std::vector<std::int32_t>>;
  struct Rewarded {
    std::vector<std::vector<double>> each;  // (rewards, answers)
    std::vector<double> sums;               // (answers) NaN: nothing rewards it
  };
  Tokens generate(const Pass&, std::int64_t generation);
  Rewarded reward(const Pass&, std::int64_t generation, const Tokens&);
  std::vector<double> judge(Communicator&, std::int64_t generation, const Tokens&);
  std::vector<double> score(const Pass&, std::int64_t generation, const Tokens&);
  std::vector<RewardedAnswer> as_texts(std::int64_t generation, const Tokens&, const std::vector<Json>& rows);
  void put(std::int64_t generation, const Tokens&, const Rewarded&);
  void add_old(const Pass&);
  void measure(const Tokens&, const Rewarded&);
  void write(std::int64_t step, std::int64_t generation, const Tokens&, const Rewarded&);
  bool ended(const std::vector<std::int32_t>& answer) const;
  std::string text(std::span<const std::int32_t>) const;

  OnlineParts p_;
  TokenChooser chooser_;
  std::vector<std::string> names_;  // of rewards
  std::vector<std::string> columns_;
  std::map<std::string, double> figures_;  // of the last generation, until they are taken
  std::optional<RolloutsFile> file_;
  std::int64_t next_ = 0;  // step
  bool root_ = true;
  double generating_ = 0, rewarding_ = 0;
  std::chrono::steady_clock::time_point asked_ = std::chrono::steady_clock::now();
};

// Puts it in the place of the run's objective; null where that does not generate.
Online* go_online(BuiltObjective&, const RunConfig&, const BuiltModel&, BuiltData&);

}  // namespace ft
