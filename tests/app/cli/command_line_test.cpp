// The command line: the frozen list of options, exit codes, and messages about mistakes.
#include "app/cli/command_line.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/config/help_config.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/files/json.h"
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

// The frozen list of options. A new option is a decision, so it is added here on purpose.
const std::vector<std::string> kOptions{"--version",
                                        "--json",
                                        "--cuda-libs",
                                        "pull id",
                                        "pull --dataset",
                                        "pull --revision",
                                        "pull --include",
                                        "pull --exclude",
                                        "push folder",
                                        "push id",
                                        "push --type",
                                        "push --private",
                                        "push --revision",
                                        "push --create-pr",
                                        "push --message",
                                        "push --base-model",
                                        "push --include",
                                        "push --exclude",
                                        "push --dry-run",
                                        "new --model",
                                        "new --data",
                                        "new --lora",
                                        "new --qlora",
                                        "new --full",
                                        "new --output",
                                        "new overrides",
                                        "new --overwrite",
                                        "train --config",
                                        "train --model",
                                        "train --data",
                                        "train --lora",
                                        "train --qlora",
                                        "train --full",
                                        "train --output",
                                        "train --as-given",
                                        "train overrides",
                                        "train --deepspeed",
                                        "train --overwrite",
                                        "train --trace",
                                        "eval --config",
                                        "eval overrides",
                                        "eval --deepspeed",
                                        "eval --adapter",
                                        "eval --answers",
                                        "eval --json",
                                        "teach --config",
                                        "teach overrides",
                                        "teach --deepspeed",
                                        "teach --model",
                                        "teach --top-k",
                                        "teach --load-in-4bit",
                                        "teach --overwrite",
                                        "plan --config",
                                        "plan --model",
                                        "plan overrides",
                                        "plan --deepspeed",
                                        "plan --json",
                                        "plan --parameters",
                                        "plan --ranks",
                                        "plan --gpu",
                                        "plan --disk",
                                        "plan --pcie",
                                        "plan --flops",
                                        "profile --config",
                                        "profile overrides",
                                        "profile --deepspeed",
                                        "profile --json",
                                        "sweep --config",
                                        "sweep overrides",
                                        "sweep --deepspeed",
                                        "sweep --dry-run",
                                        "sweep --longest",
                                        "sweep --find",
                                        "report runs",
                                        "report --output",
                                        "report --overwrite",
                                        "watch runs",
                                        "watch --host",
                                        "watch --port",
                                        "watch --allow-origin",
                                        "watch --api-key-file",
                                        "watch --tls-cert",
                                        "watch --tls-key",
                                        "validate --config",
                                        "validate overrides",
                                        "validate --deepspeed",
                                        "validate --json",
                                        "tune --config",
                                        "tune overrides",
                                        "tune --deepspeed",
                                        "tune --metric",
                                        "tune --trials",
                                        "tune --json",
                                        "launch --nproc_per_node",
                                        "launch --num_nodes",
                                        "launch --hostfile",
                                        "launch --include",
                                        "launch --exclude",
                                        "launch --master_addr",
                                        "launch --master_port",
                                        "launch --node_rank",
                                        "launch --no_ssh",
                                        "launch --ssh_port",
                                        "launch --launcher",
                                        "launch --log-dir",
                                        "launch --module",
                                        "launch --no_python",
                                        "launch --no_local_rank",
                                        "launch --no_ssh_check",
                                        "launch --force_multi",
                                        "launch --save_pid",
                                        "launch --bind_cores_to_rank",
                                        "launch --venv_script",
                                        "launch --log_level",
                                        "launch --quiet",
                                        "launch --launcher_args",
                                        "launch --autotuning",
                                        "launch --bind_core_list",
                                        "launch --elastic_training",
                                        "launch --min_elastic_nodes",
                                        "launch --max_elastic_nodes",
                                        "import FILE",
                                        "import --from",
                                        "import --output",
                                        "import --overwrite",
                                        "import --strict",
                                        "import --json",
                                        "translate-args --json",
                                        "doctor --config",
                                        "doctor overrides",
                                        "doctor --hostfile",
                                        "doctor --include",
                                        "doctor --exclude",
                                        "doctor --ssh_port",
                                        "doctor --json",
                                        "verify zero --config",
                                        "verify zero overrides",
                                        "verify zero --deepspeed",
                                        "verify zero --ranks",
                                        "verify zero --steps",
                                        "merge --model",
                                        "merge --adapter",
                                        "merge --average",
                                        "merge --output",
                                        "merge --dtype",
                                        "merge --overwrite",
                                        "merge --combination-type",
                                        "merge --density",
                                        "merge --svd-rank",
                                        "merge --majority-sign-method",
                                        "merge --seed",
                                        "quantize --model",
                                        "quantize --output",
                                        "quantize --type",
                                        "quantize --double",
                                        "export --to",
                                        "export --from",
                                        "export --output",
                                        "export --dtype",
                                        "export --overwrite",
                                        "inspect path",
                                        "inspect --json",
                                        "checkpoint verify path",
                                        "checkpoint list path",
                                        "checkpoint list --json",
                                        "checkpoint prune path",
                                        "checkpoint prune --keep",
                                        "checkpoint prune --dry-run",
                                        "checkpoint convert path",
                                        "checkpoint convert --to",
                                        "checkpoint convert --output",
                                        "checkpoint convert --dtype",
                                        "checkpoint convert --overwrite",
                                        "init --config",
                                        "init --output",
                                        "init --seed",
                                        "init --dtype",
                                        "init --load-in-4bit",
                                        "init --double",
                                        "generate --model",
                                        "generate --adapter",
                                        "generate --dtype",
                                        "generate --quantize",
                                        "generate --quantize-head",
                                        "generate settings",
                                        "generate --input",
                                        "generate --output",
                                        "generate --prompt",
                                        "generate --overwrite",
                                        "score --model",
                                        "score --adapter",
                                        "score --input",
                                        "score --output",
                                        "score --dtype",
                                        "score --overwrite",
                                        "score settings",
                                        "chat --model",
                                        "chat --adapter",
                                        "chat --dtype",
                                        "chat --quantize",
                                        "chat --quantize-head",
                                        "chat settings",
                                        "serve --model",
                                        "serve --dtype",
                                        "serve --quantize",
                                        "serve --quantize-head",
                                        "serve settings",
                                        "serve --adapter",
                                        "serve --name",
                                        "serve --max-loras",
                                        "serve --max-lora-rank",
                                        "serve --host",
                                        "serve --port",
                                        "serve --allow-origin",
                                        "serve --api-key-file",
                                        "serve --tls-cert",
                                        "serve --tls-key",
                                        "serve --max-waiting",
                                        "serve --max-reply",
                                        "serve --sandbox",
                                        "tokenize --model",
                                        "tokenize --no-special-tokens",
                                        "tokenize --decode",
                                        "tokenize --skip-special-tokens",
                                        "data show --config",
                                        "data show overrides",
                                        "data show --deepspeed",
                                        "data show --json",
                                        "data show --limit",
                                        "data stats --config",
                                        "data stats overrides",
                                        "data stats --deepspeed",
                                        "data stats --json",
                                        "data filter --data",
                                        "data filter --split",
                                        "data filter --output",
                                        "data filter --overwrite",
                                        "data filter --fields",
                                        "data filter --min-tokens",
                                        "data filter --max-tokens",
                                        "data filter --model",
                                        "data filter --exact",
                                        "data filter --near",
                                        "data filter --threshold",
                                        "data filter --ngram",
                                        "data filter --permutations",
                                        "data filter --bands",
                                        "data filter --memory-gib",
                                        "data filter --json",
                                        "metrics --hypotheses",
                                        "metrics --references",
                                        "metrics --use-stemmer",
                                        "metrics --json",
                                        "completion shell",
                                        "help topic",
                                        "help --schema",
                                        "help --man"};

