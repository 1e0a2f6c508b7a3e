#include "app/answers/metrics.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/screen/format.h"
#include "app/version/version.h"
#include "data/files/byte_reader.h"
#include "data/files/utf8.h"
#include "data/metrics/bleu.h"
#include "data/metrics/chrf.h"
#include "data/metrics/rouge.h"
#include "engine/files/json.h"

namespace ft {
namespace {

constexpr std::size_t kLongestSegment = std::size_t{1} << 20;  // bytes; rougeL takes its square / 64 steps

// Reads one segment from each line; an empty line is an empty segment.
std::vector<std::string> read_segments(const std::string& file) {
  std::vector<std::string> segments;
  ByteReader reader({file, file});
  Place at{&file};
  for (std::string line; reader.line(line); line.clear()) {
    ++at.line;
    if (line.ends_with('\r')) line.pop_back();
    if (line.size() > kLongestSegment) at.fail("a line of more than 1 MiB");
    if (!is_utf8(line)) at.fail("not UTF-8");
    segments.push_back(line);
  }
  if (segments.empty()) throw UserError(Exit::input, printable(file) + ": has no lines");
  return segments;
}

}  // namespace

Exit metrics_command(const MetricsArgs& args) {
  const std::vector<std::string> hypotheses = read_segments(args.hypotheses);
  const std::vector<std::string> references = read_segments(args.references);
  const auto lines = [](const std::vector<std::string>& v) {
    return show::plural(static_cast<std::int64_t>(v.size()), "line");
  };
  if (hypotheses.size() != references.size())
    throw UserError(Exit::input, str(printable(args.hypotheses), " has ", lines(hypotheses), " and ",
                                     printable(args.references), " has ", lines(references),
                                     ": line 1 of one is compared with line 1 of the other, and so on"));
  const metrics::Bleu bleu = metrics::corpus_bleu(hypotheses, references);
  const double chrf = metrics::corpus_chrf(hypotheses, references);
  const metrics::Rouge rouge = metrics::mean_rouge(hypotheses, references, args.use_stemmer);
  const std::string signature = str(metrics::kBleuSignature, "|version:ft-", kVersion);
  if (args.json) {
    const Json row = {{"bleu", bleu.score},           {"bleu_signature", signature}, {"chrf", chrf},
                      {"rouge1", rouge.rouge1},       {"rouge2", rouge.rouge2},      {"rougeL", rouge.rougeL},
                      {"segments", hypotheses.size()}};
    std::printf("%s\n", json_text(row, -1).c_str());
    return Exit::done;
  }
  std::printf(
      "BLEU   %6.2f   precisions %.1f %.1f %.1f %.1f, brevity penalty %.3f (%s tokens, reference %s)\n",
      bleu.score, bleu.precisions[0], bleu.precisions[1], bleu.precisions[2], bleu.precisions[3],
      bleu.brevity_penalty, show::count(bleu.hypothesis_tokens).c_str(),
      show::count(bleu.reference_tokens).c_str());
  std::printf("chrF2  %6.2f\n", chrf);
  std::printf(
      "ROUGE  %6.4f   unigrams, %.4f bigrams, %.4f longest common subsequence (rouge1, rouge2, rougeL)\n",
      rouge.rouge1, rouge.rouge2, rouge.rougeL);
  std::printf("over %s   %s\n", show::plural(static_cast<std::int64_t>(hypotheses.size()), "segment").c_str(),
              signature.c_str());
  return Exit::done;
}

}  // namespace ft
