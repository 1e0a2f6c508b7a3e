// Kinds of adapters other than LoRA: their adapter_config.json, refusals, initial values and merges.
#include "lora/kinds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "engine/ops/ops.h"
#include "lora/linear_adapter.h"
#include "lora/oft.h"
#include "lora/peft_config.h"
#include "lora/shira.h"
#include "tests/engine/files/temp_folder.h"

namespace ft::lora {
namespace {

using test::error_of;
using test::TempFolder;

class PeftKind : public testing::Test {
 protected:
  AdapterConfig read(const std::string& keys) {
    return read_adapter_config(folder.write("a.json", R"({"target_modules": ["q_proj"], )" + keys + "}"),
                               Exit::input);
  }
  std::string says(const std::string& keys) {
    const std::string error = error_of([&] { read(keys); }), prefix = "3 " + folder / "a.json: ";
    return error.starts_with(prefix) ? error.substr(prefix.size()) : error;
  }
  TempFolder folder;
};

TEST_F(PeftKind, MissIsReadAndWrittenWithItsOwnKeys) {
  const auto [c, base, warnings] =
      read(R"("peft_type": "MISS", "r": 6, "miss_dropout": 0.25, "bias": "MiSS_only", "init_weights": false,
              "mini_r": 1, "layers_to_transform": [1], "layers_pattern": "layers")");
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(c.peft_type, &kinds::kMiss);
  EXPECT_EQ(c.r, 6);
  EXPECT_EQ(c.lora_dropout, 0.25);
  EXPECT_EQ(c.bias, LoraBias::lora_only);
  EXPECT_EQ(c.init_lora_weights, LoraInitWord(LoraInit::random_b));
  EXPECT_EQ(c.layers_to_transform, (std::vector<std::int64_t>{1}));
  const Json written = parse_json(adapter_config_text(c, {}, "base"), {"a"});
  for (const auto& [key, value] : {std::pair<const char*, Json>{"peft_type", "MISS"},
                                   {"miss_dropout", 0.25},
                                   {"bias", "MiSS_only"},
                                   {"init_weights", false},
                                   {"mini_r", 1},
                                   {"base_model_name_or_path", "base"}})
    EXPECT_EQ(written.value(key, Json()), value) << key;
  EXPECT_FALSE(written.contains("lora_alpha") || written.contains("lora_dropout"));
  EXPECT_EQ(read(R"("peft_type": "MISS")").lora.r, 64);  // PEFT's default
}

// PEFT's HiRA has a rank_pattern, and does not look at it.
TEST_F(PeftKind, HiraHasOneRankAndNoBiases) {
  const LoraConfig c =
      read(R"("peft_type": "HIRA", "hira_dropout": 0.5, "rank_pattern": {}, "init_weights": "gaussian")")
          .lora;
  EXPECT_EQ(c.r, 32);  // PEFT's default
  EXPECT_EQ(c.init_lora_weights, LoraInitWord(LoraInit::gaussian));
  const Json written = parse_json(adapter_config_text(c, {.inputs_first = true}, ""), {"a"});
  EXPECT_EQ(written["hira_dropout"], 0.5);
  EXPECT_EQ(written["fan_in_fan_out"], true);
  EXPECT_EQ(written["init_weights"], "gaussian");
  EXPECT_FALSE(written.contains("bias") || written.contains("alpha_pattern"));
}

TEST_F(PeftKind, ShiraHasASeedAndNeitherBiasesNorDropout) {
  const LoraConfig c = read(R"("peft_type": "SHIRA", "random_seed": 7, "mask_type": "random")").lora;
  EXPECT_EQ(c.peft_type, &kinds::kShira);
  EXPECT_EQ(c.r, 32);  // PEFT's default
  EXPECT_EQ(c.random_seed, 7);
  const Json written = parse_json(adapter_config_text(c, {}, ""), {"a"});
  EXPECT_EQ(written["random_seed"], 7);
  EXPECT_EQ(written["mask_type"], "random");
  EXPECT_FALSE(written.contains("bias") || written.contains("exclude_modules"));
  EXPECT_TRUE(
      parse_json(adapter_config_text(read(R"("peft_type": "SHIRA")").lora, {}, ""), {"a"})["random_seed"]
          .is_null());
  LoraConfig lora;
  EXPECT_FALSE(parse_json(adapter_config_text(lora, {}, ""), {"a"}).contains("random_seed"));
  EXPECT_EQ(says(R"("peft_type": "SHIRA", "random_seed": -1)").substr(0, 11), "random_seed");
}

TEST_F(PeftKind, OtherVariantsAndKindsAreRefused) {
  EXPECT_EQ(says(R"("peft_type": "MISS", "init_weights": "bat")"),
            "init_weights must be true or false: ft has no other variants of MiSS, is \"bat\"");
  EXPECT_EQ(says(R"("peft_type": "MISS", "miss_dropout": 1)"),
            "miss_dropout must be at least 0 and below 1, is 1");
  EXPECT_EQ(says(R"("peft_type": "MISS", "bias": "lora_only")"),
            "bias must be none, all or MiSS_only, is \"lora_only\"");
  const auto warnings = read(R"("peft_type": "MISS", "use_dora": true)").warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with(folder / "a.json: use_dora is not a setting of MiSS")) << warnings[0];
}

TEST_F(PeftKind, OftHasBlocksAndNoRank) {
  const std::string oft = R"("peft_type": "OFT", "peft_version": "0.21.2")";
  const auto [c, base, warnings] = read(oft + R"(, "r": 0, "oft_block_size": 8, "block_share": true,
              "num_cayley_neumann_terms": 3, "bias": "oft_only", "coft": false, "eps": 1e-3)");
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(c.peft_type, &kinds::kOft);
  EXPECT_EQ(c.oft_block_size, 8);
  EXPECT_EQ(c.num_cayley_neumann_terms, 3);
  EXPECT_TRUE(c.block_share);
  EXPECT_EQ(c.bias, LoraBias::lora_only);
  const Json written = parse_json(adapter_config_text(c, {}, ""), {"a"});
  for (const auto& [key, value] : {std::pair<const char*, Json>{"r", 0},
                                   {"oft_block_size", 8},
                                   {"block_share", true},
                                   {"num_cayley_neumann_terms", 3},
                                   {"use_cayley_neumann", true},
                                   {"bias", "oft_only"}})
    EXPECT_EQ(written.value(key, Json()), value) << key;
  EXPECT_EQ(read(oft).lora.oft_block_size, 32);  // PEFT's default
  EXPECT_EQ(read(oft).lora.num_cayley_neumann_terms, 5);
}

TEST_F(PeftKind, OftsOtherVariantsAreRefused) {
  const std::string oft = R"("peft_type": "OFT", )", no = ": ft has no other variants of OFT, is ";
  EXPECT_EQ(says(oft + R"("r": 4, "oft_block_size": 0)"), "r must be 0" + no + "4");
  EXPECT_EQ(says(oft + R"("coft": true)"), "coft must be false" + no + "true");
  EXPECT_EQ(says(oft + R"("module_dropout": 0.5)"), "module_dropout must be 0.0" + no + "0.5");
  EXPECT_EQ(says(oft + R"("use_cayley_neumann": false)"), "use_cayley_neumann must be true" + no + "false");
  EXPECT_EQ(says(oft + R"("oft_block_size": 1)").substr(0, 14), "oft_block_size");
  const auto old = read(R"("peft_type": "OFT")").warnings;
  ASSERT_EQ(old.size(), 1u);
  EXPECT_NE(old[0].find("was written by PEFT before 0.18"), std::string::npos) << old[0];
}

// PEFT's adjust_oft_parameters chooses the same.
TEST(OftBlocks, AreTheNearestThatDivideTheInputs) {
  for (const auto& [in, wanted, got] : {std::array{24, 4, 4},
                                        {24, 5, 4},
                                        {24, 7, 6},
                                        {24, 10, 8},
                                        {24, 11, 12},
                                        {24, 24, 24},
                                        {24, 32, 24},
                                        {13, 5, 1},
                                        {13, 10, 13}})
    EXPECT_EQ(oft_block(in, wanted), got) << in << " " << wanted;
}

std::unique_ptr<LinearAdapter> made(const AdapterKind& kind, std::int64_t in, std::int64_t out,
                                    std::int64_t rank) {
  return kind.make({}, {"base_model.model.x", in, out, rank, 2, 0, DType::f32});
}

std::vector<float> initial(const LinearAdapter& l, const Parameter& p, LoraInit init, std::int64_t first,
                           std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  l.initialize(p, init, Random{5}, Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, {count}),
               first);
  return values;
}

