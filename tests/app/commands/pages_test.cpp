// The documentation. Each example of settings is read, and the examples about optimizers are validated on a
// small model. docs/README.md links to every page of docs/, and each link of a page leads to a file and a
// heading that exist.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "app/config/config.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "engine/settings/fields.h"
#include "tests/app/outcome.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using namespace nlohmann::literals;

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

// Returns the paths of the pages of docs/, its index included.
std::vector<std::filesystem::path> pages_of_docs() {
  std::vector<std::filesystem::path> pages;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("docs")))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  return pages;
}

// Returns the lines of a page that are outside of fenced code.
std::vector<std::string> prose_lines(const std::filesystem::path& page) {
  std::istringstream text(read_file(page.string(), 1 << 20));
  std::vector<std::string> lines;
  bool code = false;
  for (std::string line; std::getline(text, line);) {
    const bool fence = line.starts_with("```");
    if (fence) code = !code;
    if (!fence && !code) lines.push_back(line);
  }
  return lines;
}

// Returns the targets of a page's links, "FILE#HEADING" as written; links to other sites are left out.
std::set<std::string> links(const std::filesystem::path& page) {
  std::set<std::string> targets;
  for (const std::string& line : prose_lines(page))
    for (std::size_t at = line.find("]("); at != line.npos; at = line.find("](", at + 2)) {
      const std::string target = line.substr(at + 2, line.find(')', at) - at - 2);
      if (target.find("://") == target.npos) targets.insert(target);
    }
  return targets;
}

// Returns the anchors that GitHub gives a page's headings: lower case, hyphens for spaces, no other
// punctuation.
std::set<std::string> anchors(const std::filesystem::path& page) {
  std::set<std::string> all;
  for (const std::string& line : prose_lines(page)) {
    const std::size_t level = line.find_first_not_of('#');
    if (level == 0 || level == line.npos || line[level] != ' ') continue;
    std::string anchor;
    for (const char c : line.substr(level + 1)) {
      const auto byte = static_cast<unsigned char>(c);
      if (std::isalnum(byte) || c == '-' || c == '_') anchor += static_cast<char>(std::tolower(byte));
      if (c == ' ') anchor += '-';
    }
    all.insert(anchor);
  }
  return all;
}

TEST(Pages, TheIndexLinksEveryPageOfDocs) {
  const std::filesystem::path index = source_path("docs/README.md");
  std::set<std::string> linked;
  for (const std::string& target : links(index)) linked.insert(target.substr(0, target.find('#')));
  const auto pages = pages_of_docs();
  EXPECT_GT(pages.size(), 25u);
  for (const std::filesystem::path& page : pages)
    EXPECT_TRUE(page == index || linked.contains(page.filename().string()))
        << "docs/README.md has no link to " << page.filename();
  EXPECT_TRUE(links(source_path("README.md")).contains("docs/README.md"));
}

TEST(Pages, LinksLeadToFilesAndHeadings) {
  std::vector<std::filesystem::path> pages = pages_of_docs();
  for (const char* page : {"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "configs/README.md",
                           "bench/results/h200.md"})
    pages.emplace_back(source_path(page));
  for (const std::filesystem::path& page : pages)
    for (const std::string& target : links(page)) {
      const std::size_t hash = target.find('#');
      const std::string file = target.substr(0, hash);
      const std::filesystem::path to = file.empty() ? page : page.parent_path() / file;
      EXPECT_TRUE(std::filesystem::exists(to)) << page << " links to " << target << ", which does not exist";
      if (hash != target.npos && std::filesystem::is_regular_file(to)) {
        EXPECT_TRUE(anchors(to).contains(target.substr(hash + 1))) << page << ": no heading for " << target;
      }
    }
}

TEST(Pages, ExamplesOfSettingsAreRead) {
  std::vector<std::string> pages{source_path("README.md")};
  for (const std::filesystem::path& page : pages_of_docs()) pages.push_back(page.string());
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

// The first run that a person makes is short: it has an evaluation and a checkpoint in every epoch.
TEST(Pages, TheFirstRunEvaluatesAndSavesEveryEpoch) {
  for (const char* page :
       {"README.md", "docs/tutorial_real_model.md", "docs/tutorial_chat_cpu.md", "docs/tutorial_qlora.md"}) {
    int runs = 0;
    for (const std::string& block : json_blocks(source_path(page))) {
      const Json settings = Json::parse(block, nullptr, false);
      if (!is_settings(settings)) continue;
      ++runs;
      EXPECT_EQ(settings.value("/evaluation/eval_strategy"_json_pointer, ""), "epoch") << page;
      EXPECT_EQ(settings.value("/checkpointing/save_strategy"_json_pointer, ""), "epoch") << page;
    }
    EXPECT_GT(runs, 0) << page;
  }
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

// Returns "Suite.Name" of every test in the sources below tests/.
std::vector<std::string> names_of_tests() {
  std::vector<std::string> all;
  const std::regex test(R"(TEST(?:_F|_P)?\((\w+),\s*(?:DISABLED_)?(\w+)\))");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_path("tests"))) {
    if (!entry.path().string().ends_with("_test.cpp")) continue;
    const std::string text = read_file(entry.path().string(), 1 << 20);
    for (std::sregex_iterator m(text.begin(), text.end(), test), end; m != end; ++m)
      all.push_back((*m)[1].str() + "." + (*m)[2].str());
  }
  return all;
}

TEST(PageOfReliability, NamesTestsThatExist) {
  const std::vector<std::string> tests = names_of_tests();
  const std::string page = read_file(source_path("docs/reliability.md"), 1 << 20);
  const std::regex named(R"(`([A-Z]\w+\.\w*)(\*?)`)");
  int names = 0;
  for (std::sregex_iterator m(page.begin(), page.end(), named), end; m != end; ++m, ++names) {
    const std::string name = (*m)[1];
    const bool begins = (*m)[2].length() > 0;
    EXPECT_TRUE(std::any_of(tests.begin(), tests.end(), [&](const std::string& t) {
      return begins ? t.starts_with(name) : t == name;
    })) << name;
  }
  EXPECT_GT(names, 15);
}

}  // namespace
}  // namespace ft
