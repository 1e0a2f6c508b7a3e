// ft data show, ft data stats, ft data filter.
#include <array>

#include "app/commands/list.h"
#include "app/commands/run_options.h"
#include "app/config/hub_folders.h"
#include "app/samples/data_filter.h"
#include "app/samples/data_show.h"
#include "app/samples/data_stats.h"

namespace ft::commands {
namespace {

Use data_show_options(CLI::App& app) {
  const auto args = std::make_shared<DataShowArgs>();
  add_run_options(app, *args);
  app.add_flag("--json", args->json, "One JSON object a line: input_ids, labels, source.");
  app.add_option("--limit", args->limit, "Show at most N samples.")->check(CLI::NonNegativeNumber);
  return {.run = [args] { return data_show(*args); }};
}

Use data_stats_options(CLI::App& app) {
  const auto args = std::make_shared<DataStatsArgs>();
  add_run_options(app, *args);
  app.add_flag("--json", args->json, "One JSON object.");
  return {.run = [args] { return data_stats(*args); }};
}

void add_near_options(CLI::App& app, DataFilterArgs& args) {
  NearRule& rule = args.near_rule;
  auto* near =
      app.add_flag("--near", args.near, "Leave out rows that nearly equal an earlier one (MinHash).");
  app.add_option(
         "--threshold", rule.threshold,
         str("With --near: least similarity of such rows, from 0 to 1 (default: ", rule.threshold, ")."))
      ->check(CLI::Range(0.0, 1.0))
      ->needs(near);
  app.add_option("--ngram", rule.ngram,
                 str("With --near: words of the n-grams that are compared (default: ", rule.ngram, ")."))
      ->check(CLI::Range(1, 100))
      ->needs(near);
  app.add_option("--permutations", rule.permutations,
                 str("With --near: hashes of a row (default: ", rule.permutations, ")."))
      ->check(CLI::Range(1, 4096))
      ->needs(near);
  app.add_option("--bands", rule.bands,
                 str("With --near: bands of the hashes; rows with an equal band are compared (default: ",
                     rule.bands, ")."))
      ->check(CLI::Range(1, 4096))
      ->needs(near);
}

Use data_filter_options(CLI::App& app) {
  const auto args = std::make_shared<DataFilterArgs>();
  app.add_option("--data", args->data, "Files, folders or globs of data, or ids in the hub's cache.")
      ->required()
      ->expected(1, 1000)
      ->type_name("PATH");
  app.add_option("--split", args->split, "Split of data sets that have several.");
  app.add_option("--output", args->output, "The file of the rows that are kept: NAME.jsonl.")
      ->required()
      ->type_name("FILE");
  app.add_flag("--overwrite", args->overwrite, "Replace an existing file.");
  app.add_option("--fields", args->rules.fields, "Fields that the rules look at (default: all).")
      ->delimiter(',');
  app.add_option("--min-tokens", args->rules.min_tokens, "Leave out rows with fewer tokens.")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--max-tokens", args->rules.max_tokens, "Leave out rows with more tokens.")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--model", args->model, "Model whose tokenizer counts tokens: a folder, GGUF file or id.")
      ->type_name("DIR");
  app.add_flag("--exact", args->rules.exact, "Leave out rows that equal an earlier one.");
  add_near_options(app, *args);
  app.add_option("--memory-gib", args->memory_gib,
                 str("Most memory for what is known of kept rows (default: ", args->memory_gib, ")."))
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", args->json, "Print the counts as one JSON object.");
  return {.run = [args] {
    if (!args->model.empty()) args->model = model_folder(args->model, "main", "ft data filter");
    return data_filter(*args);
  }};
}

const Command kDataShow{"show", "Show the samples of a run as the model gets them.",
                        "  ft data show --config run.json --limit 3\n"
                        "  ft data show --config run.json --json | head",
                        data_show_options};
const Command kDataStats{"stats", "Show the lengths of the samples, and the cost of each length limit.",
                         "  ft data stats --config run.json", data_stats_options};
const Command kDataFilter{
    "filter", "Copy data without rows that are too short, too long, or like an earlier one.",
    "  ft data filter --data train.parquet --exact --near --output clean.jsonl\n"
    "  ft data filter --data a.jsonl b.jsonl --fields prompt,response --min-tokens 8 --max-tokens 4096 \\\n"
    "    --model models/base --output clean.jsonl",
    data_filter_options};
constexpr std::array kDataCommands{&kDataShow, &kDataStats, &kDataFilter};

}  // namespace

const Command kData{
    .name = "data", .help = "Inspect and filter training data.", .examples = "", .below = kDataCommands};

}  // namespace ft::commands
