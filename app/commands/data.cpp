// Commands about data: tokenize, data show, data stats, metrics.
#include "app/commands/command_parser.h"

namespace ft {

void CommandLine::data() {
  auto* tokenize = command("tokenize", "Convert texts to token ids and back: JSON lines on stdin and stdout.",
                           "  echo '\"Hello\"' | ft tokenize --model models/base\n"
                           "  echo '[1, 15043]' | ft tokenize --model models/base --decode");
  tokenize->add_option("--model", tokenize_.model, "A folder with a tokenizer, or an id in the hub's cache.")
      ->required()
      ->type_name("DIR");
  tokenize->add_flag("--no-special-tokens", tokenize_.no_special_tokens, "Do not add BOS or EOS.");
  auto* decode = tokenize->add_flag("--decode", tokenize_.decode, "Convert ids to texts.");
  tokenize
      ->add_flag("--skip-special-tokens", tokenize_.skip_special_tokens,
                 "With --decode: leave out BOS and EOS.")
      ->needs(decode);
  on_model(tokenize, tokenize_.model, [this] { return tokenize_command(tokenize_), Exit::done; });

  auto* data = app_.add_subcommand("data", "Inspect training data.");
  data->set_help_flag("-h,--help", "Show this help.");
  data->require_subcommand(1);
  auto* show = command("show", "Show the samples of a run as the model will see them.",
                       "  ft data show --config run.json --limit 3\n"
                       "  ft data show --config run.json --json | head",
                       data);
  about_a_run(show, data_show_);
  show->add_flag("--json", data_show_.json, "One JSON object a line: input_ids, labels, source.");
  show->add_option("--limit", data_show_.limit, "Show at most N samples.")->check(CLI::NonNegativeNumber);
  show->callback([this] { action_ = [this] { return ft::data_show(data_show_); }; });

  auto* stats = command("stats", "Show the lengths of the samples, and what each length limit would cost.",
                        "  ft data stats --config run.json", data);
  about_a_run(stats, data_stats_);
  stats->add_flag("--json", data_stats_.json, "One JSON object.");
  stats->callback([this] { action_ = [this] { return ft::data_stats(data_stats_); }; });

  auto* metrics = command("metrics", "Score answers against references with BLEU, chrF and ROUGE.",
                          "  ft metrics --hypotheses answers.txt --references expected.txt\n"
                          "  ft metrics --hypotheses answers.txt --references expected.txt --json");
  metrics->add_option("--hypotheses", metrics_.hypotheses, "The answers, one per line.")
      ->required()
      ->type_name("FILE");
  metrics->add_option("--references", metrics_.references, "The references, one per line.")
      ->required()
      ->type_name("FILE");
  metrics->add_flag("--use-stemmer", metrics_.use_stemmer,
                    "Compare word stems in ROUGE (Porter's stemmer, English).");
  metrics->add_flag("--json", metrics_.json, "One JSON object.");
  metrics->callback([this] { action_ = [this] { return metrics_command(metrics_); }; });
}

}  // namespace ft
