// The command line: the frozen list of options, exit codes, and messages about mistakes.
#include "app/commands/command_line.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/config/help_config.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/io/json.h"
#include "tests/app/outcome.h"
#include "tests/support/source.h"

namespace ft {
namespace {

void expect_refusal(const std::vector<std::string>& arguments, const std::string& text) {
  const Outcome o = run(arguments);
  EXPECT_EQ(o.code, 2) << o.err;
  EXPECT_EQ(o.err, text + "\n");
  EXPECT_EQ(o.out, "");
}

// A new option is a decision: it is added here on purpose.
const std::vector<std::string> kOptions{"--version",
                                        "--json",
                                        "--cuda-libs",
                                        "train --config",
                                        "train overrides",
                                        "train --overwrite",
                                        "train --trace",
                                        "eval --config",
                                        "eval overrides",
                                        "eval --adapter",
                                        "eval --answers",
                                        "eval --json",
                                        "plan --config",
                                        "plan --model",
                                        "plan overrides",
                                        "plan --json",
                                        "plan --parameters",
                                        "plan --ranks",
                                        "plan --gpu",
                                        "sweep --config",
                                        "sweep overrides",
                                        "sweep --dry-run",
                                        "sweep --longest",
                                        "validate --config",
                                        "validate overrides",
                                        "launch --nproc_per_node",
                                        "launch --num_nodes",
                                        "launch --hostfile",
                                        "launch --include",
                                        "launch --exclude",
                                        "launch --master_addr",
                                        "launch --master_port",
                                        "launch --node_rank",
                                        "launch --ssh_port",
                                        "launch --log-dir",
                                        "doctor --config",
                                        "doctor overrides",
                                        "doctor --hostfile",
                                        "doctor --include",
                                        "doctor --exclude",
                                        "doctor --ssh_port",
                                        "doctor --json",
                                        "verify zero --config",
                                        "verify zero overrides",
                                        "verify zero --ranks",
                                        "verify zero --steps",
                                        "merge --model",
                                        "merge --adapter",
                                        "merge --output",
                                        "merge --dtype",
                                        "merge --overwrite",
                                        "export --to",
                                        "export --from",
                                        "export --output",
                                        "export --dtype",
                                        "export --overwrite",
                                        "inspect path",
                                        "inspect --json",
                                        "checkpoint verify path",
                                        "init --config",
                                        "init --output",
                                        "init --seed",
                                        "init --dtype",
                                        "generate --model",
                                        "generate --adapter",
                                        "generate --dtype",
                                        "generate settings",
                                        "generate --input",
                                        "generate --output",
                                        "generate --prompt",
                                        "generate --overwrite",
                                        "chat --model",
                                        "chat --adapter",
                                        "chat --dtype",
                                        "chat settings",
                                        "tokenize --model",
                                        "tokenize --no-special-tokens",
                                        "tokenize --decode",
                                        "tokenize --skip-special-tokens",
                                        "data show --config",
                                        "data show overrides",
                                        "data show --json",
                                        "data show --limit",
                                        "data stats --config",
                                        "data stats overrides",
                                        "data stats --json",
                                        "metrics --hypotheses",
                                        "metrics --references",
                                        "metrics --use-stemmer",
                                        "metrics --json",
                                        "completion shell",
                                        "help topic",
                                        "help --schema",
                                        "help --man"};

TEST(CommandLine, TheOptionsAreFrozen) { EXPECT_EQ(all_options(), kOptions); }

TEST(CommandLine, LibrariesOfCudaThatAreNotThereAreRefused) {
  const std::string folder = source_path("configs");
  const Outcome o = run({"--cuda-libs", folder, "train", "--config", "run.json"});
  EXPECT_EQ(o.code, 2);
  if (cuda_version())
    EXPECT_NE(o.err.find(" in " + folder + " or below it"), std::string::npos) << o.err;
  else
    EXPECT_EQ(o.err, "--cuda-libs: this ft was built without CUDA\n");
}

TEST(CommandLine, Mistakes) {
  expect_refusal({"trian", "--config", "run.json"}, "there is no command trian; do you mean ft train?");
  expect_refusal({"frobnicate"}, "there is no command frobnicate; see ft --help");
  expect_refusal({"metrics", "--hypotheses", "a"},
                 "ft metrics: --references is required; see ft metrics --help");
  expect_refusal({"generate"}, "ft generate: --model is required; see ft generate --help");
  for (const std::vector<std::string>& files :
       {std::vector<std::string>{}, {"--input", "a"}, {"--input", "a", "--output", "b", "--prompt", "c"}}) {
    std::vector<std::string> all{"generate", "--model", "x"};
    all.insert(all.end(), files.begin(), files.end());
    expect_refusal(all, "ft generate: give --input FILE and --output FILE, or --prompt TEXT");
  }
  expect_refusal({"launch", "-n", "2"}, "ft launch: give a command: ft launch -n 2 train ...");
  expect_refusal({"chat"}, "ft chat: --model is required; see ft chat --help");
  expect_refusal({"train"}, "ft train: --config is required; see ft train --help");
  expect_refusal({"train", "--config", "x", "--no-such-option"},
                 "ft train: there is no option --no-such-option; see ft train --help");
  expect_refusal({"train", "--confg", "x"},
                 "ft train: there is no option --confg; do you mean --config? See ft train --help");
  expect_refusal({"merge", "--model", "m", "--adapter", "a"},
                 "ft merge: --output is required; see ft merge --help");
  expect_refusal({"merge", "--model", "m", "--adapter", "a", "--output", "o", "--dtype", "int8"},
                 "ft merge: --dtype: int8 not in {float32,bfloat16,float16}");
  expect_refusal({"export", "--to", "onnx", "--from", "a", "--output", "b"},
                 "ft export: --to: onnx not in {peft,hf,gguf,gguf-lora}");
  expect_refusal({"export", "--to", "hf", "--from", "a", "--output", "b", "--dtype", "q8_0"},
                 "--dtype q8_0 is for --to gguf");
  expect_refusal({"plan"}, "ft plan: give one of --config FILE, --model DIR and --parameters X");
  expect_refusal({"plan", "--config", "a", "--parameters", "7e9"},
                 "ft plan: give one of --config FILE, --model DIR and --parameters X");
  expect_refusal({"data"}, "ft data: A subcommand is required; see ft data --help");
  expect_refusal({"validate", "--config", "nowhere.json", "\x1b[31m"},
                 "nowhere.json: cannot be read: No such file or directory");
  expect_refusal({"help", "lora", "--schema"}, "ft help: --schema is for ft help config --schema");
  expect_refusal({"help", "trian"}, "ft help: there is no command trian; do you mean train?");
  expect_refusal({"help", "config", "lara"},
                 "ft help config: there is no section lara; do you mean lora?\nthere are $schema, model, "
                 "quantization, lora, finetuning_type, device, data, training, zero_optimization, "
                 "zero_stage, distributed, "
                 "evaluation, checkpointing, logging, generation, sweep");
}

TEST(CommandLine, HelpHasExamplesForEveryCommand) {
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{{},
                                                                                       {"train"},
                                                                                       {"eval"},
                                                                                       {"plan"},
                                                                                       {"validate"},
                                                                                       {"merge"},
                                                                                       {"export"},
                                                                                       {"inspect"},
                                                                                       {"init"},
                                                                                       {"tokenize"},
                                                                                       {"data", "show"},
                                                                                       {"metrics"},
                                                                                       {"verify", "zero"},
                                                                                       {"completion"},
                                                                                       {"help"}}) {
    auto arguments = command;
    arguments.emplace_back("--help");
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 0);
    EXPECT_EQ(o.err, "");
    EXPECT_NE(o.out.find("Examples:\n  "), std::string::npos) << o.out;
    if (command.empty() || command[0] == "help") continue;
    auto help = command;
    help.insert(help.begin(), "help");
    EXPECT_EQ(run(help).out, o.out);
  }
  EXPECT_EQ(run({}).out, run({"--help"}).out);
}

