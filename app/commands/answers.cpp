// Commands in which a model answers, or says what answers are worth: generate, score, chat,
// serve.
#include "app/commands/command_parser.h"
#include "app/config/hub_folders.h"

namespace ft {

void CommandLine::about_an_answerer(CLI::App* app, AnswererArgs& args, bool adapter) {
  app->add_option("--model", args.model, "Model folder, or id in the hub's cache.")
      ->required()
      ->type_name("DIR");
  if (adapter)
    app->add_option("--adapter", args.adapter, "PEFT adapter to apply to the model.")->type_name("DIR");
  app->add_option("--dtype", args.dtype, "Type to compute in; auto: the model's, where this machine has it.")
      ->check(CLI::IsMember(kAnswerDtypes))
      ->capture_default_str();
  app->add_option("--quantize", args.quantize, "Keep the weights of linear layers in 4 or 8 bits.")
      ->check(CLI::IsMember({"nf4", "fp4", "int8"}));
  app->add_option("--quantize-head", args.quantize_head,
                  "Keep the weights of the output head in 8 bits, which nf4 and fp4 leave as they are.")
      ->check(CLI::IsMember({"int8"}));
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
      generate
          ->add_option(
              "--input", generate_.input,
              "Rows with \"prompt\" (a text), \"messages\" or \"input_ids\"; see docs/generation.md.")
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

void CommandLine::serving() {
  auto* serve =
      command("serve", "Answer over HTTP, as OpenAI's API does: docs/serve.md.",
              "  ft serve --model models/base\n"
              "  ft serve --model models/base --adapter cheerful=outputs/a --adapter brief=outputs/b\n"
              "  ft serve --model models/base --host 0.0.0.0 --port 80 --api-key-file key.txt\n"
              "  curl localhost:8000/v1/completions -H 'Content-Type: application/json' \\\n"
              "       -d '{\"model\": \"base\", \"prompt\": \"2 + 2 =\", \"max_tokens\": 20}'");
  about_an_answerer(serve, serve_, false);
  serve
      ->add_option("--adapter", serve_.adapters,
                   "PEFT adapter that requests can name as their model; may be repeated.")
      ->allow_extra_args(false)
      ->type_name("NAME=DIR");
  serve->add_option("--name", serve_.name, "The model's name in requests, if not that of its folder.")
      ->type_name("NAME");
  serve->add_option("--host", serve_.host, "Address to listen at.")->type_name("HOST")->capture_default_str();
  serve->add_option("--port", serve_.port, "Port to listen at; 0: any free one.")
      ->check(CLI::Range(0, 65535))
      ->type_name("PORT")
      ->capture_default_str();
  serve->add_option("--api-key-file", serve_.key_file, "File whose first line is the key that clients need.")
      ->type_name("FILE");
  serve->add_option("--max-waiting", serve_.max_waiting, "Requests that may wait; further ones are refused.")
      ->check(CLI::Range(1, 10000))
      ->type_name("N")
      ->capture_default_str();
  serve_.conversation = true;
  serve->callback([this] {
    action_ = [this] {
      if (serve_.name.empty()) serve_.name = name_of_model(serve_.model);
      serve_.model = model_folder(serve_.model, "main", "ft serve");
      return ft::serve(serve_);
    };
  });
}

}  // namespace ft
