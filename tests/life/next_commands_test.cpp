// Commands that a run suggests at its end, run in a shell as printed.
#include <gtest/gtest.h>

#include "engine/core/error.h"
#include "tests/life/program.h"
#include "tests/support/source.h"
#include "tests/support/t5_words.h"

namespace ft::test {
namespace {

using Words = std::vector<std::string>;

// Returns the commands of the lines that begin with "next", in their order.
Words suggested(const std::string& screen) {
  Words commands;
  std::istringstream in(screen);
  bool next = false;
  for (std::string line; std::getline(in, line);) {
    next = line.starts_with("next ") || (next && line.starts_with("         "));
    if (next) commands.push_back(line.substr(9));
  }
  return commands;
}

struct Kind {
  const char* name;
  Words settings;
  Words first_words;  // of the suggested commands
  Words launch = {};
  const char* data = "chats";  // the name of the file of rows
};

const std::string kBase = source_path("configs/demo/base");
const Words kAll{"ft chat", "ft eval", "ft merge"}, kWhole{"ft chat", "ft eval"},
    kScore{"ft score", "ft eval"};

std::vector<Kind> kinds() {
  const std::string full = "finetuning_type=full", four = "quantization.load_in_4bit=true";
  const std::string two = "distributed.tensor_parallel_size=2";
  const Words launch{"launch", "-n", "2"};
  std::vector<Kind> all{
      {"lora", {"data.val_set_size=4"}, kAll},
      {"full", {"data.val_set_size=4", full}, kWhole},
      {"qlora", {"data.val_set_size=4", four}, kAll},
      {"fp8", {"data.val_set_size=4", "model.frozen_dtype=fp8"}, kAll},
      {"lora_without_held_out", {}, {"ft chat", "ft merge"}},
      {"full_without_held_out", {full}, {"ft chat"}},
      {"lora_on_ranks",
       {"data.val_set_size=4", "zero_stage=2", "distributed.nproc_per_node=2"},
       kAll,
       launch},
      {"full_on_parts", {"data.val_set_size=4", full, two}, {"ft chat", "ft launch"}, launch},
      {"distill",
       {"data.val_set_size=4", "objective.type=distill", "objective.teacher_model_name_or_path=base"},
       kAll},
      {"reward_lora", {"data.val_set_size=4", "objective.type=reward"}, kScore, {}, "pairs"},
      {"reward_full", {"data.val_set_size=4", "objective.type=reward", full}, kScore, {}, "pairs"},
      {"reward_qlora", {"objective.type=reward", four}, {"ft score"}, {}, "pairs"},
      {"kto", {"data.val_set_size=4", "objective.type=kto"}, kAll, {}, "labelled"},
      {"grpo", {"data.val_set_size=4", "objective.type=grpo"}, kAll, {}, "prompts"},
      {"ppo", {"data.val_set_size=4", "objective.type=ppo"}, kAll, {}, "prompts"},
      {"grpo_on_given", {"objective.type=grpo"}, {"ft chat", "ft merge"}, {}, "rollouts"}};
  for (const char* type : {"dpo", "orpo", "cpo", "simpo"}) {
    const std::string objective = str("objective.type=", type);
    all.push_back({type, {"data.val_set_size=4", objective}, kAll, {}, "pairs"});
    if (*type != 'd') continue;
    all.push_back({"dpo_full", {"data.val_set_size=4", objective, full}, kWhole, {}, "pairs"});
    all.push_back({"dpo_qlora", {"data.val_set_size=4", objective, four}, kAll, {}, "pairs"});
  }
  return all;
}

// A model that generates text, and rows of each kind.
struct Talking : Workplace {
  Talking()
      : Workplace("llama",
                  {{"model", {{"model_name_or_path", "base"}}},
                   {"data", {{"datasets", {{{"path", "the data.jsonl"}}}}, {"max_seq_length", nullptr}}},
                   {"lora", {{"r", 4}}},
                   {"training",
                    {{"output_dir", "my run"},
                     {"max_steps", 1},
                     {"per_device_train_batch_size", 4},
                     {"learning_rate", nullptr}}},
                   {"logging", {{"progress", "plain"}}}}) {
    fs::create_directory_symlink(kBase, *this / "base");
    fs::create_directory(*this / "bin");
    fs::create_symlink(program_file(), *this / "bin/ft");
  }
  void write(const std::string& kind) const {
    std::istringstream in(contents(fs::path(source_path("configs/demo")) / "questions.jsonl"));
    std::ofstream out(*this / "the data.jsonl");
    std::string line;
    for (int i = 0; i < 16 && std::getline(in, line); ++i) {
      const Json row = Json::parse(line);
      const std::string prompt = row["prompt"], answer = row["completion"];
      if (kind == "chats") out << row.dump();
      if (kind == "pairs") out << Json{{"prompt", prompt}, {"chosen", answer}, {"rejected", "one"}}.dump();
      if (kind == "labelled")
        out << Json{{"prompt", prompt}, {"completion", answer}, {"label", i % 2 == 0}}.dump();
      if (kind == "prompts") out << Json{{"prompt", prompt}}.dump();
      if (kind == "rollouts")
        out << Json{{"prompt_ids", {1, 5 + i / 2}}, {"completion_ids", {7, 8 + i}}, {"reward", i % 2}}.dump();
      out << "\n";
    }
  }
  int shell(const std::string& command) const {
    const std::string line = str("cd '", (*this / ".").string(), "' && PATH=\"$PWD/bin:$PATH\" && ", command,
                                 " </dev/null >stdout 2>stderr");
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }
  // Trains, and runs the commands that the run suggests.
  void expect_suggestions(const Kind& kind) const {
    Words words = kind.launch;
    for (const char* word : {"train", "--config", "run.json"}) words.emplace_back(word);
    words.insert(words.end(), kind.settings.begin(), kind.settings.end());
    ASSERT_EQ(run(words), 0) << says();
    std::string screen = says();
    for (std::size_t at = 0; (at = screen.find("[0] ", at)) != screen.npos;) screen.erase(at, 4);
    const Words commands = suggested(screen);
    ASSERT_EQ(commands.size(), kind.first_words.size()) << screen;
    for (std::size_t i = 0; i < commands.size(); ++i) {
      EXPECT_TRUE(commands[i].starts_with(kind.first_words[i] + " ")) << commands[i];
      EXPECT_EQ(shell(commands[i]), 0) << commands[i] << "\n" << says();
    }
  }
};

class NextCommands : public testing::TestWithParam<Kind> {};

TEST_P(NextCommands, WorkAsTheyArePrinted) {
  const Talking w;
  Kind kind = GetParam();
  w.write(kind.data);
  const std::string type = kind.name;
  const auto also = [&](const Words& more) {
    kind.settings.insert(kind.settings.end(), more.begin(), more.end());
  };
  if (type == "grpo" || type == "ppo")
    also({"objective.reward_funcs=length", "objective.max_completion_length=4",
          "objective.soft_punish_cache=2"});
  if (type == "grpo") also({"objective.num_generations=2"});
  if (type == "grpo_on_given")
    also({"objective.num_generations=2", "data.datasets.0.type=rollouts_tokenized",
          R"(data.eval_datasets=[{"path": "the data.jsonl", "type": "rollouts_tokenized"}])"});
  w.expect_suggestions(kind);
}

INSTANTIATE_TEST_SUITE_P(All, NextCommands, testing::ValuesIn(kinds()),
                         [](const auto& of) { return std::string(of.param.name); });

TEST(NextCommandsOfT5, WorkAsTheyArePrinted) {
  for (const char* type : {"lora", "full"}) {
    const Workplace golden("t5");
    const Talking w;
    fs::remove(w / "base");
    fs::copy(fs::read_symlink(golden / "model"), w / "base", fs::copy_options::recursive);
    give_words(w / "base");
    fs::copy(golden / "train.jsonl", w / "the data.jsonl");
    const bool full = type == std::string("full");
    w.expect_suggestions(
        {type,
         {"data.val_set_size=4", "data.datasets.0.type=tokenized", str("finetuning_type=", type)},
         full ? kWhole : kAll});
  }
}

// A run that a signal stops prints the command that continues it, and the command works.
TEST(NextCommands, ContinueAStoppedRun) {
  const Talking w;
  w.write("chats");
  const pid_t run = w.start({"train", "--config", "run.json", "training.max_steps=100000", "training.seed=7",
                             "checkpointing.save_total_limit=2"});
  ASSERT_TRUE(w.wait_for_words("step      3")) << w.says();
  kill(run, SIGINT);
  ASSERT_EQ(Workplace::finish(run), 75) << w.says();
  const std::string screen = w.says();
  EXPECT_NE(screen.find("Ctrl-C: finishing this step"), std::string::npos) << screen;
  const std::size_t at = screen.find(" of 100,000. Continue: ft train --config 'my run/run.json'");
  ASSERT_NE(at, std::string::npos) << screen;
  std::string command = screen.substr(screen.find("ft train", at));
  command = command.substr(0, command.find('\n'));
  const Json saved = Json::parse(contents(w / "my run/run.json"));
  const auto steps = rows(w / "my run/log.jsonl").back().at("step").get<int>();
  EXPECT_EQ(w.shell(command + str(" training.max_steps=", steps + 2)), 0) << w.says();
  EXPECT_NE(w.says().find(str("after step ", steps)), std::string::npos) << w.says();
  EXPECT_EQ(saved["training"]["seed"], 7);
}

}  // namespace
}  // namespace ft::test