// The paper's figure 1.
TEST(CommandLine, PlansByFormula) {
  const Outcome o = run({"plan", "--parameters", "7.5e9", "--ranks", "64"});
  EXPECT_EQ(o.code, 0) << o.err;
  for (const char* row :
       {"\n0                                120.0                     135.0                   120.0\n",
        "\n1                                 31.4", "\n2                                 16.6",
        "\n3                                  1.9"})
    EXPECT_NE(o.out.find(row), std::string::npos) << o.out;
}

TEST(CommandLine, Version) {
  const Outcome text = run({"--version"}), json = run({"--version", "--json"});
  EXPECT_EQ(text.code, 0);
  EXPECT_TRUE(text.out.starts_with("ft " FT_VERSION)) << text.out;
  EXPECT_EQ(Json::parse(json.out)["version"], FT_VERSION);
  for (const char* key : {"\"commit\"", "\"cpu_features\"", "\"cuda\""})
    EXPECT_NE(json.out.find(key), std::string::npos) << key;
}

// The version is written once, in CMakeLists.txt; the newest entry of the change log is of it.
TEST(CommandLine, TheChangeLogIsOfThisVersion) {
  std::ifstream in(source_path("CHANGELOG.md"));
  std::string line;
  while (std::getline(in, line) && !line.starts_with("## [")) continue;
  EXPECT_TRUE(line.starts_with("## [" FT_VERSION "]")) << line;
}

TEST(CommandLine, HelpConfig) {
  const Outcome o = run({"help", "config", "lora"});
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(
      o.out.find(
          "  lora.r = 8\n      Rank of the adapters: rows of A, columns of B. (whole number, at least 1)\n"),
      std::string::npos)
      << o.out;
  EXPECT_EQ(o.out.find("training.seed"), std::string::npos);
  EXPECT_NE(run({"help", "config"}).out.find("training.seed = 42"), std::string::npos);
}

TEST(CommandLine, ThePageOfSettingsIsTrue) {
  const std::filesystem::path file = source_path("docs/config.md");
  std::ifstream in(file);
  std::stringstream page;
  page << in.rdbuf();
  const auto fresh = std::filesystem::path(testing::TempDir()) / "config.md";
  if (page.str() != config_page()) std::ofstream(fresh) << config_page();
  EXPECT_TRUE(page.str() == config_page()) << "docs/config.md is out of date; copy " << fresh.string();
}

}  // namespace
}  // namespace ft
