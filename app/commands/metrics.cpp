// ft metrics.
#include "app/answers/metrics.h"

#include "app/commands/list.h"

namespace ft::commands {
namespace {

Use metrics_options(CLI::App& app) {
  const auto args = std::make_shared<MetricsArgs>();
  app.add_option("--hypotheses", args->hypotheses, "The answers, one per line.")
      ->required()
      ->type_name("FILE");
  app.add_option("--references", args->references, "The references, one per line.")
      ->required()
      ->type_name("FILE");
  app.add_flag("--use-stemmer", args->use_stemmer,
               "Compare word stems in ROUGE (Porter's stemmer, English).");
  app.add_flag("--json", args->json, "One JSON object.");
  return {.run = [args] { return metrics_command(*args); }};
}

}  // namespace

const Command kMetrics{"metrics", "Score answers against references with BLEU, chrF and ROUGE.",
                       "  ft metrics --hypotheses answers.txt --references expected.txt\n"
                       "  ft metrics --hypotheses answers.txt --references expected.txt --json",
                       metrics_options};

}  // namespace ft::commands
