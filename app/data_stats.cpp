// ft data stats: how long the samples of a run are, and what each max_seq_length would cost.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/assembly.h"
#include "app/commands.h"
#include "app/format.h"
#include "app/screen.h"
#include "data/statistics.h"
#include "engine/io/file.h"
#include "engine/io/json.h"

namespace ft {
namespace {

constexpr std::int64_t kNoLimit = std::int64_t{1} << 40;

// Powers of two around the lengths there are, and the configuration's own.
std::vector<std::int64_t> limits_for(std::int64_t longest, std::int64_t configured) {
  std::vector<std::int64_t> limits{configured};
  for (std::int64_t length = 128; length < 2 * longest && limits.size() < 12; length *= 2)
    limits.push_back(length);
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  return limits;
}

std::string cell(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

void print_table(const DataStatistics& s, std::int64_t configured, const std::string& truncation,
                 Screen& out) {
  const auto percent = [](std::int64_t part, std::int64_t whole) {
    return show::percent(static_cast<double>(part), static_cast<double>(whole));
  };
  out.line(str(show::plural(s.samples, "sample"), ", ", show::quantity(static_cast<double>(s.tokens)),
               " tokens (", percent(s.targets, s.tokens), " trained)"));
  out.line(str("tokens of a sample: ", show::count(s.shortest), " to ", show::count(s.longest),
               ", half of them up to ", show::count(s.median), ", 95 % up to ", show::count(s.p95)));
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
  out.line(str("max_seq_length   longer   ", truncation == "drop" ? "dropped" : "cut off",
               "   no target left    packs   in use"),
           Screen::kWhole);
  for (const auto& l : s.limits) {
    const std::string line = str(cell(show::count(l.length), 14), cell(show::count(l.longer), 9),
                                 cell(percent(l.lost, s.tokens), 10), cell(show::count(l.untrained), 17),
                                 cell(show::count(l.packs), 9),
                                 cell(percent(static_cast<std::int64_t>(l.fill * 10000), 10000), 9));
    out.line(l.length == configured ? out.bold(line) + "  as configured" : line, Screen::kWhole);
  }
  out.line("");
  out.line(str("longer: samples; cut off: of all tokens, by truncation ", truncation,
               "; packs and their use: with packing"));
}

Json to_json(const DataStatistics& s) {
  Json j{{"samples", s.samples},   {"tokens", s.tokens},         {"target_tokens", s.targets},
         {"shortest", s.shortest}, {"median", s.median},         {"p95", s.p95},
         {"longest", s.longest},   {"histogram", Json::array()}, {"limits", Json::array()}};
  for (const auto& b : s.histogram) j["histogram"].push_back(Json{{"up_to", b.most}, {"samples", b.samples}});
  for (const auto& l : s.limits)
    j["limits"].push_back(Json{{"max_seq_length", l.length},
                               {"longer", l.longer},
                               {"lost_tokens", l.lost},
                               {"without_target", l.untrained},
                               {"packs", l.packs},
                               {"fill", l.fill}});
  return j;
}

}  // namespace

Exit data_stats(const DataStatsArgs& args) {
  RunConfig config = load_config(args.config, args.overrides);
  config.data.streaming = false;
  if (read_decoder_tokens(join_path(config.model.model_name_or_path, "config.json")))
    throw UserError(
        Exit::config,
        "ft data stats counts the samples of decoders only; of an encoder-decoder see ft data show");
  const std::int64_t configured = config.data.max_seq_length;
  const std::string truncation = config.data.truncation == "error" ? "drop" : config.data.truncation;
  config.data.max_seq_length = kNoLimit;
  config.data.packing = false;
  config.data.pad_to_max_length = false;
  const BuiltData data = build_data(config, vocab_size_of(config), LoadPart::train_and_eval, {});
  const Dataset& train = data.loaded.train;
  const auto limits = limits_for(train.longest(), configured);
  const DataStatistics statistics = data_statistics(train, limits, truncation);
  Screen out(Screen::standard_output());
  if (args.json)
    out.line(json_text(to_json(statistics), -1), Screen::kWhole);
  else
    print_table(statistics, configured, truncation, out);
  return Exit::done;
}

}  // namespace ft
