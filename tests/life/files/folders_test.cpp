// Folders that ft writes are complete models: with the tokenizer and other files next to the weights.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <utility>

#include "tests/life/program.h"
#include "tests/support/source.h"

namespace ft::test {
namespace {

const std::vector<std::string> kTokenizer = {"tokenizer.model", "tokenizer_config.json",
                                             "special_tokens_map.json", "added_tokens.json",
                                             "chat_template.jinja"};

// `base`, a small model with all files of a Hugging Face folder, and a run that trains it on text.
class Text : public testing::Test {
 protected:
  Text() {
    const fs::path data = source_path("tests/data/tiny_tokenizer");
    fs::create_directory(w / "made");
    fs::copy_file(data / "tokenizer.model", w / "made/tokenizer.model");
    write("made/config.json", {{"model_type", "llama"},
                               {"vocab_size", 400},
                               {"hidden_size", 16},
                               {"intermediate_size", 24},
                               {"num_hidden_layers", 1},
                               {"num_attention_heads", 2},
                               {"max_position_embeddings", 64}});
    write("made/tokenizer_config.json",
          {{"tokenizer_class", "LlamaTokenizer"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}});
    write("made/special_tokens_map.json", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    write("made/added_tokens.json", Json::object());
    write("made/generation_config.json", {{"temperature", 0.5}});
    std::ofstream(w / "made/chat_template.jinja") << "{{ messages }}";
    std::ofstream(w / "made/LICENSE") << "do what you like";
    EXPECT_EQ(w.run({"init", "--config", "made", "--output", "base"}), 0) << w.says();
    for (int i = 0; i < 8; ++i)
      std::ofstream(w / "text.jsonl", std::ios::app) << R"({"prompt": "Ada has 7 ", "response": "apples."})"
                                                        "\n";
    run = {{"model", {{"model_name_or_path", "base"}}},
           {"data", {{"datasets", {{{"path", "text.jsonl"}}}}, {"max_seq_length", 64}}},
           {"training", {{"output_dir", "out"}, {"max_steps", 2}, {"per_device_train_batch_size", 4}}},
           {"logging", {{"progress", "none"}}},
           {"checkpointing", {{"save_strategy", "steps"}, {"save_steps", 2}}}};
    write("run.json", run);
  }
  void write(const std::string& name, const Json& json) const { std::ofstream(w / name) << json.dump(1); }

  // Expects that `folder` has copies of base's tokenizer and, if `all`, of its other files.
  void expect_companions(const std::string& folder, bool all) const {
    const auto same = [&](const std::string& name) {
      return contents(w / ("made/" + name)) == contents(w / (folder + "/" + name));
    };
    for (const std::string& name : kTokenizer) EXPECT_TRUE(same(name)) << folder << " " << name;
    for (const char* name : {"generation_config.json", "LICENSE"})
      EXPECT_EQ(all, same(name)) << folder << " " << name;
  }
  // Expects that the folder can be trained again, as any other base.
  void expect_base(const std::string& folder) const {
    EXPECT_EQ(w.train({"model.model_name_or_path=" + folder, "training.output_dir=again", "--overwrite"}), 0)
        << folder << ": " << w.says();
  }

  Workplace w{"llama"};
  Json run;
};

TEST_F(Text, AFullyTrainedModelIsABaseByItself) {
  ASSERT_EQ(w.train({"finetuning_type=full"}), 0) << w.says();
  ASSERT_EQ(w.run({"export", "--to", "hf", "--from", "out/checkpoint-2", "--output", "exported"}), 0)
      << w.says();
  for (const char* folder : {"base", "out", "out/checkpoint-2", "exported"}) {
    expect_companions(folder, true);
    expect_base(folder);
  }
}

TEST_F(Text, AMergedModelIsABaseByItself) {
  ASSERT_EQ(w.train(), 0) << w.says();
  ASSERT_EQ(w.run({"merge", "--model", "base", "--adapter", "out", "--output", "merged"}), 0) << w.says();
  ASSERT_EQ(w.run({"export", "--to", "hf", "--from", "out", "--output", "exported"}), 0) << w.says();
  ASSERT_EQ(w.run({"export", "--to", "peft", "--from", "out/checkpoint-2", "--output", "adapter"}), 0)
      << w.says();
  for (const char* folder : {"out", "out/checkpoint-2", "adapter"}) expect_companions(folder, false);
  for (const char* folder : {"merged", "exported"}) {
    expect_companions(folder, true);
    expect_base(folder);
  }
}

// Returns position and size of a tensor's bytes in a safetensors file.
std::pair<std::size_t, std::size_t> place_of(const std::string& file, const std::string& tensor) {
  std::uint64_t header = 0;
  for (int i = 7; i >= 0; --i)
    header = header << 8 | static_cast<unsigned char>(file.at(static_cast<std::size_t>(i)));
  const Json place = Json::parse(file.substr(8, header)).at(tensor).at("data_offsets");
  const auto begin = place[0].get<std::size_t>();
  return {8 + header + begin, place[1].get<std::size_t>() - begin};
}

// PEFT saves the weight below an adapted head in the adapter, and loads it from there.
TEST_F(Text, AnAdaptedHeadIsSavedWithItsWeight) {
  const std::string name = "base_model.model.lm_head.base_layer.weight";
  run["lora"]["target_modules"] = {"q_proj", "lm_head"};
  write("run.json", run);
  ASSERT_EQ(w.train(), 0) << w.says();
  for (const char* folder : {"out", "out/checkpoint-2"}) {
    const std::string adapter = contents(w / folder / "adapter_model.safetensors");
    const std::string base = contents(w / "base/model.safetensors");
    const auto [at, size] = place_of(adapter, name);
    const auto [own, same] = place_of(base, "lm_head.weight");
    EXPECT_TRUE(adapter.substr(at, size) == base.substr(own, same)) << folder;
  }
  ASSERT_EQ(w.train({"training.resume_from_checkpoint=out/checkpoint-2", "training.max_steps=3"}), 0)
      << w.says();
  std::string adapter = contents(w / "out/adapter_model.safetensors");
  const auto [at, size] = place_of(adapter, name);
  adapter.replace(at, size, size, '\0');
  std::ofstream(w / "out/adapter_model.safetensors", std::ios::binary) << adapter;
  // The merge takes this weight from the adapter: it compares its result with base and adapter.
  ASSERT_EQ(w.run({"merge", "--model", "base", "--adapter", "out", "--output", "merged"}), 0) << w.says();
  const auto narrow = adapter.find("[400,16]", adapter.find(name));
  ASSERT_NE(narrow, std::string::npos);
  adapter.replace(narrow, 8, "[16,400]");
  std::ofstream(w / "out/adapter_model.safetensors", std::ios::binary) << adapter;
  EXPECT_EQ(w.run({"merge", "--model", "base", "--adapter", "out", "--output", "other"}), 3);
  EXPECT_NE(w.says().find("lm_head.base_layer.weight is [16, 400], the model and "), std::string::npos)
      << w.says();
}

// The adapter's configuration is used; other settings have to agree with it. The run's run.json can be run
// again.
TEST_F(Text, AnAdapterToStartFromHasItsConfiguration) {
  ASSERT_EQ(w.train({"lora.r=3", "lora.target_modules=all-linear", "training.max_steps=2"}), 0) << w.says();
  const auto on = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"lora.adapter_name_or_path=out", "training.output_dir=on",
                             "training.max_steps=2", "--overwrite"});
    return w.train(more);
  };
  ASSERT_EQ(on({"lora.r=3", "lora.target_modules=all-linear"}), 0) << w.says();
  EXPECT_EQ(Json::parse(contents(w / "on/run.json"))["lora"]["lora_alpha"], 16);
  EXPECT_FALSE(contents(w / "on/run.json").ends_with("\n\n"));
  const std::string once = contents(w / "on/adapter_model.safetensors");
  ASSERT_EQ(w.run({"train", "--config", "on/run.json", "--overwrite"}), 0) << w.says();
  EXPECT_TRUE(contents(w / "on/adapter_model.safetensors") == once);
  EXPECT_EQ(on({"lora.r=8"}), 2);
  EXPECT_NE(w.says().find("lora.r: is 8, and in out/adapter_config.json it is 3; leave it out to go on with"),
            std::string::npos)
      << w.says();
  ASSERT_EQ(w.train({"--overwrite", "lora.r=3", "lora.target_modules=[\"q_proj\"]", "training.max_steps=2"}),
            0)
      << w.says();
  EXPECT_EQ(on({"lora.r=3", "lora.target_modules=all-linear"}), 2);
  EXPECT_NE(w.says().find("lora.target_modules: is all-linear, and out/adapter_config.json leaves out "),
            std::string::npos)
      << w.says();
}

