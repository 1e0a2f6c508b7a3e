// A run that is resumed with other settings or files: refused, reported, or bit for bit the same.
#include <gtest/gtest.h>

#include <random>

#include "engine/files/file.h"
#include "engine/files/hash.h"
#include "engine/files/json.h"
#include "tests/life/program.h"

namespace ft::test {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kAdapter = "out/adapter_model.safetensors";

const Json kRun = {{"lora", {{"r", 4}, {"lora_dropout", 0.1}}},
                   {"training", {{"max_steps", 6}, {"num_train_epochs", 1}}},
                   {"logging", {{"progress", "plain"}}},
                   {"checkpointing", {{"save_strategy", "steps"}, {"save_steps", 3}}}};

// A run of six steps; resume() goes on from its third.
class Resumption : public testing::Test {
 protected:
  Resumption() {
    fs::copy(fs::canonical(w / "model"), w / "base", fs::copy_options::recursive);
    EXPECT_EQ(w.train({"model.model_name_or_path=base", "training.output_dir=first"}), 0) << w.says();
    fs::remove_all(w / "first/checkpoint-6");
    whole_ = contents(w / "first/adapter_model.safetensors");
    losses_ = losses(w / "first");
  }
  int resume(Words changed) const {
    fs::remove_all(w / "out");
    fs::copy(w / "first", w / "out", fs::copy_options::recursive);
    changed.insert(changed.begin(),
                   {"model.model_name_or_path=base", "training.resume_from_checkpoint=auto"});
    return w.train(changed);
  }
  bool has_result_of_whole() const { return contents(w / kAdapter) == whole_; }
  bool equals_whole() const { return has_result_of_whole() && losses(w / "out") == losses_; }
  bool says(const std::string& text) const { return w.says().find(text) != std::string::npos; }

  // Copies the base; if `other`, changes the last byte of its weights.
  void copy_base(const std::string& to, bool other) const {
    fs::copy(w / "base", w / to, fs::copy_options::recursive);
    if (!other) return;
    const fs::path file = w / to / "model.safetensors";
    std::string bytes = contents(file);
    bytes[bytes.size() - 1] = static_cast<char>(bytes[bytes.size() - 1] ^ 1);
    fs::remove(file);
    std::ofstream(file, std::ios::binary) << bytes;
  }

  Workplace w{"llama", kRun};

 private:
  std::string whole_;
  std::vector<double> losses_;
};

TEST_F(Resumption, AnotherFunctionOrOptimizerIsRefused) {
  copy_base("other", true);
  for (const char* changed :
       {"lora.lora_alpha=64", "lora.use_rslora=true", "lora.alpha_pattern={\"q_proj\": 4}",
        "lora.target_modules=[\"q_proj\"]", "training.optim=sgd", "training.optim=adamw_8bit",
        "training.bf16=true", "training.label_smoothing_factor=0.1", "data.chat_template=chatml",
        "finetuning_type=full", "model.model_name_or_path=other"}) {
    const std::string name = std::string(changed).substr(0, std::string(changed).find('='));
    EXPECT_EQ(resume({changed}), 4) << changed << "\n" << w.says();
    EXPECT_TRUE(says("  " + name + ": ")) << w.says();
    EXPECT_TRUE(says("training.resume_despite=" + name)) << w.says();
    EXPECT_FALSE(says("step 4")) << w.says();
  }
  EXPECT_EQ(resume({"lora.lora_alpha=64"}), 4);
  EXPECT_TRUE(says("lora.lora_alpha: 16 in checkpoint-3, 64 now\n")) << w.says();
}

TEST_F(Resumption, ChangesOnPurposeGoOn) {
  EXPECT_EQ(resume({"lora.lora_alpha=64", "training.resume_despite=lora_alpha"}), 0) << w.says();
  EXPECT_TRUE(says("lora.lora_alpha: 16 in checkpoint-3, 64 now; the run goes on")) << w.says();
  EXPECT_FALSE(equals_whole());
  EXPECT_EQ(resume({"training.optim=lion", "lora.use_rslora=true",
                    "training.resume_despite=[\"lora\", \"training.optim\"]"}),
            0)
      << w.says();
  EXPECT_EQ(resume({"training.optim=lion", "training.resume_despite=lora"}), 4);
}

TEST_F(Resumption, ChangesThatMayBeIntendedAreNamed) {
  std::ofstream(w / "other.jsonl") << contents(w / "train.jsonl") << contents(w / "train.jsonl");
  for (const char* changed :
       {"training.learning_rate=0.001", "training.lr_scheduler_type=linear", "training.weight_decay=0.1",
        "training.adam_beta2=0.99", "training.per_device_train_batch_size=2", "training.seed=7",
        "training.gradient_accumulation_steps=2", "training.max_steps=4", "training.max_steps=8",
        "data.shuffle=false", "data.max_seq_length=8", "data.datasets.0.path=other.jsonl",
        "data.datasets.0.max_samples=5", "lora.lora_dropout=0"}) {
    const std::string name = std::string(changed).substr(0, std::string(changed).find('='));
    EXPECT_EQ(resume({changed}), 0) << changed << "\n" << w.says();
    EXPECT_TRUE(says(name + ": ")) << changed << "\n" << w.says();
  }
  EXPECT_EQ(resume({"training.learning_rate=0.001"}), 0);
  EXPECT_TRUE(says("training.learning_rate: 0.003 in checkpoint-3, 0.001 now; ")) << w.says();
  EXPECT_EQ(resume({"training.max_steps=2"}), 0);
  EXPECT_TRUE(says("the run is to have 2 steps and the checkpoint has done 3")) << w.says();
}

TEST_F(Resumption, FilesThatChangeUnderTheirNamesAreNoticed) {
  std::ofstream(w / "train.jsonl", std::ios::app) << contents(w / "train.jsonl");
  EXPECT_EQ(resume({}), 0) << w.says();
  EXPECT_TRUE(says("train.jsonl\": its files have changed since checkpoint-3")) << w.says();
  copy_base("other", true);
  fs::remove_all(w / "base");
  fs::rename(w / "other", w / "base");
  EXPECT_EQ(resume({}), 4);
  EXPECT_TRUE(says("base\": its files have changed since checkpoint-3")) << w.says();
}

TEST_F(Resumption, ChangesWithoutEffectAreNotMentioned) {
  copy_base("moved", false);
  for (const char* changed :
       {"model.model_name_or_path=moved", "logging.logging_first_step=true", "checkpointing.save_steps=2",
        "training.optim=paged_adamw", "zero_stage=1", "training.gradient_checkpointing=false"}) {
    EXPECT_EQ(resume({changed}), 0) << changed << "\n" << w.says();
    EXPECT_FALSE(says("checkpoint-3,")) << w.says();
    EXPECT_TRUE(equals_whole()) << changed;
  }
}

// Manifests of older versions have no hashes.
TEST_F(Resumption, OldCheckpointsGoOn) {
  const std::string file = w / "first/checkpoint-3/manifest.json";
  ft::Json manifest = ft::read_json(file);
  ASSERT_TRUE(manifest["about"].contains("sources"));
  manifest["about"].erase("sources");
  manifest.erase("sha256");
  manifest["sha256"] = sha256(json_text(manifest));
  write_file(file, json_text(manifest) + "\n");
  EXPECT_EQ(resume({}), 0) << w.says();
  EXPECT_TRUE(equals_whole());
}

// Settings of the configuration's schema, and random values for them.
class Settings {
 public:
  Settings(const Json& schema, unsigned seed) : random_(seed) { collect(schema, ""); }

