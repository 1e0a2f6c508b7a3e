// Random-LTD against transformers: loss and gradients of models whose second block gets only some tokens of
// each sequence (tests/golden/random_ltd.json), and recomputation with the same tokens. On the CPU, and on
// CUDA.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/layers/picked_rows.h"
#include "tests/models/golden_case.h"
#include "tests/support/source.h"

namespace ft::test {
namespace {

// Returns the norm, and the dot products with two waves, as in the golden file.
Values summary(const Values& g) {
  double squares = 0, sine = 0, cosine = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    squares += g[i] * g[i];
    sine += g[i] * std::sin(static_cast<double>(i) + 1);
    cosine += g[i] * std::cos(1.7 * static_cast<double>(i));
  }
  return {std::sqrt(squares), sine, cosine};
}

// Returns the picked rows of each sequence, counted from its start.
std::vector<std::vector<std::int32_t>> picks(const Batch& b, const Json& row) {
  const bool encoder = row["encoder"];
  const auto& kept = encoder ? b.kept_source_starts : b.kept_starts;
  const Random random = Random{}.with("random_ltd").with(row["stack"].get<std::string>() + ".1");
  const PickedRows picked = pick_rows(encoder ? b.source_starts : b.starts, kept, random);
  std::vector<std::vector<std::int32_t>> of;
  for (std::size_t s = 1; s < kept.size(); ++s)
    of.emplace_back(picked.positions.begin() + kept[s - 1], picked.positions.begin() + kept[s]);
  return of;
}

TEST(RandomLtd, IsTransformersWithTheSameTokens) {
  const Json file = read_json(source_path("tests/golden/random_ltd.json"));
  ASSERT_EQ(file["cases"].size(), 3u);
  for (const Json& row : file["cases"]) {
    const std::string what = row["stack"];
    const GoldenCase golden(row["golden"]);
    const Dropping dropping{row["encoder"], row["most"]};
    const Batch batch = dropping.of(GoldenCase::join(golden.batches[0]));
    EXPECT_EQ(picks(batch, row), row["picked"].get<std::vector<std::vector<std::int32_t>>>()) << what;
    const auto got = GoldenRun(golden, {.dropping = dropping}).pass({batch});
    const double loss = row["loss"];
    EXPECT_NEAR(got.loss, loss, 2e-6 * loss) << what;
    EXPECT_EQ(got.gradients.size(), row["gradients"].size());
    for (const auto& [name, want] : row["gradients"].get<Named>()) {
      ASSERT_TRUE(got.gradients.contains(name)) << name;
      const Values sums = summary(got.gradients.at(name));
      for (std::size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(sums[i], want[i], 2e-5 * want[0]) << what << " " << name << " " << i;
    }
    const auto again = GoldenRun(golden, {.recompute = kAllBlocks, .dropping = dropping}).pass({batch});
    EXPECT_EQ(again.gradients, got.gradients) << what;
    const auto whole = GoldenRun(golden, {}).pass({GoldenCase::join(golden.batches[0])});
    EXPECT_GT(std::abs(whole.loss - got.loss), 1e-4) << "it drops nothing";
  }
}

}  // namespace
}  // namespace ft::test
