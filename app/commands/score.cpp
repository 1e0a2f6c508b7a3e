// ft score.
#include "app/answers/score.h"

#include "app/commands/list.h"

namespace ft::commands {
namespace {

Use score_options(CLI::App& app) {
  const auto args = std::make_shared<ScoreArgs>();
  app.add_option("--model", args->model, "Model folder.")->required()->type_name("DIR");
  app.add_option("--adapter", args->adapter, "PEFT adapter that scores or embeds.")->type_name("DIR");
  app.add_option(
         "--input", args->input,
         "Rows with \"input_ids\" or \"text\"; of a reward model also \"prompt\" and \"completion\", or "
         "\"messages\".")
      ->required()
      ->type_name("FILE");
  app.add_option("--output", args->output, "The same rows with what the model gives: docs/classify.md.")
      ->required()
      ->type_name("FILE");
  app.add_option("--dtype", args->dtype, "Type of the computation.")
      ->check(CLI::IsMember(kDtypes))
      ->capture_default_str();
  app.add_flag("--overwrite", args->overwrite, "Replace the output file if it exists.");
  app.add_option("settings", args->overrides, "Settings, such as data.chat_template=llama3.")
      ->type_name("section.key=value");
  return {.run = [args] { return score(*args); }};
}

}  // namespace

const Command kScore{
    "score", "Score, classify or embed texts: JSON lines in, JSON lines out.",
    "  ft score --model models/base --adapter outputs/reward --input rows.jsonl --output "
    "scored.jsonl\n"
    "  ft score --model outputs/reward --input rows.jsonl --output scored.jsonl data.chat_template=llama3",
    score_options};

}  // namespace ft::commands
