// ft chat.
#include "app/answers/chat.h"

#include "app/commands/answerer_options.h"
#include "app/commands/list.h"
#include "app/config/hub_folders.h"

namespace ft::commands {
namespace {

Use chat_options(CLI::App& app) {
  const auto args = std::make_shared<AnswererArgs>();
  add_answerer_options(app, *args);
  args->conversation = true;
  return {.run = [args] {
    args->model = model_folder(args->model, "main", "ft chat");
    return chat(*args);
  }};
}

}  // namespace

const Command kChat{"chat", "Chat with a model; /reset starts over, /quit or end of input ends.",
                    "  ft chat --model models/base --adapter outputs/run\n"
                    "  ft chat --model models/base --adapter outputs/run data.chat_template=chatml\n"
                    "  echo \"2 + 2 =\" | ft chat --model models/base generation.max_new_tokens=20",
                    chat_options};

}  // namespace ft::commands