  // Returns a setting and a value, as for "training.seed=7".
  std::pair<std::string, std::string> choose() {
    for (;;) {
      const auto& [path, schema] = all_[random_() % all_.size()];
      if (const Json value = value_of(schema); !value.is_null()) return {path, value.dump()};
    }
  }

 private:
  void collect(const Json& schema, const std::string& path) {
    // Leaves out settings that name the run's own files and the machine.
    for (const char* other : {"$schema", "device", "deepspeed", "sweep", "tune", "training.output_dir",
                              "training.resume_from_checkpoint", "training.resume_despite"})
      if (path == other) return;
    if (schema.contains("properties")) {
      for (const auto& [name, inner] : schema["properties"].items())
        collect(inner, path.empty() ? name : path + "." + name);
    } else {
      all_.emplace_back(path, schema);
    }
  }

  Json value_of(const Json& schema) {
    if (schema.contains("enum")) return one_of(schema["enum"]);
    for (const char* several : {"anyOf", "oneOf"})
      if (schema.contains(several)) return value_of(one_of(schema[several]));
    if (!schema.contains("type")) return nullptr;
    const Json type = schema["type"].is_array() ? one_of(schema["type"]) : schema["type"];
    if (type == "boolean") return random_() % 2 == 0;
    if (type == "integer") return one_of(Json{0, 1, 2, 3, 4, 7, 16, 64});
    if (type == "number") return one_of(Json{0, 0.01, 0.1, 0.5, 1, 2, 3});
    return nullptr;
  }

  Json one_of(const Json& list) { return list[random_() % list.size()]; }

  std::mt19937 random_;
  std::vector<std::pair<std::string, Json>> all_;
};

class RandomResumption : public Resumption {
 protected:
  void change(int times, unsigned seed) {
    ASSERT_EQ(w.run({"help", "config", "--schema"}), 0);
    Settings settings(Json::parse(contents(w / "stdout")), seed);
    int refused = 0, named = 0, equal = 0;
    for (int i = 0; i < times; ++i) {
      const auto [path, value] = settings.choose();
      const std::string changed = path + "=" + value, section = path.substr(0, path.find('.') + 1);
      const int code = resume({changed});
      if (code != 0) {
        EXPECT_TRUE(says(section) || says(path)) << changed << " ends with " << code << ": " << w.says();
        EXPECT_FALSE(says("internal error")) << changed << ": " << w.says();
        ++refused;
      } else if (says(path + ": ")) {
        ++named;
      } else {
        EXPECT_TRUE(has_result_of_whole()) << changed << " changes the run and is not named: " << w.says();
        ++equal;
      }
    }
    std::printf("%d refused, %d named, %d equal\n", refused, named, equal);
    std::fflush(stdout);
  }
};

TEST_F(RandomResumption, IsRefusedNamedOrEqual) { change(10, 1); }
TEST_F(RandomResumption, DISABLED_OfThreeHundred) { change(300, std::random_device()()); }

}  // namespace
}  // namespace ft::test