TEST(CommandLine, TheOptionsAreFrozen) { EXPECT_EQ(all_options(), kOptions); }

TEST(CommandLine, MissingCudaLibrariesAreRefused) {
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
  expect_refusal({"train"},
                 "ft train: give --config FILE, or --model MODEL and --data DATA; see ft train --help");
  expect_refusal({"train", "--config", "x", "--no-such-option"},
                 "ft train: there is no option --no-such-option; see ft train --help");
  expect_refusal({"train", "--confg", "x"},
                 "ft train: there is no option --confg; do you mean --config? See ft train --help");
  expect_refusal({"merge", "--model", "m", "--adapter", "a"},
                 "ft merge: --output is required; see ft merge --help");
  expect_refusal({"merge", "--output", "o"},
                 "ft merge: --model and --adapter, or --average is required; see ft merge --help");
  expect_refusal({"merge", "--model", "m", "--adapter", "a", "--output", "o", "--dtype", "int8"},
                 "ft merge: --dtype: int8 not in {float32,bfloat16,float16}");
  expect_refusal({"export", "--to", "onnx", "--from", "a", "--output", "b"},
                 "ft export: --to: onnx not in {peft,hf,gguf,gguf-lora}");
  expect_refusal({"export", "--to", "hf", "--from", "a", "--output", "b", "--dtype", "q8_0"},
                 "--dtype q8_0 is for --to gguf");
  expect_refusal({"plan"}, "ft plan: give --config FILE, --model DIR or both, or --parameters X");
  expect_refusal({"plan", "--config", "a", "--parameters", "7e9"},
                 "ft plan: give --config FILE, --model DIR or both, or --parameters X");
  expect_refusal({"data"}, "ft data: A subcommand is required; see ft data --help");
  expect_refusal({"validate", "--config", "nowhere.json", "\x1b[31m"},
                 "nowhere.json: cannot be read: No such file or directory");
  expect_refusal({"help", "lora", "--schema"}, "ft help: --schema is for ft help config --schema");
  expect_refusal({"help", "trian"}, "ft help: there is no command trian; do you mean train?");
  expect_refusal({"help", "config", "lara"},
                 "ft help config: there is no section lara; do you mean lora?\nthere are $schema, model, "
                 "quantization, lora, finetuning_type, objective, device, data, data_efficiency, training, "
                 "zero_optimization, "
                 "zero_stage, distributed, "
                 "evaluation, checkpointing, logging, generation, sweep, tune, deepspeed");
}

