// Completions that shells offer while a command line is typed, and the manual page.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/app/outcome.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

Lines offered(std::vector<std::string> words) {
  words.insert(words.begin(), "--complete");
  return lines_of(run(words).out);
}

bool has(const Lines& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

TEST(Completion, Commands) {
  EXPECT_EQ(offered({"tr"}), (Lines{"train", "translate-args"}));
  EXPECT_TRUE(has(offered({""}), "completion"));
  EXPECT_EQ(offered({"data", ""}), (Lines{"show", "stats", "filter"}));
  EXPECT_EQ(offered({"completion", ""}), (Lines{"bash", "zsh", "fish"}));
  EXPECT_EQ(offered({"help", "ve"}), Lines{"verify"});
  EXPECT_EQ(offered({"help", "config", "lo"}), (Lines{"lora", "logging"}));
}

TEST(Completion, OptionsAndTheirValues) {
  EXPECT_EQ(offered({"train", "--o"}), (Lines{"--output", "--overwrite"}));
  EXPECT_EQ(offered({"train", "--config", "r"}), Lines{":file"});
  EXPECT_EQ(offered({"train", "--data", "r"}), Lines{":file"});
  EXPECT_EQ(offered({"merge", "--model", ""}), Lines{":directory"});
  EXPECT_EQ(offered({"export", "--to", "gguf"}), (Lines{"gguf", "gguf-lora"}));
  EXPECT_EQ(offered({"inspect", ""}), Lines{":file"});
}

TEST(Completion, Settings) {
  EXPECT_EQ(offered({"train", "--config", "run.json", "che"}), Lines{"checkpointing."});
  EXPECT_EQ(offered({"train", "--config", "run.json", "training.learning"}),
            Lines{"training.learning_rate="});
  EXPECT_EQ(offered({"train", "finetuning_type="}), (Lines{"finetuning_type=lora", "finetuning_type=full"}));
  EXPECT_EQ(offered({"eval", "data.packing="}), (Lines{"data.packing=true", "data.packing=false"}));
  EXPECT_EQ(offered({"train", "training.output_dir=x"}), Lines{":file"});
  EXPECT_EQ(offered({"chat", "--model", "m", ""}), Lines{"generation."});
  EXPECT_TRUE(
      has(offered({"launch", "-n", "2", "train", "--config", "r", "training."}), "training.max_steps="));
  EXPECT_EQ(offered({"launch", "-n", "2", "tr"}), Lines{"train"});
}

// Runs the completion script in bash, with the built program.
TEST(Completion, InBash) {
  const auto typed = [](const std::string& line) {
    const std::string script = std::string("PATH=") + FT_PROGRAM_DIR + ":$PATH; compopt() { :; }; cd " +
                               source_path("configs") + "; source <(ft completion bash); COMP_LINE='" + line +
                               "'; COMP_POINT=${#COMP_LINE}; _ft; printf '%s\\n' \"${COMPREPLY[@]}\"";
    const std::string file = testing::TempDir() + "completion.bash";
    std::ofstream(file) << script;
    std::string out;
    FILE* pipe = popen(("bash " + file).c_str(), "r");
    for (std::array<char, 256> part; fgets(part.data(), part.size(), pipe);) out += part.data();
    EXPECT_EQ(pclose(pipe), 0);
    return lines_of(out);
  };
  EXPECT_EQ(typed("ft val"), Lines{"validate"});
  EXPECT_EQ(typed("ft train --config llama_lor"), Lines{"llama_lora.json"});
  EXPECT_EQ(typed("ft train training.lr_scheduler_t"), Lines{"training.lr_scheduler_type="});
  EXPECT_EQ(typed("ft train training.lr_scheduler_type=poly"), Lines{"polynomial"});  // bash splits at "="
  EXPECT_EQ(typed("ft train model.model_name_or_path=dem"), Lines{"demo"});
}

TEST(ManualPage, NamesEveryOption) {
  const std::string page = run({"help", "--man"}).out;
  EXPECT_TRUE(page.starts_with("'\\\" t\n.TH FT 1 \"\" \"ft ")) << page.substr(0, 80);
  for (const std::string& option : all_options()) {
    std::string name = option.substr(option.rfind(' ') + 1);
    for (std::size_t at = 0; (at = name.find('-', at)) != name.npos; at += 2) name.insert(at, "\\");
    EXPECT_NE(page.find(name), std::string::npos) << option;
  }
}

}  // namespace
}  // namespace ft
