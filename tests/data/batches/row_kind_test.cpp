// The kind of rows, by the names in the first of them.
#include "data/batches/row_kind.h"

#include <gtest/gtest.h>

#include "data/row_formats.h"
#include "tests/data/scratch.h"

namespace ft {
namespace {

TEST(KindOfRows, FollowsFromTheFirstRow) {
  const test::Scratch scratch;
  DataConfig data;
  data.datasets.resize(1);
  const auto kind = [&](const std::string& row, RowType type = &row_formats::kDetected) {
    scratch.write("t.jsonl", row + "\n");
    data.datasets[0].path = "t.jsonl";
    data.datasets[0].type = type;
    return kind_of_rows(data, data.datasets[0], {.base = scratch.folder()}, "data.datasets[0]");
  };
  EXPECT_EQ(kind(R"({"prompt": "a", "completion": "b"})"), RowKind::example);
  EXPECT_EQ(kind(R"({"messages": []})"), RowKind::example);
  EXPECT_EQ(kind(R"({"text": "a"})"), RowKind::example);
  EXPECT_EQ(kind(R"({"prompt": "a", "chosen": "b", "rejected": "c"})"), RowKind::pair);
  EXPECT_EQ(kind(R"({"chosen": [], "rejected": []})"), RowKind::pair);
  EXPECT_EQ(kind(R"({"prompt_ids": [1], "chosen_ids": [1], "rejected_ids": [2]})"), RowKind::pair);
  EXPECT_EQ(kind(R"({"prompt": "a", "completion": "b", "label": true})"), RowKind::labelled);
  EXPECT_EQ(kind(R"({"prompt_ids": [1], "completion_ids": [1], "reward": 2})"), RowKind::rollout);
  EXPECT_EQ(kind(R"({"prompt": "a"})"), RowKind::prompt);
  EXPECT_EQ(kind(R"({"colour": "a"})"), RowKind::example);
  EXPECT_EQ(kind(""), RowKind::example);
  EXPECT_EQ(kind(R"({"chosen": "b", "rejected": "c"})", &row_formats::kPreferenceChosen), RowKind::example);
}

}  // namespace
}  // namespace ft
