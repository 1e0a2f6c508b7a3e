// ft generate.
#include "app/answers/generate.h"

#include "app/commands/answerer_options.h"
#include "app/commands/list.h"
#include "app/config/hub_folders.h"
#include "app/launch/launch.h"

namespace ft::commands {
namespace {

Use generate_options(CLI::App& app) {
  const auto args = std::make_shared<GenerateArgs>();
  add_answerer_options(app, *args);
  auto* input = app.add_option("--input", args->input,
                               "Rows with \"prompt\" (a text), \"messages\" or \"input_ids\"; see "
                               "docs/generation.md.")
                    ->type_name("FILE");
  auto* output =
      app.add_option("--output", args->output, "The same rows with \"completion\" and \"output_ids\".")
          ->type_name("FILE");
  auto* prompt = app.add_option("--prompt", args->prompt, "One prompt, instead of files.")->type_name("TEXT");
  app.add_flag("--overwrite", args->overwrite, "Replace the output file if it exists.");
  app.callback([input, output, prompt] {
    const bool files = *input && *output && !*prompt, one = *prompt && !*input && !*output;
    if (!files && !one)
      throw UserError(Exit::config, "ft generate: give --input FILE and --output FILE, or --prompt TEXT");
  });
  return {
      .run =
          [args] {
            args->model = model_folder(args->model, "main", "ft generate");
            return generate(*args);
          },
      .launch = [args](const LaunchArgs& launched) {  // logs lie next to the answers: there is no run folder
        return launch(launched, args->output.empty() ? "generate" : args->output + ".logs", {}, false);
      }};
}

}  // namespace

const Command kGenerate{
    "generate", "Answer prompts: JSON lines in, JSON lines out; or one prompt, answered on stdout.",
    "  ft generate --model models/base --input prompts.jsonl --output answers.jsonl\n"
    "  ft generate --model models/base --adapter outputs/run --prompt \"2 + 2 =\"\n"
    "  ft generate --model models/base --prompt Once generation.do_sample=true generation.temperature=0.8",
    generate_options};

}  // namespace ft::commands
