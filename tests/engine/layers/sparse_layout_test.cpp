// Layouts of sparse attention against DeepSpeed's classes (tests/golden/sparse_layouts.json), properties of
// random blocks, and refused settings.
#include "engine/layers/attention/sparse_layout.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "engine/core/error.h"
#include "engine/settings/fields.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using enum AttentionDirection;

SparseAttentionConfig settings(const Json& json) {
  return read_settings<SparseAttentionConfig>(parse_settings(json.dump(), "run.json"), "");
}

std::string hexadecimal(const BlockLayout& layout, std::int64_t head) {
  std::ostringstream s;
  for (std::int64_t r = 0; r < layout.blocks(); ++r) {
    std::uint64_t bits = 0;
    for (std::int64_t c = 0; c < layout.blocks(); ++c) bits |= std::uint64_t{layout.keeps(head, r, c)} << c;
    s << (r ? " " : "") << std::hex << bits;
  }
  return s.str();
}

TEST(SparseLayout, EqualsDeepSpeeds) {
  const Json golden = read_json(source_path("tests/golden/sparse_layouts.json"));
  for (const Json& row : golden["cases"]) {
    SCOPED_TRACE(row.dump());
    Json j = row;
    for (const char* key : {"heads", "blocks", "layout"}) j.erase(key);
    j["max_seq_length"] = 16 * row["blocks"].get<std::int64_t>();
    const SparseAttentionConfig c = settings(j);
    const auto layout = make_layout(c, *c.attention, row["heads"].get<std::int64_t>());
    for (std::int64_t r = 0; r < layout.blocks(); ++r) EXPECT_TRUE(layout.keeps(0, r, r));
    for (std::size_t h = 0; h < row["layout"].size(); ++h)
      ASSERT_EQ(Json(hexadecimal(layout, layout.heads() > 1 ? static_cast<std::int64_t>(h) : 0)),
                row["layout"][h]);
  }
}

TEST(SparseLayout, HeadsThatDoNotDifferShareOne) {
  Json j = {{"mode", "bslongformer"}, {"different_layout_per_head", true}};
  EXPECT_EQ(make_layout(settings(j), bidirectional, 8).heads(), 1);
  j["mode"] = "bigbird";
  EXPECT_EQ(make_layout(settings(j), bidirectional, 8).heads(), 1);
  j["num_random_blocks"] = 2;
  EXPECT_EQ(make_layout(settings(j), bidirectional, 8).heads(), 8);
}

// Returns the blocks that random blocks add in each row.
std::vector<std::set<std::int64_t>> added(const Json& json, AttentionDirection direction) {
  Json without = json;
  without["num_random_blocks"] = 0;
  without.erase("seed");
  const BlockLayout layout = make_layout(settings(json), direction, 2),
                    plain = make_layout(settings(without), direction, 2);
  std::vector<std::set<std::int64_t>> rows;
  for (std::int64_t h = 0; h < layout.heads(); ++h)
    for (std::int64_t r = 0; r < layout.blocks(); ++r) {
      rows.emplace_back();
      for (std::int64_t c = 0; c < layout.blocks(); ++c) {
        EXPECT_TRUE(layout.keeps(h, r, c) || !plain.keeps(0, r, c));
        if (layout.keeps(h, r, c) && !plain.keeps(0, r, c)) rows.back().insert(c);
      }
    }
  return rows;
}

TEST(SparseLayout, RandomBlocksAreAFunctionOfTheSeed) {
  Json j = {{"mode", "variable"},
            {"num_random_blocks", 3},
            {"local_window_blocks", {1}},
            {"global_block_indices", Json::array()},
            {"max_seq_length", 16 * 50}};
  const auto rows = added(j, bidirectional);
  ASSERT_EQ(rows.size(), 50u);
  std::set<std::int64_t> all;
  for (const auto& row : rows) {
    EXPECT_LE(row.size(), 3u);
    EXPECT_GE(row.size(), 2u);  // one of the three may be the row's own block
    all.insert(row.begin(), row.end());
  }
  EXPECT_GT(all.size(), 40u);  // of 50 columns
  EXPECT_EQ(rows, added(j, bidirectional));
  j["different_layout_per_head"] = true;
  const auto heads = added(j, bidirectional);
  ASSERT_EQ(heads.size(), 100u);
  EXPECT_NE(heads[3], heads[53]);
  j["different_layout_per_head"] = false;
  j["seed"] = 7;
  EXPECT_NE(rows, added(j, bidirectional));
}

TEST(SparseLayout, RandomBlocksOfBigbirdAreInThePast) {
  const Json j = {{"mode", "bigbird"},
                  {"num_random_blocks", 2},
                  {"max_seq_length", 16 * 30},
                  {"num_sliding_window_blocks", 1}};
  const auto rows = added(j, unidirectional);
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (const std::int64_t c : rows[r]) EXPECT_LT(c, static_cast<std::int64_t>(r));
}

std::string refusal(const Json& json, AttentionDirection direction = bidirectional) {
  try {
    make_layout(settings(json), direction, 4);
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::config);
    return e.what();
  }
  return "accepted";
}

TEST(SparseLayout, MistakesAreNamed) {
  const std::string at = "model.sparse_attention.";
  EXPECT_EQ(refusal({{"mode", "fixed"}, {"block", 48}}), at + "block: must be 16, 32, 64 or 128, is 48");
  EXPECT_EQ(refusal({{"mode", "fixed"}, {"num_random_blocks", 1}}),
            at + "num_random_blocks: has no effect in mode fixed; modes that use it: variable, bigbird");
  EXPECT_EQ(refusal({{"mode", "bigbird"}, {"seed", 1}}),
            at + "seed: has no effect without num_random_blocks");
  EXPECT_EQ(refusal({{"mode", "fixed"}, {"num_global_blocks", 3}}),
            at + "num_local_blocks: 4 is not a multiple of num_global_blocks, which is 3");
  EXPECT_EQ(refusal({{"mode", "fixed"}, {"num_different_global_patterns", 2}}),
            at + "num_different_global_patterns: 2 needs different_layout_per_head=true");
  EXPECT_EQ(
      refusal({{"mode", "fixed"}, {"num_different_global_patterns", 5}, {"different_layout_per_head", true}}),
      at + "num_different_global_patterns: 5; a window of 4 blocks has 4 choices of 1");
  EXPECT_EQ(refusal({{"mode", "variable"}, {"global_block_end_indices", {1, 2}}}),
            at + "global_block_end_indices: there are 2 and 1 global_block_indices; give as many");
  EXPECT_EQ(refusal({{"mode", "variable"}, {"global_block_indices", {3}}, {"global_block_end_indices", {3}}}),
            at + "global_block_end_indices.0: 3 is not above global_block_indices.0, which is 3");
  EXPECT_EQ(refusal({{"mode", "bigbird"}, {"num_random_blocks", 9}, {"max_seq_length", 128}}),
            at + "num_random_blocks: 9; max_seq_length 128 has only 8 blocks");
  EXPECT_EQ(refusal({{"mode", "fixed"}, {"attention", "unidirectional"}}),
            at + "attention: the model's is bidirectional; leave it out");
  EXPECT_EQ(refusal({{"mode", "fixed"}, {"horizontal_global_attention", true}}, unidirectional),
            at + "horizontal_global_attention: the model's attention is unidirectional; leave it out");
  EXPECT_EQ(
      refusal({{"mode", "fixed"}, {"max_seq_length", 1 << 22}}),
      at + "max_seq_length: a layout of 262144 x 262144 blocks for each of 1 heads takes more than 1 GB; "
           "set a larger block");
}

}  // namespace
}  // namespace ft
