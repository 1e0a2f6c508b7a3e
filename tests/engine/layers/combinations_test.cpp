// Combinations of parts that layers do not compute, and those of families, which they do.
#include "engine/model/causal_lm.h"
#include "tests/engine/layers/layer_fixture.h"

namespace ft::test {
namespace {

constexpr std::int64_t kWidth = 8, kHead = 4;

Linear made(const std::string& name, std::int64_t out = kWidth) {
  return make_linear(name, kWidth, out, false, DType::f32);
}
Norm norm(const std::string& name) { return make_rms_norm(name, kHead, 1e-6f, DType::f32); }

SelfAttention separate() {
  SelfAttention a;
  a.q_proj = made("q_proj");
  a.k_proj = made("k_proj");
  a.v_proj = made("v_proj");
  a.o_proj = made("o_proj");
  a.heads = {2, 2, kHead};
  return a;
}
SelfAttention fused() {
  SelfAttention a = separate();
  a.q_proj = made("qkv_proj", 3 * kWidth);
  a.k_proj = {};
  a.v_proj = {};
  return a;
}
SelfAttention latent() {
  SelfAttention a = separate();
  a.q_proj = {};
  a.k_proj = {};
  a.v_proj = {};
  a.latent.emplace();
  return a;
}
SelfAttention borrower() {
  SelfAttention a = separate();
  a.k_proj = {};
  a.v_proj = {};
  a.borrows = 0;
  return a;
}
SelfAttention with_values_that_are_keys() {
  SelfAttention a = separate();
  a.v_proj = {};
  a.values_are_keys = true;
  a.k_norm = norm("k_norm");
  a.v_norm = {.width = kHead, .eps = 1e-6f};
  return a;
}

struct Combination {
  const char* name;
  SelfAttention (*base)();
  void (*change)(SelfAttention&);
};
void PrintTo(const Combination& c, std::ostream* out) { *out << c.name; }
const auto name_of_combination = [](const testing::TestParamInfo<Combination>& info) {
  return std::string(info.param.name);
};

class Computed : public testing::TestWithParam<Combination> {};
TEST_P(Computed, IsAccepted) {
  SelfAttention a = GetParam().base();
  GetParam().change(a);
  EXPECT_NO_THROW(a.check());
}
INSTANTIATE_TEST_SUITE_P(
    Attention, Computed,
    testing::Values(
        Combination{"Separate", separate, [](SelfAttention&) {}},
        Combination{"Fused", fused, [](SelfAttention&) {}},
        Combination{"FusedByHeads", fused, [](SelfAttention& a) { a.by_heads = true; }},
        Combination{"Latent", latent, [](SelfAttention&) {}},
        Combination{"GatedWithNorms", separate,
                    [](SelfAttention& a) { a.gated = true, a.q_norm = norm("q"), a.k_norm = norm("k"); }},
        Combination{"Lender", separate, [](SelfAttention& a) { a.lends = 0; }},
        Combination{"Borrower", borrower, [](SelfAttention& a) { a.q_norm = norm("q"); }},
        Combination{"BorrowerOfValuesThatAreKeys", borrower,
                    [](SelfAttention& a) { a.values_are_keys = true; }},
        Combination{"ValuesAreKeys", with_values_that_are_keys, [](SelfAttention& a) { a.lends = 0; }}),
    name_of_combination);

class NotComputed : public testing::TestWithParam<Combination> {};
TEST_P(NotComputed, IsRefused) {
  SelfAttention a = GetParam().base();
  ASSERT_NO_THROW(a.check());
  GetParam().change(a);
  EXPECT_THROW(a.check(), InternalError);
}
INSTANTIATE_TEST_SUITE_P(
    Attention, NotComputed,
    testing::Values(
        Combination{"LatentAndGated", latent, [](SelfAttention& a) { a.gated = true; }},
        Combination{"LatentAndNorms", latent, [](SelfAttention& a) { a.q_norm = norm("q"); }},
        Combination{"LatentAndLends", latent, [](SelfAttention& a) { a.lends = 0; }},
        Combination{"LatentAndBorrows", latent, [](SelfAttention& a) { a.borrows = 0; }},
        Combination{"LatentAndKeys", latent, [](SelfAttention& a) { a.k_proj = made("k_proj"); }},
        Combination{"LatentAndByHeads", latent, [](SelfAttention& a) { a.by_heads = true; }},
        Combination{"LatentAndValuesAreKeys", latent, [](SelfAttention& a) { a.values_are_keys = true; }},
        Combination{"FusedAndGated", fused, [](SelfAttention& a) { a.gated = true; }},
        Combination{"FusedAndNorms", fused, [](SelfAttention& a) { a.k_norm = norm("k"); }},
        Combination{"FusedAndLends", fused, [](SelfAttention& a) { a.lends = 0; }},
        Combination{"FusedAndValuesAreKeys", fused, [](SelfAttention& a) { a.values_are_keys = true; }},
        Combination{"ByHeadsOfSeparateLinears", separate, [](SelfAttention& a) { a.by_heads = true; }},
        Combination{"ByHeadsWithFewerKeys", fused,
                    [](SelfAttention& a) { a.by_heads = true, a.heads.key_value = 1; }},
        Combination{"BorrowsAndLends", borrower, [](SelfAttention& a) { a.lends = 1; }},
        Combination{"BorrowsAndHasKeys", borrower, [](SelfAttention& a) { a.k_proj = made("k_proj"); }},
        Combination{"BorrowsAndNormsKeys", borrower, [](SelfAttention& a) { a.k_norm = norm("k"); }},
        Combination{"ValuesAreKeysWithoutTheirNorm", with_values_that_are_keys,
                    [](SelfAttention& a) { a.v_norm = std::nullopt; }},
        Combination{"ValuesAreKeysWithoutKeysNorm", with_values_that_are_keys,
                    [](SelfAttention& a) { a.k_norm = std::nullopt; }},
        Combination{"ValuesAreKeysAndHasValues", with_values_that_are_keys,
                    [](SelfAttention& a) { a.v_proj = made("v_proj"); }}),
    name_of_combination);

Moe stacked() {
  Moe m;
  m.name = "mlp";
  m.gate = made("router", 2);
  m.stacks = std::make_unique<StackedExperts>(
      StackedExperts{.gate_up = ExpertStack("gate_up_proj", 2, kWidth, 2 * kWidth, DType::f32),
                     .down = ExpertStack("down_proj", 2, kWidth, kWidth, DType::f32),
                     .limit = 7,
                     .steepness = 1.702f});
  for (std::int64_t e = 0; e < 2; ++e)
    m.experts.push_back(
        {.gate_proj = m.stacks->gate_up.linear(e), .up_proj = {}, .down_proj = m.stacks->down.linear(e)});
  return m;
}

TEST(StacksOfExperts, HaveTheActivationOfGatedPairs) {
  Moe m = stacked();
  EXPECT_NO_THROW(m.check());
  m.activation = Activation::gelu_tanh;
  EXPECT_THROW(m.check(), InternalError);
}

TEST(StacksOfExperts, HaveGatesAndUpsInPairs) {
  Moe m = stacked();
  m.stacks.reset();
  EXPECT_THROW(m.check(), InternalError);
  Moe other = stacked();
  for (Expert& e : other.experts) e.up_proj = made("up_proj");
  EXPECT_THROW(other.check(), InternalError);
}

TEST(Routers, WithScalesAreNotWide) {
  Moe m = stacked();
  m.gate = make_wide_linear("router", kWidth, 2);
  EXPECT_NO_THROW(m.check());
  m.scales.emplace();
  EXPECT_THROW(m.check(), InternalError);
  m.gate = made("router", 2);
  EXPECT_NO_THROW(m.check());
}

// Models check the blocks that families make.
TEST(CombinationsOfParts, AreCheckedByTheModel) {
  const auto model_of = [](SelfAttention a) {
    CausalLm::Parts parts;
    DecoderBlock b;
    b.attention = std::move(a);
    parts.blocks.push_back(std::move(b));
    CausalLm model(std::move(parts));
  };
  EXPECT_NO_THROW(model_of(separate()));
  SelfAttention wrong = latent();
  wrong.gated = true;
  EXPECT_THROW(model_of(std::move(wrong)), InternalError);
}

}  // namespace
}  // namespace ft::test
