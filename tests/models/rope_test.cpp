// Inverse frequencies and attention factors of every position type, in both generations of config.json,
// against transformers (tests/golden/rope.json).
#include "models/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "engine/ops/null_ops.h"
#include "engine/pass/context.h"
#include "models/llama/config.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

Rope rope_of(const test::TempFolder& folder, Json json) {
  json["model_type"] = "llama";
  json["vocab_size"] = 10;
  json["intermediate_size"] = 16;
  json["num_hidden_layers"] = 1;
  return llama::read_config(folder.write("config.json", json_text(json))).rope;
}

TEST(Positions, EqualTransformers) {
  const Json golden = read_json(source_path("tests/golden/rope.json"));
  const test::TempFolder folder;
  for (const Json& row : golden["ropes"])
    for (const char* generation : {"config_v4", "config_v5"}) {
      SCOPED_TRACE(row[generation].dump());
      const Rope r = rope_of(folder, row[generation]);
      const auto got =
          inverse_frequencies(r, row["length"].is_null() ? 1 : row["length"].get<std::int64_t>());
      const auto want = row["inv_freq"].get<std::vector<double>>();
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(got[i], want[i], 1e-6 * want[i]) << i;  // a few f32 roundings
      EXPECT_NEAR(r.attention_factor, row["attention_scaling"].get<double>(), 1e-7);
    }
}

TEST(Positions, TableIsCosAndSinOfRoundedAngles) {
  const test::TempFolder folder;
  Json json = {{"hidden_size", 32}, {"num_attention_heads", 4}, {"max_position_embeddings", 64}};
  json["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}, {"attention_factor", 1.25}};
  const Rope r = rope_of(folder, json);
  const auto inv = inverse_frequencies(r, 50);
  Rotary rotary = make_rotary(r);
  for (const std::int64_t positions : {20, 50}) rotary.cover(positions);
  const RotaryTable& t = rotary.cover(30);  // has the largest length requested so far
  ASSERT_EQ(t.cos.size(), 50u * 4);
  for (std::size_t p = 0; p < 50; ++p)
    for (std::size_t i = 0; i < 4; ++i) {
      const double angle = static_cast<float>(p) * inv[i];
      EXPECT_NEAR(t.cos[p * 4 + i], 1.25 * std::cos(angle), 1e-7);
      EXPECT_NEAR(t.sin[p * 4 + i], 1.25 * std::sin(angle), 1e-7);
    }
}

// A plan counts the tables of any number of positions without making them. Then the first table takes memory
// for the longest planned batch.
TEST(Positions, APlanMakesNoTable) {
  const test::TempFolder folder;
  const Rope rope =
      rope_of(folder, {{"hidden_size", 32}, {"num_attention_heads", 4}, {"max_position_embeddings", 64}});
  NullOps null;
  constexpr std::int64_t kLength = std::int64_t{1} << 40, kEndless = std::int64_t{1} << 60;
  Arena saved(null.allocate(0), kEndless), scratch(null.allocate(0), kEndless);
  Ctx c{null, saved, scratch};
  Batch b;
  b.positions = b.input_ids = {0, 1, 2};
  b.starts = {0, 3};
  b.length = kLength;  // of all ranks
  Rotary planned = make_rotary(rope);
  EXPECT_EQ(planned.upload(c, b).cos.shape, (Shape{3, 4}));
  Rotary fresh = make_rotary(rope);
  fresh.expect(100);
  EXPECT_EQ(fresh.cover(20).cos.size(), 20u * 4);
  EXPECT_GE(fresh.cover(20).cos.capacity(), 100u * 4);
}

// Dynamic positions stretch the angles of a sequence that is longer than the training length, from its first
// position on.
TEST(Positions, ATableOfDynamicOnesIsOfItsLength) {
  const test::TempFolder folder;
  Json json = {{"hidden_size", 32}, {"num_attention_heads", 4}, {"max_position_embeddings", 64}};
  json["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 2.0}};
  const Rope r = rope_of(folder, json);
  Rotary rotary = make_rotary(r);
  for (const std::int64_t positions : {50, 60, 90, 80, 40}) {
    const RotaryTable& grown = rotary.cover(positions);
    Rotary other = make_rotary(r);
    const RotaryTable& fresh = other.cover(positions);
    ASSERT_GE(grown.cos.size(), fresh.cos.size());
    for (std::size_t i = 0; i < fresh.cos.size(); ++i) ASSERT_EQ(grown.cos[i], fresh.cos[i]) << positions;
  }
}

}  // namespace
}  // namespace ft
