// Runs that begin with one line: ft train --model and ft new from outside, on small models.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/life/ranks/ranks.h"
#include "tests/life/terminal.h"

namespace ft::test {
namespace {

using Words = std::vector<std::string>;

// The command that begins a run of a golden model on its samples, without the folder's run.json.
Words begin(const Words& more = {}) {
  Words words{"train", "--model", "model", "--data", "train.jsonl", "--output", "out"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Returns the command that repeats the run from its file, in another folder.
Words again(const Words& launch = {}) {
  Words words = launch;
  words.insert(words.end(), {"train", "--config", "out/run.json", "training.output_dir=again"});
  return words;
}

Json settings(const Workplace& w, const std::string& file) {
  Json j = Json::parse(contents(w / file));
  j["training"].erase("output_dir");
  return j;
}

void write_rows(const Workplace& w, const std::string& row, int count) {
  std::ofstream out(w / "rows.jsonl");
  for (int i = 0; i < count; ++i) out << row << "\n";
}

std::size_t times(const std::string& text, const std::string& words) {
  std::size_t n = 0;
  for (std::size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++n;
  return n;
}

TEST(BeginLife, AShortRunEvaluatesAndSavesAndItsFileGivesTheSameRun) {
  const Workplace w("llama");
  ASSERT_EQ(w.run(begin()), 0) << w.says();
  const std::string said = w.says();
  for (const char* line :
       {"chosen for this model", "data.max_seq_length=64", "tokens\n", "objective.type=sft",
        "training.learning_rate=0.0005", "lora.r=16", "saved checkpoint-", "eval loss"})
    EXPECT_NE(said.find(line), std::string::npos) << line << "\n" << said;
  EXPECT_EQ(said.find("\x1b"), std::string::npos);
  const Json run = Json::parse(contents(w / "out/run.json"));
  EXPECT_EQ(run["lora"]["target_modules"], "all-linear");
  EXPECT_EQ(run["evaluation"]["load_best_model_at_end"], true);
  EXPECT_EQ(run["model"]["model_name_or_path"], (w / "model").string());
  const Json state = Json::parse(contents(w / "out/trainer_state.json"));
  EXPECT_GE(std::count_if(state["log_history"].begin(), state["log_history"].end(),
                          [](const Json& row) { return row.contains("eval_loss"); }),
            5);
  ASSERT_EQ(w.run(again()), 0) << w.says();
  EXPECT_EQ(settings(w, "again/run.json"), settings(w, "out/run.json"));
  EXPECT_EQ(losses(w / "again"), losses(w / "out"));
  EXPECT_TRUE(contents(w / "again/adapter_model.safetensors") ==
              contents(w / "out/adapter_model.safetensors"));
  EXPECT_EQ(w.says().find("chosen for this model"), std::string::npos) << w.says();
}

TEST(BeginLife, GivenSettingsAreKeptAndNotExplained) {
  const Workplace w("llama");
  ASSERT_EQ(w.run(begin({"--full", "training.learning_rate=0.003", "training.max_steps=2"})), 0) << w.says();
  const Json run = Json::parse(contents(w / "out/run.json"));
  EXPECT_EQ(run["training"]["learning_rate"], 0.003);
  EXPECT_EQ(run["finetuning_type"], "full");
  EXPECT_TRUE(fs::exists(w / "out/model.safetensors"));
  for (const char* key : {"training.learning_rate=", "finetuning_type=", "num_train_epochs", "lora.r"})
    EXPECT_EQ(w.says().find(key), std::string::npos) << w.says();
}

TEST(BeginLife, QloraKeepsTheWeightsInFourBits) {
  const Workplace w("llama");
  ASSERT_EQ(w.run(begin({"--qlora", "training.max_steps=2"})), 0) << w.says();
  EXPECT_EQ(Json::parse(contents(w / "out/run.json"))["quantization"]["load_in_4bit"], true);
  EXPECT_NE(w.says().find("weights nf4"), std::string::npos) << w.says();
}

// The quantized model is of the dense one's size, and so has its rate.
TEST(BeginLife, QuantizedWeightsAreUsedAsTheyAre) {
  const Workplace w("llama");
  ASSERT_EQ(w.run(begin()), 0) << w.says();
  const Json dense = settings(w, "out/run.json");
  for (const char* type : {"nf4", "fp8"}) {
    SCOPED_TRACE(type);
    ASSERT_EQ(w.run({"quantize", "--model", "model", "--output", type, "--type", type}), 0) << w.says();
    ASSERT_EQ(w.run({"train", "--model", type, "--data", "train.jsonl", "--output", "out", "--overwrite"}), 0)
        << w.says();
    EXPECT_EQ(settings(w, "out/run.json")["training"]["learning_rate"], dense["training"]["learning_rate"]);
  }
  ASSERT_EQ(w.run(begin({"--overwrite", "model.frozen_dtype=fp8"})), 0) << w.says();
  EXPECT_NE(w.says().find("weights fp8"), std::string::npos) << w.says();
}

TEST(BeginLife, EncoderDecodersBeginToo) {
  const Workplace w("t5");
  ASSERT_EQ(w.run(begin({"training.num_train_epochs=1"})), 0) << w.says();
  EXPECT_NE(w.says().find("data.max_source_length=64"), std::string::npos) << w.says();
  ASSERT_EQ(w.run(again()), 0) << w.says();
  EXPECT_EQ(losses(w / "again"), losses(w / "out"));
}

TEST(BeginLife, AGgufFileIsAModel) {
  const Workplace w("llama");
  const std::string demo = source_path("configs/demo/");
  ASSERT_EQ(w.run({"export", "--to", "gguf", "--from", demo + "base", "--output", "base.gguf", "--dtype",
                   "float16"}),
            0)
      << w.says();
  fs::copy_file(demo + "questions.jsonl", w / "rows.jsonl");
  ASSERT_EQ(w.run({"train", "--model", "base.gguf", "--data", "rows.jsonl", "training.max_steps=1"}), 0)
      << w.says();
  EXPECT_NE(w.says().find("training.output_dir=outputs/rows"), std::string::npos) << w.says();
  EXPECT_TRUE(fs::exists(w / "outputs/rows/adapter_model.safetensors"));
}

TEST(BeginLife, PreferencesTellTheObjective) {
  const Workplace w("llama");
  write_rows(w, R"({"prompt_ids": [5, 6, 7], "chosen_ids": [8, 9], "rejected_ids": [10, 11, 12]})", 30);
  ASSERT_EQ(w.run({"train", "--model", "model", "--data", "rows.jsonl", "training.num_train_epochs=1"}), 0)
      << w.says();
  EXPECT_NE(w.says().find("objective.type=dpo"), std::string::npos) << w.says();
  EXPECT_NE(w.says().find("the longest sample has 6 tokens"), std::string::npos) << w.says();
  write_rows(w, R"({"prompt_ids": [5, 6], "completion_ids": [8, 9], "label": true})", 15);
  std::ofstream(w / "rows.jsonl", std::ios::app)
      << R"({"prompt_ids": [5, 7], "completion_ids": [4, 9], "label": false})"
      << "\n";
  ASSERT_EQ(w.run({"train", "--model", "model", "--data", "rows.jsonl", "--output", "kto",
                   "training.num_train_epochs=1"}),
            0)
      << w.says();
  EXPECT_NE(w.says().find("objective.type=kto"), std::string::npos) << w.says();
}

TEST(BeginLife, RanksGetTheSettingsThatWereChosenOnce) {
  const Workplace w("llama");
  Words launched = begin();
  launched.insert(launched.begin(), {"launch", "-n", "2"});
  ASSERT_EQ(w.run(launched), 0) << w.says();
  EXPECT_EQ(times(w.says(), "chosen for this model"), 1u) << w.says();
  EXPECT_NE(w.says().find("on 2 ranks: 4 sequences per step"), std::string::npos) << w.says();
  ASSERT_EQ(w.run(again({"launch", "-n", "2"})), 0) << w.says();
  EXPECT_EQ(settings(w, "again/run.json"), settings(w, "out/run.json"));
  EXPECT_EQ(losses(w / "again"), losses(w / "out"));
}

TEST(BeginLife, WrongInputIsNamedBeforeAnythingIsWritten) {
  const Workplace w("llama");
  std::ofstream(w / "broken.jsonl") << "{\"input_ids\": [1, 2]}\n{\"input_ids\": [1, 2}\n";
  std::ofstream(w / "prompts.jsonl") << "{\"prompt\": \"one\"}\n";
  std::ofstream(w / "empty.jsonl") << "";
  struct Case {
    Words words;
    int code;
    const char* says;
  };
  const auto data = [](const std::string& file) {
    return Words{"train", "--model", "model", "--data", file, "--output", "out"};
  };
  for (const Case& c :
       {Case{{"train"}, 2, "give --config FILE, or --model MODEL and --data DATA"},
        Case{{"train", "--model", "model"}, 2, "--model needs --data"},
        Case{{"train", "--data", "train.jsonl"}, 2, "give --config FILE"},
        Case{{"train", "--config", "run.json", "--model", "model"}, 2, "--config has a model and data"},
        Case{begin({"--qlora", "--full"}), 2, "give one of them"},
        Case{begin({"training.learing_rate=1"}), 2, "do you mean learning_rate?"},
        Case{begin({"objective.type=grpo"}), 2, "write a run.json"},
        Case{begin({"data.streaming=true"}), 2, "data.streaming"},
        Case{begin({"--deepspeed", "ds.json"}), 2, "deepspeed"},
        Case{{"train", "--model", "modle", "--data", "train.jsonl"}, 3, "do you mean model?"},
        Case{{"train", "--model", "model/config.json", "--data", "train.jsonl"}, 3, "model/config.json"},
        Case{data("trian.jsonl"), 3, "train.jsonl"}, Case{data("broken.jsonl"), 3, "broken.jsonl:2"},
        Case{data("prompts.jsonl"), 3, "prompts without answers"}, Case{data("empty.jsonl"), 3, "no rows"},
        Case{{"launch", "train", "--model", "model", "--data", "train.jsonl"}, 2, "-n N"}}) {
    EXPECT_EQ(w.run(c.words), c.code) << w.says();
    EXPECT_NE(w.says().find(c.says), std::string::npos) << c.says << "\n" << w.says();
    EXPECT_FALSE(fs::exists(w / "out")) << w.says();
  }
}

TEST(BeginLife, AFolderWithARunIsRefusedAtOnce) {
  const Workplace w("llama");
  fs::create_directory(w / "out");
  std::ofstream(w / "out/run.json") << "{}";
  EXPECT_EQ(w.run(begin()), 2);
  EXPECT_NE(w.says().find("already contains a run"), std::string::npos) << w.says();
  EXPECT_EQ(w.says().find("chosen for"), std::string::npos) << w.says();
  EXPECT_EQ(contents(w / "out/run.json"), "{}");
  EXPECT_EQ(w.run(begin({"--overwrite", "training.max_steps=1"})), 0) << w.says();
}

// Models whose weights are not there, because the runs are refused before they are read. The second needs
// 1.6 times the memory in 16 bits, and a quarter of that in 4.
TEST(BeginLife, AModelThatDoesNotFitIsRefusedWithWaysOut) {
  const Workplace w("llama");
  Json config = Json::parse(contents(w / "model/config.json"));
  fs::create_directory(w / "large");
  const auto train = [&](std::int64_t width) {
    config["hidden_size"] = width, config["intermediate_size"] = 4 * width, config["num_hidden_layers"] = 8;
    std::ofstream(w / "large/config.json") << config.dump();
    EXPECT_EQ(w.run({"train", "--model", "large", "--data", "train.jsonl"}), 5) << w.says();
    EXPECT_FALSE(fs::exists(w / "outputs"));
    return w.says();
  };
  std::string said = train(1 << 18);
  EXPECT_NE(said.find("it does not fit, even with"), std::string::npos) << said;
  const std::string there = "and there are ";
  ASSERT_NE(said.find(there), std::string::npos) << said;
  const double bytes = std::stod(said.substr(said.find(there) + there.size())) * (1 << 30);
  constexpr double kBytesOfWidth = 2 * 8 * 16;  // 16 weights of 2 bytes for each square of the width, 8 times
  said = train(256 * std::llround(std::sqrt(1.6 * bytes / kBytesOfWidth) / 256));
  EXPECT_NE(said.find("this run needs"), std::string::npos) << said;
  EXPECT_NE(said.find("--qlora means quantization.load_in_4bit=true"), std::string::npos) << said;
  EXPECT_NE(said.find("Add settings to the command"), std::string::npos) << said;
}

TEST(NewLife, WritesAFileThatGivesTheRunOfFtTrain) {
  const Workplace w("llama");
  fs::create_directory(w / "deep");
  const Words asked{"new", "--model", "model", "--data", "train.jsonl", "--lora"};
  const auto with = [&](const Words& more) {
    Words words = asked;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  ASSERT_EQ(w.run(with({"--output", "new.json"})), 0) << w.says();
  EXPECT_EQ(contents(w / "stdout"), "written  new.json\nnext     ft train --config new.json\n");
  EXPECT_NE(w.says().find("data.max_seq_length=64"), std::string::npos) << w.says();
  const Json written = Json::parse(contents(w / "new.json"));
  EXPECT_EQ(written["model"], (Json{{"model_name_or_path", "model"}}));
  EXPECT_EQ(written["data"]["datasets"], (Json{{{"path", "train.jsonl"}}}));
  EXPECT_FALSE(written.contains("logging") && written["logging"].contains("plot_loss"));
  ASSERT_EQ(w.run(with({"--output", "deep/new.json"})), 0) << w.says();
  EXPECT_EQ(Json::parse(contents(w / "deep/new.json"))["model"]["model_name_or_path"],
            (w / "model").string());
  ASSERT_EQ(w.run({"train", "--config", "new.json"}), 0) << w.says();
  ASSERT_EQ(w.run(begin({"finetuning_type=lora"})), 0) << w.says();
  EXPECT_EQ(settings(w, "outputs/train/run.json"), settings(w, "out/run.json"));
  EXPECT_EQ(losses(w / "outputs/train"), losses(w / "out"));
}

TEST(NewLife, WithoutATerminalEachMissingAnswerNamesItsOption) {
  const Workplace w("llama");
  Words words{"new"};
  for (const auto& [option, value] : {std::pair{"--model", "model"}, std::pair{"--data", "train.jsonl"},
                                      std::pair{"--lora", ""}, std::pair{"--output", "new.json"}}) {
    EXPECT_EQ(w.run(words), 2) << w.says();
    EXPECT_NE(w.says().find(std::string("give ") + option), std::string::npos) << w.says();
    words.emplace_back(option);
    if (*value) words.emplace_back(value);
  }
  EXPECT_FALSE(fs::exists(w / "new.json"));
  const std::string before = contents(w / "run.json");
  words.back() = "run.json";
  EXPECT_EQ(w.run(words), 2);
  EXPECT_NE(w.says().find("--overwrite"), std::string::npos) << w.says();
  EXPECT_EQ(contents(w / "run.json"), before);
  words.emplace_back("--overwrite");
  EXPECT_EQ(w.run(words), 0) << w.says();
  EXPECT_NE(contents(w / "run.json"), before);
}

TEST(NewLife, AsksOnATerminal) {
  const Workplace w("llama");
  const std::string file = (w / "new.json").string();
  Terminal t({"new"});
  std::string shown = t.until_it_asks();
  EXPECT_NE(shown.find("model"), std::string::npos) << shown;
  t.type("\n");
  EXPECT_NE(t.until_it_asks().find("an answer is needed"), std::string::npos);
  t.type((w / "modle").string() + "\n");
  EXPECT_NE(t.until_it_asks().find("do you mean"), std::string::npos);
  t.type((w / "model").string() + "\n");
  EXPECT_NE(t.until_it_asks().find("data"), std::string::npos);
  t.type((w / "train.jsonl").string() + "\n");
  EXPECT_NE(t.until_it_asks().find("[lora]"), std::string::npos);
  t.type("lara\n");
  EXPECT_NE(t.until_it_asks().find("the methods are"), std::string::npos);
  t.type("\n");
  EXPECT_NE(t.until_it_asks().find("[run.json]"), std::string::npos);
  t.type(file + "\n");
  shown = t.until_it_ends();
  EXPECT_EQ(t.finish(), 0) << shown;
  EXPECT_NE(shown.find("next     ft train --config"), std::string::npos) << shown;
  EXPECT_EQ(Json::parse(contents(file))["finetuning_type"], "lora");
}

TEST(NewLife, AnEndOfTheAnswersWritesNothing) {
  Terminal t({"new", "--lora"});
  t.until_it_asks();
  t.type("\x04");
  EXPECT_NE(t.until_it_ends().find("nothing was written"), std::string::npos);
  EXPECT_EQ(t.finish(), 2);
}

}  // namespace
}  // namespace ft::test
