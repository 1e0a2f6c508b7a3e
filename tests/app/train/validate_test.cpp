// ft validate refuses mistakes that would end a run before its first step.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/files/json.h"
#include "tests/app/outcome.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

class Validate : public testing::Test {
 protected:
  Validate() {
    run_ = {
        {"model", {{"model_name_or_path", source_path("configs/demo/base")}}},
        {"data",
         {{"datasets", {{{"path", source_path("configs/demo/questions.jsonl")}}}}, {"max_seq_length", 64}}},
        {"training", {{"output_dir", folder_ / "out"}, {"max_steps", 1}}}};
  }
  Outcome validate(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"validate", "--config", folder_.write("run.json", run_.dump(1))};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  void refuses(const std::vector<std::string>& more, const std::string& what) {
    const Outcome o = validate(more);
    EXPECT_EQ(o.code, 2) << o.out << o.err;
    EXPECT_NE(o.err.find(what), std::string::npos) << o.err;
    EXPECT_EQ(o.out, "");
  }

  const test::TempFolder folder_;
  Json run_;
};

TEST_F(Validate, AcceptsAValidRun) {
  const Outcome o = validate();
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("run.json is fine\n"), std::string::npos) << o.out;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(Validate, DataThatARunRefuses) {
  const std::string path = "data.datasets[0].path=";
  refuses({path + folder_.write("empty.jsonl", "")}, "empty.jsonl");
  refuses({path + folder_.write("other.jsonl", "{\"one\": 1, \"two\": 2}\n")}, "other.jsonl:1");
  refuses({path + folder_.write("broken.jsonl", "{\"prompt\": \"a\", \"response\": \"b\"}\n{\"prompt\n")},
          "broken.jsonl:2");
  refuses({"data.datasets[0].columns={\"prompt\": \"no such column\"}"}, "cannot tell the type of the rows");
}

TEST_F(Validate, ModelsThatARunRefuses) {
  refuses({"training.param_groups=[{\"params\": \"no such weight\"}]"}, "no such weight");
  refuses({"training.pipeline=1"}, "training.pipeline: no such setting");
  const std::string ltd = "data_efficiency.data_routing.random_ltd.";
  refuses(
      {"data_efficiency.enabled=true", "data_efficiency.data_routing.enabled=true", ltd + "enabled=true",
       ltd + "total_layer_num=22", ltd + "random_ltd_layer_num=2", ltd + "random_ltd_layer_id=[0,1]",
       ltd + "model_type=decoder",
       ltd +
           "random_ltd_schedule={\"min_value\": 16, \"max_value\": 64, \"schedule_type\": \"fixed_linear\", "
           "\"schedule_config\": {\"require_steps\": 10, \"seq_per_step\": 16}}"},
      "22");
  std::filesystem::create_directories(folder_ / "bare");
  std::filesystem::copy(source_path("configs/demo/base/config.json"), folder_ / "bare/config.json");
  refuses({"model.model_name_or_path=" + (folder_ / "bare")}, "bare");
}

TEST_F(Validate, SettingsOfAnotherKindOfModel) {
  const std::string t5 = source_path("tests/golden/models/t5/");
  run_["model"]["model_name_or_path"] = t5 + "model";
  run_["data"] = {{"datasets", {{{"path", t5 + "samples.jsonl"}, {"type", "tokenized"}}}}};
  EXPECT_EQ(validate().code, 0);
  refuses({"data.packing=true"}, "data.packing: not for encoder-decoders");
  refuses({"training.neftune_noise_alpha=5"},
          "training.neftune_noise_alpha: not for encoder-decoders; leave it out");
}

TEST_F(Validate, MissingFilesHaveALine) {
  run_["data"]["datasets"][0]["path"] = source_path("configs/demo/question.jsonl");
  refuses({}, "questions.jsonl? (" + (folder_ / "run.json") + ":");
  refuses({"model.model_name_or_path=" + source_path("configs/demo/bose")}, "do you mean");
}

TEST_F(Validate, SettingsByTransformersNames) {
  refuses({"quantization.load_in_8bit=true"}, "load_in_4bit=true");
  EXPECT_EQ(validate({"quantization.load_in_8bit=false"}).code, 0);
  for (const std::string word : {"flash_attention_2", "sdpa"})
    EXPECT_EQ(validate({"model.attn_implementation=" + word}).code, 0) << word;
}

TEST_F(Validate, ShowsTheNotesOfARun) {
  const Outcome o = validate({"data.shuffle_buffer_size=7"});
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(o.err.find("data.shuffle_buffer_size is for data.streaming"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace ft
