// ft validate.
#include "app/train/validate.h"

#include "app/commands/list.h"
#include "app/commands/run_options.h"

namespace ft::commands {
namespace {

Use validate_options(CLI::App& app) {
  const auto args = std::make_shared<ValidateArgs>();
  add_run_options(app, *args);
  app.add_flag("--json", args->json,
               "Print the verdict on each key of DeepSpeed's file, as one JSON object on stdout.");
  return {.run = [args] { return validate(*args); }};
}

}  // namespace

const Command kValidate{"validate", "Check a configuration and the files it names; exit 0 or 2.",
                        "  ft validate --config run.json\n"
                        "  ft validate --config run.json lora.target_modules=all-linear\n"
                        "  ft validate --config run.json --deepspeed ds.json     the verdict on each key",
                        validate_options};

}  // namespace ft::commands