TEST(MissStart, IsZeroOrUniformWithin1OverTheRootOfItsOutputs) {
  const auto l = made(kinds::kMiss, 12, 25, 8);
  Parameter& m = *l->trained()[0];
  EXPECT_EQ(m.name, "base_model.model.x.miss_block");
  EXPECT_EQ(m.shape, (Shape{8, 25}));
  EXPECT_EQ(initial(*l, m, LoraInit::kaiming, 0, 200), std::vector<float>(200));
  const auto all = initial(*l, m, LoraInit::random_b, 0, 200),
             part = initial(*l, m, LoraInit::random_b, 50, 9);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 50));
  const auto [least, most] = std::ranges::minmax(all);
  EXPECT_TRUE(least >= -0.2f && least < -0.17f && most <= 0.2f && most > 0.17f) << least << " " << most;
}

TEST(HiraStart, IsPefts) {
  const auto l = made(kinds::kHira, 25, 12, 8);
  Parameter &a = *l->trained()[0], &b = *l->trained()[1];
  EXPECT_EQ(a.name, "base_model.model.x.hira_A");
  EXPECT_EQ(b.shape, (Shape{12, 8}));
  const auto deviation = [&](const Parameter& p, LoraInit init) {
    double squares = 0;
    for (const float v : initial(*l, p, init, 0, p.shape.numel())) squares += v * v;
    return std::sqrt(squares / double(p.shape.numel()));
  };
  EXPECT_NEAR(deviation(a, LoraInit::kaiming), 0.2 / std::sqrt(3.0), 0.02);  // uniform within 1 / sqrt(in)
  EXPECT_NEAR(deviation(a, LoraInit::gaussian), 1.0 / 8, 0.02);
  EXPECT_NEAR(deviation(a, LoraInit::random_b), 1, 0.15);
  EXPECT_NEAR(deviation(b, LoraInit::random_b), 1, 0.2);
  for (const LoraInit zero : {LoraInit::kaiming, LoraInit::gaussian}) EXPECT_EQ(deviation(b, zero), 0);
}

