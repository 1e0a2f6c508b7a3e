// Commands in which a model answers, or says what answers are worth: generate, score, chat.
#include "app/commands/command_parser.h"
#include "app/config/hub_folders.h"

namespace ft {

void CommandLine::about_an_answerer(CLI::App* app, AnswererArgs& args) {
  app->add_option("--model", args.model, "Model folder, or id in the hub's cache.")
      ->required()
      ->type_name("DIR");
  app->add_option("--adapter", args.adapter, "PEFT adapter to apply to the model.")->type_name("DIR");
  app->add_option("--dtype", args.dtype, "Type to compute in.")
      ->check(CLI::IsMember(kDtypes))
      ->capture_default_str();
  app->add_option("settings", args.overrides, "Settings, see: ft help config generation.")
      ->type_name("generation.key=value");
}

void CommandLine::answers() {
  auto* generate = command(
      "generate", "Answer prompts: JSON lines in, JSON lines out; or one prompt, answered on stdout.",
      "  ft generate --model models/base --input prompts.jsonl --output answers.jsonl\n"
      "  ft generate --model models/base --adapter outputs/run --prompt \"2 + 2 =\"\n"
      "  ft generate --model models/base --prompt Once generation.do_sample=true generation.temperature=0.8");
  about_an_answerer(generate, generate_);
  auto* input =
      generate->add_option("--input", generate_.input, "Rows with \"prompt\" (text) or \"input_ids\".")
          ->type_name("FILE");
  auto* output =
      generate
          ->add_option("--output", generate_.output, "The same rows with \"completion\" and \"output_ids\".")
          ->type_name("FILE");
  auto* prompt =
      generate->add_option("--prompt", generate_.prompt, "One prompt, instead of files.")->type_name("TEXT");
  generate->add_flag("--overwrite", generate_.overwrite, "Replace the output file if it exists.");
  generate->callback([this, input, output, prompt] {
    const bool files = *input && *output && !*prompt, one = *prompt && !*input && !*output;
    if (!files && !one)
      throw UserError(Exit::config, "ft generate: give --input FILE and --output FILE, or --prompt TEXT");
    action_ = [this] {
      generate_.model = model_folder(generate_.model, "main", "ft generate");
      return ft::generate(generate_);
    };
  });

  auto* score = command("score", "Score answers with a reward model: JSON lines in, JSON lines out.",
                        "  ft score --model models/base --adapter outputs/reward --input rows.jsonl --output "
                        "scored.jsonl\n"
                        "  ft score --model outputs/reward --input rows.jsonl --output scored.jsonl "
                        "data.chat_template=llama3");
  score->add_option("--model", score_.model, "Model folder.")->required()->type_name("DIR");
  score->add_option("--adapter", score_.adapter, "PEFT adapter with the score.")->type_name("DIR");
  score
      ->add_option("--input", score_.input,
                   "Rows with \"input_ids\", \"prompt\" and \"completion\", or \"messages\".")
      ->required()
      ->type_name("FILE");
  score->add_option("--output", score_.output, "The same rows with \"reward\".")
      ->required()
      ->type_name("FILE");
  score->add_option("--dtype", score_.dtype, "Type to compute in.")
      ->check(CLI::IsMember(kDtypes))
      ->capture_default_str();
  score->add_flag("--overwrite", score_.overwrite, "Replace the output file if it exists.");
  score->add_option("settings", score_.overrides, "Settings, such as data.chat_template=llama3.")
      ->type_name("section.key=value");
  score->callback([this] { action_ = [this] { return ft::score(score_); }; });

  auto* chat = command("chat", "Chat with a model; /reset starts over, /quit or end of input ends.",
                       "  ft chat --model models/base --adapter outputs/run\n"
                       "  ft chat --model models/base --adapter outputs/run data.chat_template=chatml\n"
                       "  echo \"2 + 2 =\" | ft chat --model models/base generation.max_new_tokens=20");
  about_an_answerer(chat, chat_);
  chat_.conversation = true;
  on_model(chat, chat_.model, [this] { return ft::chat(chat_); });
}

}  // namespace ft