// Overwriting removes everything of the old run that could be mistaken for a part of the new one: its four
// checkpoints, result, rows and curves. Files that ft did not write stay.
TEST_F(Text, OverwritingLeavesNothingOfTheOldRun) {
  ASSERT_EQ(w.train({"finetuning_type=full", "training.max_steps=4"}), 0) << w.says();
  std::ofstream(w / "out/model-00001-of-00002.safetensors") << "of an older run";
  std::ofstream(w / "out/tokenizer.json") << "{}";
  std::ofstream(w / "out/notes.txt") << "mine";
  ASSERT_EQ(w.train({"--overwrite", "training.max_steps=1"}), 0) << w.says();
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(w / "out")) left.insert(entry.path().filename());
  std::set<std::string> expected{"run.json",
                                 "log.jsonl",
                                 "trainer_state.json",
                                 "loss.svg",
                                 "report.html",
                                 "run_facts.json",
                                 "runs",
                                 "checkpoint-1",
                                 "ft_prompts.json",
                                 "adapter_config.json",
                                 "notes.txt",
                                 "adapter_model.safetensors"};
  expected.insert(kTokenizer.begin(), kTokenizer.end());
  EXPECT_EQ(left, expected);
  EXPECT_EQ(std::distance(fs::directory_iterator(w / "out/runs"), fs::directory_iterator()), 1);
}