TEST(OftStart, IsZeroOrNormal) {
  LoraConfig c;
  c.oft_block_size = 16;
  const auto l = kinds::kOft.make(c, {"base_model.model.x", 48, 5, 8, 2, 0, DType::bf16});
  Parameter& above = *l->trained()[0];
  EXPECT_EQ(above.name, "base_model.model.x.oft_R.weight");
  EXPECT_EQ(above.shape, (Shape{3, 120}));
  EXPECT_EQ(above.dtype, DType::f32);
  EXPECT_EQ(initial(*l, above, LoraInit::kaiming, 0, 360), std::vector<float>(360));
  double squares = 0;
  for (const float v : initial(*l, above, LoraInit::random_b, 0, 360)) squares += v * v;
  EXPECT_NEAR(std::sqrt(squares / 360), 0.1, 0.015);
}

// For n = 2 and Q = (0 q; -q 0), Q^2 = -q^2 I.
TEST(OftMerge, RotatesTheInputsOfEachBlock) {
  LoraConfig c;
  c.oft_block_size = 2;
  const auto l = kinds::kOft.make(c, {"base_model.model.x", 4, 1, 8, 2, 0, DType::f32});
  std::vector<float> q{0.5f, -0.25f}, w{1, 2, 3, 4};
  const auto ops = make_ops({});
  const auto values = [&](const Parameter& p) {
    return Tensor(reinterpret_cast<std::byte*>(q.data()), DType::f32, p.shape);
  };
  l->merge(*ops, values, Tensor(reinterpret_cast<std::byte*>(w.data()), DType::f32, {1, 4}), false);
  for (const std::size_t block : {0, 1}) {
    const double a = double(q[block]), same = 1 - 2 * a * a + a * a * a * a, other = 2 * a - 2 * a * a * a;
    const double first = block == 0 ? 1 : 3, second = first + 1;
    EXPECT_NEAR(w[2 * block], same * first + other * second, 1e-6);
    EXPECT_NEAR(w[2 * block + 1], same * second - other * first, 1e-6);
  }
}

TEST(HiraMerge, MultipliesEachElement) {
  const std::int64_t in = 3, out = 2;
  const auto l = made(kinds::kHira, in, out, 1);
  std::vector<float> a{1, 2, 3}, b{10, 20};
  const auto ops = make_ops({});
  const auto values = [&](const Parameter& p) {
    auto& of = p.name.ends_with("A") ? a : b;
    return Tensor(reinterpret_cast<std::byte*>(of.data()), DType::f32, p.shape);
  };
  for (const bool turned : {false, true}) {
    std::vector<float> w(6, 0.5f);
    l->merge(
        *ops, values,
        Tensor(reinterpret_cast<std::byte*>(w.data()), DType::f32, turned ? Shape{in, out} : Shape{out, in}),
        turned);
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t i = 0; i < in; ++i)
        EXPECT_EQ(w[std::size_t(turned ? i * out + o : o * in + i)],
                  0.5f * (1 + float(10 * (o + 1) * (i + 1))));
  }
}

