// Places of experts' matrices in the tensors of a model's files.
#include "engine/files/safetensors/stacks.h"

#include <gtest/gtest.h>

#include "engine/core/error.h"

namespace ft {
namespace {

const std::vector<StoredStack> kStacks = {
    {".experts.gate_up", {".experts.%.gate.weight", ".experts.%.up.weight"}},
    {".experts.down", {".experts.%.down.weight"}},
    {".other.weight", {".same.weight"}}};

std::vector<TensorSpec> tensors() {
  std::vector<TensorSpec> all{{"embed.weight", DType::bf16, {7, 3}}};
  for (int e = 0; e < 11; ++e) {
    const std::string at = str("layers.1.experts.", e, ".");
    all.push_back({at + "gate.weight", DType::bf16, {2, 3}});
    all.push_back({at + "up.weight", DType::bf16, {2, 3}});
    all.push_back({at + "down.weight", DType::bf16, {3, 2}});
  }
  all.push_back({"layers.1.same.weight", DType::bf16, {3}});
  return all;
}

TEST(Stacks, JoinTheMatricesOfAllExperts) {
  const Stacks stacks(tensors(), kStacks);
  ASSERT_EQ(stacks.tensors().size(), 4u);
  EXPECT_EQ(stacks.tensors()[0].name, "embed.weight");
  EXPECT_EQ(stacks.tensors()[1].name, "layers.1.experts.gate_up");
  EXPECT_EQ(stacks.tensors()[1].shape, (Shape{11, 4, 3}));
  EXPECT_EQ(stacks.tensors()[1].dtype, DType::bf16);
  EXPECT_EQ(stacks.tensors()[2].shape, (Shape{11, 3, 2}));
  EXPECT_EQ(stacks.tensors()[3].name, "layers.1.same.weight");
  const Stacks::Place up = stacks.place_of("layers.1.experts.10.up.weight");
  EXPECT_EQ(up.tensor, "layers.1.experts.gate_up");
  EXPECT_EQ(up.first, (10 * 2 + 1) * 6);
  EXPECT_EQ(stacks.place_of("embed.weight").first, 0);
  const std::vector<TensorSpec>& parts = stacks.parts_of("layers.1.experts.gate_up");
  ASSERT_EQ(parts.size(), 22u);
  EXPECT_EQ(parts[3].name, "layers.1.experts.1.up.weight");
  EXPECT_EQ(parts[4].name, "layers.1.experts.2.gate.weight");
}

TEST(Stacks, WithoutDescriptionsAllTensorsStay) {
  const Stacks stacks(tensors(), {});
  EXPECT_EQ(stacks.tensors().size(), tensors().size());
  EXPECT_EQ(stacks.place_of("layers.1.experts.3.up.weight").tensor, "layers.1.experts.3.up.weight");
}

TEST(Stacks, AMissingExpertIsAMistakeOfFt) {
  std::vector<TensorSpec> all = tensors();
  all.erase(all.begin() + 4);
  EXPECT_THROW(Stacks(all, kStacks), InternalError);
}

}  // namespace
}  // namespace ft
