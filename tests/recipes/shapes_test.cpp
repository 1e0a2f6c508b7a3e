// Shapes equal the published models'.
#include "tests/recipes/shapes.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/source.h"

namespace ft {
namespace {

TEST(Shapes, HaveThePublishedNumberOfParameters) {
  for (const Published& model : kPublished) {
    const Json plan = least_plan(model.id, {"finetuning_type=full", "data.max_seq_length=64"});
    EXPECT_NEAR(plan["parameters"].get<double>() / static_cast<double>(model.parameters), 1, 1e-3)
        << model.id << " has " << plan["parameters"] << " parameters";
  }
}

TEST(Shapes, AreAllCounted) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("tests/recipes/shapes")))
    files += entry.path().extension() == ".json" ? 1u : 0u;
  EXPECT_EQ(files, kPublished.size());
}

}  // namespace
}  // namespace ft
