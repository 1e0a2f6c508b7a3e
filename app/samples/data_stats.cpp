#include "app/samples/data_stats.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/assembly/built_data.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "data/batches/statistics.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "models/registry.h"

namespace ft {
namespace {

constexpr std::int64_t kNoLimit = std::int64_t{1} << 40;

// Returns powers of two up to the longest sample, and the configured limit.
std::vector<std::int64_t> limits_for(std::int64_t smallest, std::int64_t longest, std::int64_t configured) {
  std::vector<std::int64_t> limits{configured};
  for (std::int64_t length = smallest; length < 2 * longest && limits.size() < 12; length *= 2)
    limits.push_back(length);
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  return limits;
}

std::string cell(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

std::string percent(std::int64_t part, std::int64_t whole) {
  return show::percent(static_cast<double>(part), static_cast<double>(whole));
}

// Prints the spread and a histogram of lengths; `what` names the samples.
void print_lengths(const LengthStatistics& s, const char* what, Screen& out) {
  out.line(str("tokens per ", what, ": ", show::count(s.shortest), " to ", show::count(s.longest),
               ", median ", show::count(s.median), ", 95 % at most ", show::count(s.p95)));
  out.line("");
  std::int64_t most = 1;
  for (const auto& b : s.histogram) most = std::max(most, b.samples);
  out.line("   up to     samples");
  for (const auto& b : s.histogram) {
    const auto bar = static_cast<std::size_t>((40 * b.samples + most - 1) / most);
    out.line(str(cell(show::count(b.most), 8), cell(show::count(b.samples), 12), "  ", std::string(bar, '#')),
             Screen::kWhole);
  }
  out.line("");
}

const char* lost_as(Truncation truncation) { return truncation == Truncation::drop ? "dropped" : "cut off"; }

void print_table(const DataStatistics& s, std::int64_t configured, Truncation truncation, Screen& out) {
  const std::int64_t tokens = s.lengths.tokens;
  out.line(str(show::plural(s.samples, "sample"), ", ", show::quantity(static_cast<double>(tokens)),
               " tokens (", percent(s.targets, tokens), " trained)"));
  print_lengths(s.lengths, "sample", out);
  out.line(str("max_seq_length   longer   ", lost_as(truncation), "   no target left    packs   in use"),
           Screen::kWhole);
  for (const auto& l : s.limits) {
    const std::string line = str(cell(show::count(l.length), 14), cell(show::count(l.longer), 9),
                                 cell(percent(l.lost, tokens), 10), cell(show::count(l.untrained), 17),
                                 cell(show::count(l.packs), 9),
                                 cell(percent(static_cast<std::int64_t>(l.fill * 10000), 10000), 9));
    out.line(l.length == configured ? out.bold(line) + "  configured" : line, Screen::kWhole);
  }
  out.line("");
  out.line(str("longer: number of samples; ", lost_as(truncation), ": share of all tokens, with truncation ",
               name_of(truncation), "; packs and in use: with packing"));
}

Json to_json(const LengthStatistics& s) {
  Json j{{"shortest", s.shortest},
         {"median", s.median},
         {"p95", s.p95},
         {"longest", s.longest},
         {"histogram", Json::array()}};
  for (const auto& b : s.histogram) j["histogram"].push_back(Json{{"up_to", b.most}, {"samples", b.samples}});
  return j;
}

Json to_json(const DataStatistics& s) {
  Json j = to_json(s.lengths);
  j["samples"] = s.samples;
  j["tokens"] = s.lengths.tokens;
  j["target_tokens"] = s.targets;
  j["limits"] = Json::array();
  for (const auto& l : s.limits)
    j["limits"].push_back(Json{{"max_seq_length", l.length},
                               {"longer", l.longer},
                               {"lost_tokens", l.lost},
                               {"without_target", l.untrained},
                               {"packs", l.packs},
                               {"fill", l.fill}});
  return j;
}

void print_side(const PairStatistics::Side& side, const char* what, std::int64_t configured,
                Truncation truncation, Screen& out) {
  print_lengths(side.lengths, what, out);
  out.line(str("max_", what, "_length   longer   ", lost_as(truncation)), Screen::kWhole);
  for (const auto& l : side.limits) {
    const std::string line = str(cell(show::count(l.length), 17), cell(show::count(l.longer), 9),
                                 cell(percent(l.lost, side.lengths.tokens), 10));
    out.line(l.length == configured ? out.bold(line) + "  configured" : line, Screen::kWhole);
  }
  out.line("");
}

Json to_json(const PairStatistics::Side& side, const char* limit) {
  Json j = to_json(side.lengths);
  j["tokens"] = side.lengths.tokens;
  j["limits"] = Json::array();
  for (const auto& l : side.limits)
    j["limits"].push_back(Json{{limit, l.length}, {"longer", l.longer}, {"lost_tokens", l.lost}});
  return j;
}

void tell_samples(const DataConfig& config, const Dataset& data, Truncation truncation, bool json,
                  Screen& out) {
  const DataStatistics s =
      data_statistics(data, limits_for(128, data.longest(), config.max_seq_length), truncation);
  if (json)
    out.line(json_text(to_json(s), -1), Screen::kWhole);
  else
    print_table(s, config.max_seq_length, truncation, out);
}

// Prints statistics of sources and targets, which have separate length limits.
void tell_pairs(const DataConfig& config, const Dataset& data, Truncation truncation, bool json,
                Screen& out) {
  constexpr std::int64_t kSmallest = 16;
  const std::int64_t source = config.max_source_length, target = config.max_target_length;
  std::int64_t longest_target = 0;
  for (std::int64_t i = 0; i < data.size(); ++i)
    longest_target = std::max(longest_target, static_cast<std::int64_t>(data[i].labels.size()));
  const PairStatistics s = pair_statistics(data, limits_for(kSmallest, data.longest(), source),
                                           limits_for(kSmallest, longest_target, target), truncation);
  const PairCost cost = cost_of(data, source, target, truncation);
  const std::int64_t tokens = s.source.lengths.tokens + s.target.lengths.tokens;
  if (json) {
    const Json j{{"samples", s.samples},
                 {"tokens", tokens},
                 {"target_tokens", data.targets()},
                 {"source", to_json(s.source, "max_source_length")},
                 {"target", to_json(s.target, "max_target_length")},
                 {"longer", cost.longer},
                 {"lost_tokens", cost.lost}};
    return out.line(json_text(j, -1), Screen::kWhole);
  }
  out.line(str(show::plural(s.samples, "sample"), ", ", show::quantity(static_cast<double>(tokens)),
               " tokens (", percent(s.target.lengths.tokens, tokens), " in targets)"));
  print_side(s.source, "source", source, truncation, out);
  print_side(s.target, "target", target, truncation, out);
  out.line(str("as configured: ", show::plural(cost.longer, "sample"), " longer on either side, ",
               percent(cost.lost, tokens), " of all tokens ", lost_as(truncation), ", with truncation ",
               name_of(truncation)));
}

}  // namespace

Exit data_stats(const DataStatsArgs& args) {
  RunConfig config = load_config(args.config, args.settings());
  if (config.objective.compares())
    throw UserError(Exit::config, str("objective.type: ft data stats is for examples, not for the rows of ",
                                      name_of(config.objective.type), "; ft data show shows them"));
  const DataConfig configured = config.data;
  const bool pairs = read_decoder_tokens(join_path(config.model.folder(), "config.json")).has_value();
  const Truncation truncation =
      configured.truncation == Truncation::error ? Truncation::drop : configured.truncation;
  config.data.streaming = false;
  (pairs ? config.data.max_source_length : config.data.max_seq_length) = kNoLimit;
  if (pairs) {
    config.data.max_target_length = kNoLimit;
  } else {
    config.data.packing = false;
    config.data.pad_to_max_length = false;
  }
  const BuiltData data =
      build_data(config, {.vocab_size = vocab_size_of(config)}, LoadPart::train_and_eval, {});
  Screen out(Screen::standard_output());
  (pairs ? tell_pairs : tell_samples)(configured, data.loaded.train, truncation, args.json, out);
  return Exit::done;
}

}  // namespace ft
