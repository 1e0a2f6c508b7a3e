// Examples of settings in the documentation: each is read. Those about optimizers are validated on a small
// model.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "app/config/config.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "engine/settings/fields.h"
#include "tests/app/outcome.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

// Returns the JSON blocks of a page, with braces added to blocks that lack them.
std::vector<std::string> json_blocks(const std::string& page) {
  const std::string text = read_file(page, 1 << 20), fence = "```json\n";
  std::vector<std::string> all;
  for (std::size_t at = text.find(fence); at != text.npos; at = text.find(fence, at)) {
    at += fence.size();
    const std::string block = text.substr(at, text.find("```", at) - at);
    all.push_back(block.starts_with('"') ? "{" + block + "}" : block);
  }
  return all;
}

bool is_settings(const Json& block) {
  std::set<std::string> sections;
  for (const Setting& s : describe<RunConfig>()) sections.insert(s.path.substr(0, s.path.find('.')));
  if (!block.is_object() || block.empty()) return false;
  for (const auto& [name, value] : block.items())
    if (!sections.contains(name)) return false;
  return true;
}

// Returns the settings with a model and data if the example leaves them out.
Json completed(Json settings, const std::string& output) {
  if (!settings.contains("model")) settings["model"]["model_name_or_path"] = source_path("configs/demo/base");
  Json& data = settings["data"];
  if (!data.contains("datasets")) {
    data["datasets"] = {{{"path", source_path("configs/demo/questions.jsonl")}}};
    data["max_seq_length"] = 64;
  }
  if (!settings["training"].contains("output_dir")) settings["training"]["output_dir"] = output;
  return settings;
}

TEST(Pages, ExamplesOfSettingsAreRead) {
  std::vector<std::string> pages{source_path("README.md")};
  for (const auto& entry : std::filesystem::directory_iterator(source_path("docs")))
    if (entry.path().extension() == ".md") pages.push_back(entry.path().string());
  int read = 0;
  for (const std::string& page : pages)
    for (const std::string& block : json_blocks(page)) {
      const Json settings = Json::parse(block, nullptr, false);
      if (settings.is_discarded() || !is_settings(settings)) continue;
      ++read;
      try {
        parse_config(completed(settings, "out").dump(), "page", "", {});
      } catch (const UserError& e) {
        ADD_FAILURE() << page << ": " << e.what() << "\n" << block;
      }
    }
  EXPECT_GT(read, 5);
}

TEST(Pages, ExamplesOfOptimizersAreFine) {
  const test::TempFolder folder;
  const auto blocks = json_blocks(source_path("docs/optimizers.md"));
  ASSERT_FALSE(blocks.empty());
  for (const std::string& block : blocks) {
    const Json settings = completed(Json::parse(block), folder / "out");
    const Outcome o = run({"validate", "--config", folder.write("run.json", settings.dump())});
    EXPECT_EQ(o.code, 0) << block << o.err;
  }
}

}  // namespace
}  // namespace ft
