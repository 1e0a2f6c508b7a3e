// A prompt that two answers share is computed once, with the same loss and gradients as of two sequences, in
// every family, also with recomputation.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/models/golden_case.h"

namespace ft::test {
namespace {

using Ids = std::vector<std::int32_t>;

void add(Batch& b, const Ids& ids, std::size_t from) {
  for (std::size_t t = from; t < ids.size(); ++t) {
    b.input_ids.push_back(ids[t]);
    b.positions.push_back(std::int32_t(t));
  }
}

// Returns a batch of two sequences whose answers are targets. The first `share` tokens of the prompt occur
// only once.
Batch batch_of(const Ids& first, const Ids& second, std::size_t prompt, std::size_t share) {
  Batch b;
  add(b, first, 0);
  const auto own = std::int32_t(first.size());
  add(b, second, share);
  for (std::size_t t = prompt; t < first.size(); ++t) {
    b.target_rows.push_back(std::int32_t(t) - 1);
    b.targets.push_back(first[t]);
  }
  for (std::size_t t = prompt; t < second.size(); ++t) {
    b.target_rows.push_back(own + std::int32_t(t - share) - 1);
    b.targets.push_back(second[t]);
  }
  const auto rows = std::int32_t(b.input_ids.size());
  b.starts = share > 0 ? Ids{0, rows} : Ids{0, own, rows};
  if (share == 0) return b;
  for (std::int32_t r = 0; r < own; ++r) b.whole_rows.push_back(r);
  for (std::int32_t r = 0; r < std::int32_t(share); ++r) b.whole_rows.push_back(r);
  for (std::int32_t r = own; r < rows; ++r) b.whole_rows.push_back(r);
  b.whole_starts = {0, own, std::int32_t(b.whole_rows.size())};
  return b;
}

TEST(SharedPrompt, EqualsTwoSeparateSequences) {
  int tried = 0;
  for (const std::string& name : golden_names()) {
    const GoldenCase golden(name);
    const Batch& whole = golden.batches[0][0];
    if (!whole.source_ids.empty() || whole.input_ids.size() < 9) continue;  // encoder-decoders
    if (name.starts_with("lora-activated")) continue;                       // preferences do not go with it
    ++tried;
    Ids first(whole.input_ids.begin(), whole.input_ids.begin() + 8), second = first;
    second.resize(5);
    second.push_back(first[1]);
    second.push_back(first[3]);
    for (const std::int64_t recompute : {std::int64_t{0}, kAllBlocks}) {
      GoldenRun run(golden, {.recompute = recompute});
      const auto want = run.pass({batch_of(first, second, 5, 0)}),
                 got = run.pass({batch_of(first, second, 5, 4)});
      EXPECT_NEAR(got.loss, want.loss, 1e-6 * want.loss) << name;
      EXPECT_LT(nmse(got.gradients, want.gradients), 1e-12) << name;
    }
  }
  EXPECT_GT(tried, 5);
}

}  // namespace
}  // namespace ft::test
