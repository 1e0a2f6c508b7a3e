// ft serve.
#include "app/serve/serve.h"

#include "app/commands/answerer_options.h"
#include "app/commands/list.h"
#include "app/commands/server_options.h"
#include "app/config/hub_folders.h"

namespace ft::commands {
namespace {

Use serve_options(CLI::App& app) {
  const auto args = std::make_shared<ServeArgs>();
  add_answerer_options(app, *args, false);
  app.add_option("--adapter", args->adapters,
                 "PEFT adapter that requests can name as their model; may be repeated.")
      ->allow_extra_args(false)
      ->type_name("NAME=DIR");
  app.add_option("--name", args->name, "The model's name in requests, if not that of its folder.")
      ->type_name("NAME");
  app.add_option("--max-loras", args->max_loras,
                 "Adapters that requests may load, from any folder that this process can read.")
      ->check(CLI::Range(0, 64))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--max-lora-rank", args->max_lora_rank,
                 "With --max-loras: largest rank of such an adapter. [16]")
      ->check(CLI::Range(1, 4096))
      ->type_name("R");
  add_server_options(app, {args->host, args->port, args->allowed_origins, args->key_file, args->https});
  app.add_option("--max-waiting", args->max_waiting, "Requests that may wait; further ones are refused.")
      ->check(CLI::Range(1, 10000))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--max-reply", args->max_reply,
                 "Largest reply with embeddings, such as 200MB; larger requests are refused. [64MiB]")
      ->type_name("SIZE");
  app.add_flag("--sandbox", args->sandbox,
               "Read only the files that this needs, write none, run no program, connect to nothing (Linux's "
               "Landlock and seccomp; on CPUs).");
  args->conversation = true;
  return {.run = [args] {
    if (args->name.empty()) args->name = name_of_model(args->model);
    args->model = model_folder(args->model, "main", "ft serve");
    return serve(*args);
  }};
}

}  // namespace

const Command kServe{"serve", "Answer over HTTP, as OpenAI's API does, with a page to chat: docs/serve.md.",
                     "  ft serve --model models/base\n"
                     "  ft serve --model models/base --adapter cheerful=outputs/a --adapter brief=outputs/b\n"
                     "  ft serve --model models/base --host 0.0.0.0 --port 443 --api-key-file key.txt \\\n"
                     "           --tls-cert cert.pem --tls-key key.pem\n"
                     "  curl localhost:8000/v1/completions -H 'Content-Type: application/json' \\\n"
                     "       -d '{\"model\": \"base\", \"prompt\": \"2 + 2 =\", \"max_tokens\": 20}'",
                     serve_options};

}  // namespace ft::commands
