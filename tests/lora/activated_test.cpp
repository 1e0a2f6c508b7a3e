// Activated LoRA: the rows on which it acts, and its refusals. The golden cases lora-activated show that
// training and generation are PEFT's.
#include "lora/activated.h"

#include <gtest/gtest.h>

#include "engine/cpu/cpu_ops.h"
#include "engine/model/invocation.h"
#include "models/registry.h"
#include "tests/support/source.h"

namespace ft::lora {
namespace {

using Ids = std::vector<std::int32_t>;
using Runs = std::vector<std::pair<std::int64_t, std::int64_t>>;

TEST(Invocation, IsAtTheLastPlaceOfAllItsTokens) {
  const Ids tokens{5, 9};
  EXPECT_EQ(last_place(Ids{5, 9, 1, 5, 9, 9, 5}, tokens), 3);
  EXPECT_EQ(last_place(Ids{1, 5, 9}, tokens), 1);
  EXPECT_EQ(last_place(Ids{9, 5, 1, 5}, tokens), 4);
  EXPECT_EQ(last_place(Ids{5}, tokens), 1);
}

class Passes : public testing::Test {
 protected:
  Arena arena() { return {ops.allocate(1 << 12), 1 << 12}; }
  cpu::CpuOps ops{1};
  Arena saved = arena(), scratch = arena();
  Ctx c{ops, saved, scratch, {}};
};

TEST_F(Passes, RowsAreActiveToTheEndOfTheirSequence) {
  Batch b;
  b.input_ids = {1, 5, 9, 2, /**/ 5, 1, 9, /**/ 5, 9, /**/ 9};
  b.starts = {0, 4, 7, 9, 10};
  {
    const Invocation active(c, b, Ids{5, 9});
    ASSERT_NE(c.active, nullptr);
    EXPECT_EQ(c.active->rows, 10);
    EXPECT_EQ(c.active->runs, (Runs{{1, 4}, {7, 9}}));
  }
  const Invocation none(c, b, {});
  EXPECT_EQ(c.active, nullptr);
}

TEST_F(Passes, NewTokensAreActiveFromTheirPositionOn) {
  Continuation next;
  next.input_ids = {1, 2, 3, /**/ 4, /**/ 5, 6};
  next.starts = {0, 3, 4, 6};
  next.slots = {0, 1, 2};
  next.past = {2, 7, 0};
  next.acts_from = {4, 3, 9};
  const Invocation active(c, next, Ids{5});
  EXPECT_EQ(c.active->rows, 6);
  EXPECT_EQ(c.active->runs, (Runs{{2, 3}, {3, 4}}));
}

TEST(Activated, RefusesWhatPeftDoesNotCompute) {
  const auto mistake = [](const LoraConfig& config) -> std::string {
    const MadeModel made = make_model(source_path("tests/golden/models/llama/model/config.json"), DType::f32);
    try {
      attach(*made.model, config, DType::f32, {"lora."});
    } catch (const UserError& e) {
      return e.what();
    }
    EXPECT_EQ(std::vector(made.model->invocation().begin(), made.model->invocation().end()), (Ids{5, 9}));
    return "";
  };
  LoraConfig c;
  c.alora_invocation_tokens = {5, 9};
  EXPECT_EQ(mistake(c), "");
  const std::string setting = "lora.alora_invocation_tokens: ";
  c.use_dora = true;
  EXPECT_EQ(mistake(c), setting + "not with use_dora; leave one of the two out");
  c.use_dora = false;
  c.lora_bias = true;
  EXPECT_EQ(mistake(c), setting + "not with lora_bias; leave one of the two out");
  c.lora_bias = false;
  c.init_lora_weights = LoraInit::pissa;
  EXPECT_EQ(mistake(c),
            setting + "not with pissa and olora, which change the base where the adapter does not act");
  c.init_lora_weights = LoraInit::kaiming;
  c.target_modules = std::vector<std::string>{"q_proj", "lm_head"};
  EXPECT_EQ(mistake(c), setting + "not on the embedding or the head; leave them out of target_modules");
  c.target_modules = "all-linear";
  c.task_type = "SEQ_CLS";
  EXPECT_EQ(mistake(c), setting + "only for decoders that answer, of task_type CAUSAL_LM");
  c.task_type = "CAUSAL_LM";
  c.alora_invocation_tokens = {5, 1000000};
  EXPECT_TRUE(mistake(c).starts_with(setting + "1000000 is not a token of this model")) << mistake(c);
}

}  // namespace
}  // namespace ft::lora