// The expected numbers are those of PEFT 0.21 with torch 2.11.
TEST(ShiraPlaces, ArePefts) {
  const auto places = [](std::optional<std::int64_t> seed) {
    LoraConfig c;
    c.random_seed = seed;
    const auto l = kinds::kShira.make(c, {"base_model.model.x", 4, 5, 1, 2, 0, DType::f32});
    return dynamic_cast<const ShiraAdapter&>(*l).draw();
  };
  using All = std::vector<std::int32_t>;
  EXPECT_EQ(places({}), (All{0, 0, 0, 2, 3, 3, 4, 4, 4, 0, 1, 3, 2, 1, 3, 1, 2, 3}));
  EXPECT_EQ(places(5), (All{0, 0, 2, 2, 2, 2, 3, 3, 4, 0, 3, 0, 1, 2, 3, 2, 3, 2}));
  EXPECT_EQ(places((std::int64_t{1} << 33) + 7), (All{0, 0, 1, 1, 2, 3, 3, 4, 4, 1, 3, 0, 3, 1, 0, 3, 1, 3}));
}

TEST(ShiraPlaces, FaultyOnesAreNamed) {
  const auto l = made(kinds::kShira, 3, 2, 1);
  std::vector<std::int32_t> all{0, 0, 0, 1, 1, 0, 1, 2, 0, 2};
  const auto fault = [&] {
    return l->fault_of(Tensor(reinterpret_cast<std::byte*>(all.data()), DType::i32, {2, 5}));
  };
  EXPECT_EQ(fault(), "");
  all[9] = 3;
  EXPECT_EQ(fault(), "place 4 is row 1 and column 3 of 2 x 3");
  all[9] = 0;
  EXPECT_EQ(fault(), "place 4 is not behind the one before it");
  all[0] = -1;
  EXPECT_EQ(fault(), "place 0 is row -1 and column 0 of 2 x 3");
}

TEST(ShiraStart, IsZeroOrNormal) {
  const auto l = made(kinds::kShira, 25, 12, 8);
  Parameter& values = *l->trained()[0];
  EXPECT_EQ(values.name, "base_model.model.x.shira_weight");
  EXPECT_EQ(values.shape, (Shape{296}));
  EXPECT_EQ(l->fixed()[0]->name, "base_model.model.x.shira_indices");
  EXPECT_EQ(l->fixed()[0]->shape, (Shape{2, 296}));
  EXPECT_EQ(initial(*l, values, LoraInit::kaiming, 0, 296), std::vector<float>(296));
  double squares = 0;
  for (const float v : initial(*l, values, LoraInit::random_b, 0, 296)) squares += v * v;
  EXPECT_NEAR(std::sqrt(squares / 296), 1, 0.15);
}

TEST(ShiraMerge, AddsTheValuesAtTheirPlaces) {
  const auto l = made(kinds::kShira, 3, 2, 1);
  std::vector<float> v{1, 2, 3, 4, 5}, w(6, 0.5f);
  std::vector<std::int32_t> places{0, 0, 1, 1, 1, 0, 2, 0, 1, 2};
  const auto ops = make_ops({});
  const auto values = [&](const Parameter& p) {
    return p.dtype == DType::i32 ? Tensor(reinterpret_cast<std::byte*>(places.data()), DType::i32, p.shape)
                                 : Tensor(reinterpret_cast<std::byte*>(v.data()), DType::f32, p.shape);
  };
  l->merge(*ops, values, Tensor(reinterpret_cast<std::byte*>(w.data()), DType::f32, {2, 3}), false);
  EXPECT_EQ(w, (std::vector<float>{1.5f, 0.5f, 2.5f, 3.5f, 4.5f, 5.5f}));
}

TEST(MissMerge, AddsItsRowsToTheColumnsWithTheSameRemainder) {
  const std::int64_t in = 7, out = 3, r = 2;
  const auto l = made(kinds::kMiss, in, out, r);
  std::vector<float> block{1, 2, 3, 10, 20, 30}, w(21, 0.5f);
  const auto ops = make_ops({});
  const auto values = [&](const Parameter& p) {
    return Tensor(reinterpret_cast<std::byte*>(block.data()), DType::f32, p.shape);
  };
  l->merge(*ops, values, Tensor(reinterpret_cast<std::byte*>(w.data()), DType::f32, {out, in}), false);
  for (std::int64_t o = 0; o < out; ++o)
    for (std::int64_t i = 0; i < in; ++i)
      EXPECT_EQ(w[std::size_t(o * in + i)], 0.5f + float(o + 1) * (i % 2 == 0 ? 1 : 10)) << o << " " << i;
}

}  // namespace
}  // namespace ft::lora