TEST_F(Text, InputsAreNotOverwritten) {
  ASSERT_EQ(w.train({"finetuning_type=full"}), 0) << w.says();
  for (const char* model : {"out", "out/checkpoint-2"}) {
    const std::string before = contents(w / (std::string(model) + "/model.safetensors"));
    EXPECT_EQ(w.train({"--overwrite", std::string("model.model_name_or_path=") + model}), 2);
    EXPECT_NE(w.says().find("training.output_dir: "), std::string::npos) << w.says();
    EXPECT_NE(w.says().find("is read"), std::string::npos) << w.says();
    EXPECT_NE(w.says().find("; give another folder"), std::string::npos) << w.says();
    EXPECT_EQ(contents(w / (std::string(model) + "/model.safetensors")), before);
  }
  EXPECT_EQ(w.run({"export", "--to", "hf", "--from", "out", "--output", "out", "--overwrite"}), 2);
  EXPECT_EQ(w.says(), "--output: out cannot be overwritten because out is read; give another folder\n");
  EXPECT_EQ(w.train({"--overwrite"}), 0) << w.says();
}

// The tokenizer of the run is copied to results even if it came from another folder; generation settings are
// copied from the model.
TEST_F(Text, ATokenizerFromAnotherFolderIsCopied) {
  fs::create_directory(w / "elsewhere");
  for (const std::string& name : kTokenizer) fs::rename(w / ("base/" + name), w / ("elsewhere/" + name));
  write("elsewhere/generation_config.json", {{"temperature", 0.9}});
  const std::string tokenizer = "model.tokenizer_name_or_path=elsewhere";
  ASSERT_EQ(w.train({"finetuning_type=full", tokenizer}), 0) << w.says();
  expect_companions("out", true);
  ASSERT_EQ(w.train({"training.output_dir=adapter", tokenizer}), 0) << w.says();
  expect_companions("adapter", false);
  ASSERT_EQ(w.run({"merge", "--model", "base", "--adapter", "adapter", "--output", "merged"}), 0) << w.says();
  expect_companions("merged", true);
  expect_base("merged");
}

TEST_F(Text, ACheckpointIsVerified) {
  ASSERT_EQ(w.train(), 0) << w.says();
  ASSERT_EQ(w.run({"checkpoint", "verify", "out/checkpoint-2"}), 0) << w.says();
  EXPECT_TRUE(contents(w / "stdout").starts_with("out/checkpoint-2: intact, step 2, "))
      << contents(w / "stdout");
  ASSERT_EQ(w.run({"checkpoint", "verify", "out"}), 0) << w.says();
  EXPECT_TRUE(contents(w / "stdout").starts_with("out/checkpoint-2: intact, step 2, "))
      << contents(w / "stdout");
  std::ofstream(w / "out/checkpoint-2/adapter_config.json", std::ios::app) << " ";
  EXPECT_EQ(w.run({"checkpoint", "verify", "out"}), 4);
  EXPECT_NE(contents(w / "stdout").find("adapter_config.json"), std::string::npos) << contents(w / "stdout");
  EXPECT_EQ(w.run({"checkpoint", "verify", "base"}), 4);
  EXPECT_EQ(w.run({"checkpoint", "verify", "nowhere"}), 4);
}

}  // namespace
}  // namespace ft::test
