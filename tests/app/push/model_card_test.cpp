// The card that a pushed model gets.
#include "app/push/model_card.h"

#include <gtest/gtest.h>

#include "engine/core/base64.h"
#include "tests/app/push/push_place.h"

namespace ft::test {
namespace {

struct ModelCard : PushPlace {
  std::string card(const std::string& base = "org/base") {
    return hub::model_card(folder(),
                           {.id = "org/tiny", .base_model = base, .cache = scratch.folder() / "hub"});
  }
};

TEST_F(ModelCard, OfAnAdapter) {
  write("run.json", R"({"objective": {"type": "dpo"}, "training": {"learning_rate": 0.0002},
                        "data": {"datasets": [{"path": "org/rows"}, {"path": "/home/me/rows.jsonl"}]}})");
  write("trainer_state.json",
        R"({"global_step": 75, "log_history": [{"loss": 1.4}, {"loss": 0.644}, {"eval_loss": 0.701}]})");
  const fs::path base = scratch.folder() / "hub/models--org--base";
  fs::create_directories(base / "snapshots/abc");
  fs::create_directories(base / "refs");
  std::ofstream(base / "refs/main") << "abc";
  std::ofstream(base / "snapshots/abc/README.md") << "---\nlicense: apache-2.0\n---\n# Base\n";
  EXPECT_EQ(
      card(),
      "---\n"
      "base_model: \"org/base\"\n"
      "base_model_relation: adapter\n"
      "library_name: peft\n"
      "license: \"apache-2.0\"\n"
      "datasets:\n- \"org/rows\"\n"
      "tags:\n- \"ft\"\n- \"lora\"\n- \"dpo\"\n"
      "---\n"
      "\n# tiny\n\nThis adapter was trained with ft, from [org/base](https://huggingface.co/org/base).\n"
      "\n## Training\n\n| | |\n|---|---|\n"
      "| objective | dpo |\n| rank of LoRA | 8 |\n| learning rate | 2.0e-04 |\n"
      "| steps | 75 |\n| last loss | 0.644 |\n| last loss on held-out data | 0.701 |\n"
      "\n## Use\n\n```\nft pull org/tiny\nft pull org/base\n"
      "ft chat --model org/base --adapter org/tiny\n```\n");
}

TEST_F(ModelCard, OfAModelAndOfGguf) {
  fs::remove_all(folder());
  write("config.json", R"({"_name_or_path": "org/base"})");
  EXPECT_EQ(hub::base_model_of(folder()), "org/base");
  EXPECT_NE(card().find("base_model_relation: finetune\nlibrary_name: transformers\n"), std::string::npos);
  fs::remove_all(folder());
  write("tiny-Q4_K_M.gguf", "GGUF");
  EXPECT_NE(card().find("base_model_relation: quantized\nlibrary_name: gguf\n"), std::string::npos);
  EXPECT_NE(card("").find("---\nlibrary_name: gguf\ntags:\n"), std::string::npos) << card("");
}

TEST_F(ModelCard, BrokenFilesAreNotItsSource) {
  for (const char* name : {"run.json", "trainer_state.json"}) write(name, "{not JSON");
  EXPECT_NE(card().find("|---|---|\n| rank of LoRA | 8 |\n\n## Use"), std::string::npos) << card();
}

TEST(HubIds, OfModelsAsRunsNameThem) {
  EXPECT_EQ(hub::id_of_model("org/name"), "org/name");
  EXPECT_EQ(hub::id_of_model("/x/hub/models--org--name/snapshots/abc"), "org/name");
  for (const char* name : {"", "name", "/home/me/name", "a/b/c", "models--/x"})
    EXPECT_EQ(hub::id_of_model(name), "");
}

TEST(Base64, OfRfc4648) {
  const std::pair<const char*, const char*> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"},
                                                       {"\xff\xfe", "//4="}};
  for (const auto& [bytes, text] : cases) EXPECT_EQ(base64(bytes), text);
}

}  // namespace
}  // namespace ft::test