TEST(CommandLine, TypographyIsRefusedWithTheCommandThatWasMeant) {
  expect_refusal({"train", "--config", "run.json", "\u2013deepspeed", "ds.json"},
                 "ft: \u2013deepspeed has a typographic dash, \u2013 (U+2013); type:\n"
                 "  ft train --config run.json --deepspeed ds.json");
  expect_refusal({"train", "--config", "run.json", "--deepspeed", "\u201cds.json\u201d"},
                 "ft: \u201cds.json\u201d has a typographic quote, \u201c (U+201C); type:\n"
                 "  ft train --config run.json --deepspeed ds.json");
  expect_refusal({"launch", "\u2014num_gpus=2", "train", "training.output_dir=\u201cmy", "run\u201d"},
                 "ft: \u2014num_gpus=2 has a typographic dash, \u2014 (U+2014); type:\n"
                 "  ft launch --num_gpus=2 train 'training.output_dir=my run'");
  expect_refusal({"sweep", "sweep.grid={\u201czero_stage\u201d: [0, 3]}"},
                 "ft: sweep.grid={\u201czero_stage\u201d: [0, 3]} has a typographic quote, \u201c (U+201C); "
                 "type:\n  ft sweep 'sweep.grid={\"zero_stage\": [0, 3]}'");
}

// Settings and arguments that hold text may contain typographic characters.
TEST(CommandLine, TypographyInATextIsLeftAlone) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"generate", "--model", "nowhere", "--prompt", "\u201cHi,\u201d he said"},
        {"validate", "--config", "nowhere.json", "training.output_dir=a \u2013 b"},
        {"validate", "--config", "nowhere.json", "data.datasets=[{\"path\":\"\u201cx\u201d\"}]"}}) {
    const Outcome o = run(words);
    EXPECT_NE(o.code, 0);
    EXPECT_EQ(o.err.find("typographic"), std::string::npos) << o.err;
  }
}

TEST(CommandLine, LaunchOfAPythonProgram) {
  expect_refusal({"launch", "--num_gpus", "2", "run_translation.py", "--fp16"},
                 "ft launch run_translation.py: ft runs no Python; ft import -- deepspeed "
                 "run_translation.py ... prints the command to type instead");
  expect_refusal({"launch", "--num_gpu", "2", "train"},
                 "ft launch: there is no option --num_gpu; do you mean --num_gpus? See ft launch --help");
  expect_refusal({"launch", "--frobnicate", "train"},
                 "ft launch: there is no option --frobnicate; see ft launch --help");
}

TEST(CommandLine, HelpHasExamplesForEveryCommand) {
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{{},
                                                                                       {"train"},
                                                                                       {"eval"},
                                                                                       {"plan"},
                                                                                       {"validate"},
                                                                                       {"merge"},
                                                                                       {"quantize"},
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

// The example of figure 1 of the ZeRO paper: 7.5e9 parameters on 64 ranks.
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

// The version is written once, in CMakeLists.txt; the newest entry of the change log names the same one.
TEST(CommandLine, TheChangeLogIsOfThisVersion) {
  std::ifstream in(source_path("CHANGELOG.md"));
  std::string line;
  while (std::getline(in, line) && !line.starts_with("## [")) continue;
  EXPECT_TRUE(line.starts_with("## [" FT_VERSION "]")) << line;
}

TEST(CommandLine, HelpConfig) {
  const Outcome o = run({"help", "config", "lora"});
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(o.out.find("  lora.r = 8\n      Rank of the adapters: rows of A, columns of B; of MiSS"),
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
