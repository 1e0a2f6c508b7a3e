// model.download: models, tokenizers and data sets are fetched if they are missing.
#include "app/config/missing_ids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "engine/core/environment.h"
#include "tests/app/config/config_text.h"
#include "tests/app/hub/hub_server.h"
#include "tests/data/scratch.h"

namespace ft::test {
namespace {

namespace fs = std::filesystem;

struct MissingIds : testing::Test {
  MissingIds() {
    set_variable("HF_HUB_CACHE", scratch.folder().string());
    set_variable("HF_ENDPOINT", server.endpoint());
    server.repositories["models/org/tiny"].files = {{"config.json", {R"({"model_type": "llama"})"}},
                                                    {"model.safetensors", {"weights", true}}};
  }
  ~MissingIds() override {
    set_variable("HF_HUB_CACHE", "");
    set_variable("HF_ENDPOINT", "");
  }
  RunConfig read(const std::string& further = "training.max_steps=1") {
    return parsed(
        "", {"model.model_name_or_path=org/tiny", "model.download=true", "logging.progress=none", further});
  }
  fs::path snapshot(const std::string& name) const {
    return scratch.folder() / ("models--org--" + name) / "snapshots" / std::string(40, 'a');
  }

  HubServer server;
  Scratch scratch;
};

TEST_F(MissingIds, AFetchedModelIsFound) {
  EXPECT_EQ(read().model.folder(), snapshot("tiny").string());
  const std::size_t asked = server.asked().size();
  EXPECT_GT(asked, 0u);
  read();
  EXPECT_EQ(server.asked().size(), asked);
}

TEST_F(MissingIds, ARefusedConfigurationFetchesNothing) {
  for (const char* wrong : {"evaluation.load_best_model_at_end=true", "training.optim_args={\"x\": 1}",
                            "training.lr_scheduler_kwargs={\"x\": 1}", "objective.loss_type=hinge"}) {
    EXPECT_NE(error_of(Exit::config, [&] { read(wrong); }), "") << wrong;
    EXPECT_TRUE(server.asked().empty()) << wrong;
  }
}

TEST_F(MissingIds, ASnapshotWithoutWeightsIsFetchedAgain) {
  const std::string place = "models--org--tiny/";
  scratch.write(place + "refs/main", std::string(40, 'a'));
  scratch.write(place + "snapshots/" + std::string(40, 'a') + "/config.json", R"({"model_type": "llama"})");
  read();
  EXPECT_TRUE(fs::exists(snapshot("tiny") / "model.safetensors"));
}

TEST_F(MissingIds, OfATokenizerNoWeightsAreFetched) {
  server.repositories["models/org/words"].files = {{"tokenizer.json", {"{}"}},
                                                   {"merges.txt", {"a b"}},
                                                   {"onnx/config.json", {"{}"}},
                                                   {"model.safetensors.index.json", {"{}"}},
                                                   {"model.safetensors", {"weights", true}}};
  const RunConfig config = read("model.tokenizer_name_or_path=org/words");
  EXPECT_EQ(config.model.tokenizer(), snapshot("words").string());
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(snapshot("words")))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"merges.txt", "tokenizer.json"}));
}

}  // namespace
}  // namespace ft::test
