#include "app/samples/data_show.h"

#include <algorithm>
#include <numeric>

#include "app/assembly/built_data.h"
#include "app/samples/show_samples.h"
#include "app/screen/format.h"
#include "data/batches/load_notes.h"
#include "data/batches/sample_reader.h"

namespace ft {
namespace {

constexpr std::int64_t kShown = 5;  // default number of samples in text output

Dataset dataset_of(const SampleReader::Window& window, const LoadContext& context) {
  auto store = std::make_shared<SampleStore>(context.seq2seq.has_value(), context.rows.kind);
  store->start_file(*window.file);
  for (const auto& read : window.samples) store->add(read.sample, read.line);
  std::vector<std::int64_t> rows(window.samples.size());
  std::iota(rows.begin(), rows.end(), 0);
  return {std::move(store), std::move(rows)};
}

// Shows the first samples of a stream in the order of its datasets. Reads the files only as far as it shows
// them.
void show_stream(const RunConfig& config, const DataShowArgs& args, Screen& out) {
  constexpr std::int64_t kWindow = 1024;  // rows in memory at a time
  const auto tokenizer = std::make_shared<std::shared_ptr<const Tokenizer>>();
  const LoadContext context = load_context(config, vocab_size_of(config), tokenizer);
  check_data(config.data, context);
  const std::int64_t most = args.limit.value_or(args.json ? INT64_MAX : kShown);
  std::int64_t shown = 0;
  LoadCounts counts;
  for (std::size_t d = 0; d < config.data.datasets.size() && shown < most; ++d) {
    SampleReader reader(config.data, config.data.datasets[d], context, str("data.datasets[", d, "]"));
    SampleReader::Window window;
    while (shown < most && reader.next(window, std::min(kWindow, most - shown))) {
      const Dataset data = dataset_of(window, context);
      if (args.json) show_samples_json(data, {}, out);
      for (std::int64_t i = 0; !args.json && i < data.size(); ++i)
        show_sample(data, i, str("sample ", show::count(shown + i + 1)), tokenizer->get(), out);
      shown += data.size();
    }
    counts.add(reader.counts());
  }
  Screen aside(Screen::standard_error());
  for (const std::string& note : notes_of_rows(counts)) aside.line(note);
  if (args.json) return;
  const auto too_long = [](std::int64_t n, const char* what) {
    return n > 0 ? str(", ", show::count(n), " too long and ", what) : "";
  };
  out.line(str(show::plural(shown, "sample"), " of the first ", show::plural(counts.rows, "row"),
               too_long(counts.truncated, "cut"), too_long(counts.dropped, "left out"),
               "; data.streaming is on, so no more was read: --limit"));
}

void show_loaded(const RunConfig& config, const DataShowArgs& args, Screen& out) {
  const BuiltData data =
      build_data(config, {.vocab_size = vocab_size_of(config)}, LoadPart::train_and_eval, {});
  Screen aside(Screen::standard_error());
  for (const std::string& text : data.loaded.notes) aside.line(text);
  if (args.json)
    show_samples_json(data.loaded.train, args.limit, out);
  else
    show_samples(data.loaded.train, data.tokenizer.get(), args.limit.value_or(kShown), out);
}

}  // namespace

Exit data_show(const DataShowArgs& args) {
  const RunConfig config = load_config(args.config, args.settings());
  Screen out(Screen::standard_output());
  config.data.streaming ? show_stream(config, args, out) : show_loaded(config, args, out);
  return Exit::done;
}

}  // namespace ft
