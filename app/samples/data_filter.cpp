#include "app/samples/data_filter.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/config/config.h"
#include "app/config/gguf_base.h"
#include "app/hub/access.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "data/files/files.h"
#include "data/files/parallel.h"
#include "engine/files/file.h"
#include "engine/files/json.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWindowRows = 4096;
constexpr std::size_t kWindowBytes = std::size_t{16} << 20;

[[noreturn]] void refuse(const std::string& what) { throw UserError(Exit::config, what); }

void check(const DataFilterArgs& args) {
  const FilterRules& rules = args.rules;
  const bool tokens = rules.min_tokens || rules.max_tokens;
  if (!rules.exact && !args.near && !tokens)
    refuse("ft data filter: no rule; give --exact, --near, --min-tokens or --max-tokens");
  if (tokens && args.model.empty()) refuse("--min-tokens and --max-tokens need the tokenizer of --model DIR");
  if (!tokens && !args.model.empty()) refuse("--model: has no effect without --min-tokens or --max-tokens");
  if (rules.min_tokens && rules.max_tokens && *rules.min_tokens > *rules.max_tokens)
    refuse(str("--min-tokens: is ", *rules.min_tokens, ", and --max-tokens ", *rules.max_tokens,
               "; nothing would be kept"));
  if (args.near && args.near_rule.permutations % args.near_rule.bands != 0)
    refuse(str("--bands: ", args.near_rule.bands, " bands do not divide ", args.near_rule.permutations,
               " permutations equally"));
  if (const std::string kind = fs::path(args.output).extension().string(); kind != ".jsonl")
    refuse(str(
        "--output: ", printable(args.output), " must end in .jsonl: ft writes JSON lines",
        kind == ".parquet" ? ", which ft and datasets' load_dataset(\"json\") read as they do Parquet" : ""));
  if (path_exists(args.output) && !args.overwrite)
    refuse(str(printable(args.output), " already exists; --overwrite replaces it"));
}

std::vector<DataFile> files_of(const DataFilterArgs& args) {
  std::vector<DataFile> all;
  for (const std::string& path : args.data) {
    DatasetConfig dataset;
    dataset.path = home_expanded(path);
    dataset.split = args.split;
    std::ranges::move(find_data_files(dataset, {.base = {}, .hub = hub::cache_folder()}, "--data"),
                      std::back_inserter(all));
  }
  std::error_code none;
  for (const DataFile& file : all)
    if (fs::equivalent(file.path, args.output, none))
      refuse(str("--output: ", printable(args.output), " is one of the files to read"));
  return all;
}

std::shared_ptr<const Tokenizer> tokenizer_of(const std::string& model) {
  if (model.empty()) return nullptr;
  BaseModelConfig base{.model_name_or_path = model};
  if (std::error_code none; fs::is_regular_file(model, none)) prepare_base(base);
  return make_tokenizer(base.unpacked ? base.folder() : model);
}

// Reads up to a window of rows of a file; returns none at its end.
std::vector<Row> window_of(RowReader& rows) {
  std::vector<Row> window;
  std::size_t bytes = 0;
  for (Row row; window.size() < kWindowRows && bytes < kWindowBytes && rows.next(row);) {
    bytes += row.text.size();
    window.push_back(std::move(row));
  }
  return window;
}

// Writes a row on one line. Line breaks are only between the values of its JSON.
void write_row(AtomicFile& to, std::string text) {
  std::ranges::replace(text, '\n', ' ');
  std::ranges::replace(text, '\r', ' ');
  to.write(text + "\n");
}

void filter_file(const DataFile& file, RowFilter& filter, AtomicFile& to) {
  const std::unique_ptr<RowReader> rows = open_rows(file);
  if (const auto names = rows->columns()) rows->read_only(*names);
  const auto threads = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  for (std::vector<Row> window = window_of(*rows); !window.empty(); window = window_of(*rows)) {
    std::vector<RowFilter::Facts> facts(window.size());
    parallel_for(std::ssize(window), threads, [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      facts[at] = filter.facts(window[at], {&file.name, window[at].line});
    });
    for (std::size_t i = 0; i < window.size(); ++i)
      if (filter.judge(facts[i]) == RowFate::kept) write_row(to, std::move(window[i].text));
  }
}

void tell(const DataFilterArgs& args, const RowFilter& filter, Screen& out) {
  std::int64_t rows = 0;
  for (const auto& [fate, name] : words(RowFate())) rows += filter.count(fate);
  if (args.json) {
    Json counts{{"rows", rows}};
    for (const auto& [fate, name] : words(RowFate())) counts[std::string(name)] = filter.count(fate);
    return out.line(json_text(counts, -1), Screen::kWhole);
  }
  const auto line = [&](const char* what, RowFate fate, bool asked) {
    const std::string count = show::count(filter.count(fate));
    if (asked)
      out.line(str(std::string(12 - std::min<std::size_t>(12, count.size()), ' '), count, "  ", what),
               Screen::kWhole);
  };
  out.line(str(show::plural(rows, "row"), " read"));
  line("with fewer tokens than --min-tokens", RowFate::too_short, args.rules.min_tokens.has_value());
  line("with more tokens than --max-tokens", RowFate::too_long, args.rules.max_tokens.has_value());
  line("equal to an earlier row", RowFate::equal, args.rules.exact);
  line("nearly equal to an earlier row", RowFate::near, args.near);
  line(str("kept in ", printable(args.output)).c_str(), RowFate::kept, true);
}

}  // namespace

Exit data_filter(const DataFilterArgs& args) {
  check(args);
  const std::vector<DataFile> files = files_of(args);
  const auto tokenizer = tokenizer_of(args.model);
  FilterRules rules = args.rules;
  if (args.near) rules.near = args.near_rule;
  rules.most_bytes = static_cast<std::int64_t>(args.memory_gib * (std::int64_t{1} << 30));
  RowFilter filter(std::move(rules), tokenizer.get());
  AtomicFile to(args.output);
  for (const DataFile& file : files) filter_file(file, filter, to);
  if (filter.count(RowFate::kept) == 0)
    throw UserError(Exit::input, "ft data filter: the rules leave out every row; nothing is written");
  to.commit();
  Screen out(Screen::standard_output());
  tell(args, filter, out);
  return Exit::done;
}

}  // namespace ft
