// The list bench/gpu/every_kind.json, which `python3 bench/gpu --part 3` runs on a GPU, contains every choice
// of every setting, and no combination that ft refuses.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "engine/core/error.h"
#include "engine/files/json.h"
#include "models/registry.h"
#include "tests/app/config/config_text.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using namespace test;

const Json& listed() {
  static const Json json = Json::parse(std::ifstream(source_path("bench/gpu/every_kind.json")));
  return json;
}

// Returns the values that the listed kinds give a setting; each item of a list is a value.
std::set<std::string> values_of(const std::string& setting) {
  std::set<std::string> values;
  for (const Json& kind : listed()["kinds"])
    for (const std::string text : kind["set"]) {
      if (!text.starts_with(setting + "=")) continue;
      const std::string value = text.substr(setting.size() + 1);
      if (value.starts_with("["))
        for (const std::string one : Json::parse(value)) values.insert(one);
      else
        values.insert(value);
    }
  return values;
}

// Expects that the list contains the first word of each of the enum's values, except those in `besides`.
template <HasWords E>
void expect_all(const std::string& setting, const std::vector<E>& besides = {}) {
  const std::set<std::string> values = values_of(setting);
  for (const auto& [value, word] : words(E{}))
    if (std::find(besides.begin(), besides.end(), value) == besides.end()) {
      EXPECT_TRUE(values.contains(name_of(value))) << setting << "=" << name_of(value);
    }
}

TEST(EveryKind, HasAllChoices) {
  expect_all<Chosen<ObjectiveKind>>("objective.type");
  for (const std::string& loss : all_losses())
    EXPECT_TRUE(values_of("objective.loss_type").contains(loss)) << loss;
  expect_all<lora::LoraInit>("lora.init_lora_weights");
  expect_all<Chosen<lora::AdapterKind>>("lora.peft_type", {&lora::kinds::kLora});
  expect_all<lora::LoraBias>("lora.bias", {lora::LoraBias::none});
  expect_all<Optim>("training.optim");
  expect_all<BlockFormat>("training.qat");
  expect_all<OffloadDevice>("zero_optimization.offload_optimizer.device", {OffloadDevice::none});
  expect_all<OffloadDevice>("zero_optimization.offload_param.device", {OffloadDevice::none});
  expect_all<SparsityMode>("model.sparse_attention.mode", {SparsityMode::dense});
  for (const char* way : {"false", "true", "auto", "offload"})
    EXPECT_TRUE(values_of("training.gradient_checkpointing").contains(way)) << way;
}

std::string model_type(const std::string& family) {
  const std::string file = source_path("tests/golden/models/" + family + "/model/config.json");
  return Json::parse(std::ifstream(file))["model_type"];
}

TEST(EveryKind, HasAllFamilies) {
  std::set<std::string> made, trained;
  for (const std::string family : listed()["families"]) made.insert(model_type(family));
  for (const Json& kind : listed()["kinds"]) trained.insert(model_type(kind.value("model", "llama")));
  const TempFolder folder;
  std::ofstream(folder / "config.json") << R"({"model_type": "unknown"})";
  std::string known;
  try {
    make_model(folder / "config.json", DType::f32);
  } catch (const UserError& e) {
    known = e.what();
  }
  const std::string start = "supported are ";
  const std::size_t begin = known.find(start) + start.size(), end = known.find(" (model_type)");
  ASSERT_LT(end, known.size()) << known;
  // Files of models with more parts: their text model is another of the types.
  const std::set<std::string> outer{"qwen3_5", "qwen3_5_moe", "gemma4"};
  std::istringstream types(known.substr(begin, end - begin));
  for (std::string type; types >> type;) {
    std::erase(type, ',');
    if (outer.contains(type)) continue;
    EXPECT_TRUE(made.contains(type)) << type;
    EXPECT_TRUE(trained.contains(type)) << type;
  }
}

TEST(EveryKind, IsAConfiguration) {
  std::set<std::string> names;
  for (const Json& kind : listed()["kinds"]) {
    EXPECT_TRUE(names.insert(kind["name"]).second) << kind["name"] << " is there twice";
    EXPECT_NO_THROW(parsed("", kind["set"].get<std::vector<std::string>>())) << kind;
  }
}

}  // namespace
}  // namespace ft
