// ft tokenize.
#include "app/samples/tokenize.h"

#include "app/commands/list.h"
#include "app/config/hub_folders.h"

namespace ft::commands {
namespace {

Use tokenize_options(CLI::App& app) {
  const auto args = std::make_shared<TokenizeOptions>();
  app.add_option("--model", args->model,
                 "A folder with a tokenizer, a GGUF file, or an id in the hub's cache.")
      ->required()
      ->type_name("DIR");
  app.add_flag("--no-special-tokens", args->no_special_tokens, "Do not add BOS or EOS.");
  auto* decode = app.add_flag("--decode", args->decode, "Convert ids to texts.");
  app.add_flag("--skip-special-tokens", args->skip_special_tokens, "With --decode: leave out BOS and EOS.")
      ->needs(decode);
  return {.run = [args] {
    args->model = model_folder(args->model, "main", "ft tokenize");
    tokenize_command(*args);
    return Exit::done;
  }};
}

}  // namespace

const Command kTokenize{"tokenize", "Convert texts to token ids and back: JSON lines on stdin and stdout.",
                        "  echo '\"Hello\"' | ft tokenize --model models/base\n"
                        "  echo '[1, 15043]' | ft tokenize --model models/base --decode",
                        tokenize_options};

}  // namespace ft::commands
