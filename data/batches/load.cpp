#include "data/batches/load.h"

#include <algorithm>
#include <cmath>

#include "data/batches/load_notes.h"
#include "data/batches/prepared.h"
#include "data/batches/sample_reader.h"
#include "data/chat/chat_markers.h"
#include "data/shuffle.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr std::int64_t kWindowRows = 8192;
constexpr double kMostMixed = 1e9;  // samples of an epoch of datasets that are mixed by shares

// Reads datasets one after another into one store.
ReadDatasets read_datasets(const DataConfig& config, const std::vector<DatasetConfig>& datasets,
                           const std::string& setting, const LoadContext& context) {
  ReadDatasets out{.store = std::make_shared<SampleStore>(context.seq2seq.has_value(), context.rows.kind)};
  std::vector<std::unique_ptr<SampleReader>> readers;
  std::int64_t done = 0, total = 0;  // bytes
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    readers.push_back(
        std::make_unique<SampleReader>(config, datasets[i], context, str(setting, "[", i, "]")));
    total += readers.back()->bytes();
  }
  for (const auto& reader : readers) {
    SampleReader::Window window;
    for (const std::string* file = nullptr; reader->next(window, kWindowRows);) {
      if (file != window.file) out.store->start_file(*(file = window.file));
      for (const auto& read : window.samples) out.store->add(read.sample, read.line);
      if (context.progress) context.progress(done + reader->bytes_read(), total);
    }
    done += reader->bytes();
    out.bounds.push_back(out.store->size());
    out.counts.add(reader->counts());
  }
  return out;
}

// Reads the first row of each dataset.
LoadCounts counts_of_first_rows(const DataConfig& config, const LoadContext& context) {
  LoadCounts counts;
  for (std::size_t i = 0; i < config.datasets.size(); ++i) {
    SampleReader reader(config, config.datasets[i], context, str("data.datasets[", i, "]"));
    SampleReader::Window window;
    reader.next(window, 1);
    counts.add(reader.counts());
  }
  return counts;
}

// Reads datasets, or an earlier run's tokens from the cache of prepared data. Writes new tokens to the cache.
ReadDatasets read_or_prepared(const DataConfig& config, const std::vector<DatasetConfig>& datasets,
                              const std::string& setting, const LoadContext& context,
                              std::vector<std::string>& notes) {
  if (!config.dataset_prepared_path) return read_datasets(config, datasets, setting, context);
  const PreparedFile file(config, datasets, setting, context);
  if (auto data = file.read()) {
    notes.push_back(str(setting, ": prepared tokens read from ", file.path().string()));
    return std::move(*data);
  }
  ReadDatasets data = read_datasets(config, datasets, setting, context);
  file.write(data);
  notes.push_back(str(setting, ": prepared tokens saved to ", file.path().string()));
  return data;
}

// By dataset: its samples.
using Samples = std::vector<std::vector<std::int64_t>>;

// Returns the samples that are not held out (`held` is sorted).
Samples trained_samples(const std::vector<std::int64_t>& bounds, const std::vector<std::int64_t>& held) {
  Samples all(bounds.size() - 1);
  for (std::size_t d = 0; d < all.size(); ++d)
    for (std::int64_t i = bounds[d]; i < bounds[d + 1]; ++i)
      if (!std::binary_search(held.begin(), held.end(), i)) all[d].push_back(i);
  return all;
}

std::vector<double> weights_of(const std::vector<DatasetConfig>& datasets) {
  std::vector<double> all;
  for (const DatasetConfig& d : datasets) all.push_back(d.weight);
  return all;
}

// Returns each sample as often as its dataset's weight says.
std::vector<std::int64_t> weighted(const Samples& samples, const std::vector<double>& weights,
                                   Random random) {
  std::vector<std::int64_t> rows;
  for (std::size_t d = 0; d < samples.size(); ++d) {
    const std::vector<std::int64_t>& own = samples[d];
    const double whole = std::floor(weights[d]);
    for (double copy = 0; copy < whole; ++copy) rows.insert(rows.end(), own.begin(), own.end());
    const auto count = static_cast<std::int64_t>(own.size());
    auto part = permutation(count, random.with(d));
    part.resize(static_cast<std::size_t>(std::llround((weights[d] - whole) * static_cast<double>(count))));
    std::sort(part.begin(), part.end());
    for (const std::int64_t i : part) rows.push_back(own[static_cast<std::size_t>(i)]);
  }
  return rows;
}

// Returns how often an epoch has each dataset's samples, if datasets are mixed by shares: with sizes n and
// shares p, an epoch has N p samples of a dataset, N is the least or the greatest n / p. Throws UserError
// (config) if that is none of a dataset, or more than an epoch can have.
std::vector<double> mixture(const DataConfig& config, const Samples& samples,
                            std::vector<std::string>& notes) {
  std::vector<double> shares = weights_of(config.datasets), lasts;
  std::size_t largest = 1;
  for (const auto& own : samples) largest = std::max(largest, own.size());
  for (std::size_t d = 0; d < shares.size(); ++d) {
    const auto size = static_cast<double>(samples[d].size());
    if (size == 0)
      throw UserError(Exit::input, str("data.datasets[", d, "]: no samples to mix with the others"));
    if (config.mixture_temperature)
      shares[d] *= std::pow(size / static_cast<double>(largest), 1 / *config.mixture_temperature);
    lasts.push_back(size / shares[d]);
  }
  const auto [least, most] = std::ranges::minmax_element(lasts);
  const double all = *config.stopping_strategy == StoppingStrategy::first_exhausted ? *least : *most;
  std::vector<double> times;
  double total = 0;
  for (std::size_t d = 0; d < shares.size(); ++d) {
    times.push_back(all / lasts[d]);
    total += times[d] * static_cast<double>(samples[d].size());
  }
  if (!(total <= kMostMixed))  // or not a number
    throw UserError(
        Exit::config,
        "data.stopping_strategy: an epoch would have more than 1e9 samples; use first_exhausted, a "
        "larger data.mixture_temperature or more even weights");
  for (std::size_t d = 0; d < shares.size(); ++d) {
    const auto count = std::llround(times[d] * static_cast<double>(samples[d].size()));
    if (count == 0)
      throw UserError(Exit::config,
                      str("data.datasets[", d,
                          "]: its share of an epoch is less than one sample; use all_exhausted, "
                          "a larger data.mixture_temperature or more even weights"));
    notes.push_back(
        str("data.datasets[", d, "]: an epoch has ", count, " samples of its ", samples[d].size()));
  }
  return times;
}

std::vector<std::int64_t> choose_held_out(double size, std::int64_t samples, Random random) {
  const double wanted = size < 1 ? std::ceil(size * static_cast<double>(samples)) : size;
  if (wanted > 0 && wanted >= static_cast<double>(samples))
    throw UserError(Exit::config, str("data.val_set_size: holding out ", wanted, " of ", samples,
                                      " samples leaves none to train on"));
  auto held = permutation(samples, random);
  held.resize(static_cast<std::size_t>(wanted));
  std::sort(held.begin(), held.end());
  return held;
}

bool reports_any(const std::vector<DatasetConfig>& datasets) {
  return std::ranges::any_of(datasets, [](const DatasetConfig& d) { return d.report_as.has_value(); });
}

// Throws UserError (config) if a name cannot stand in the log.
void check_names(const std::vector<DatasetConfig>& datasets, const char* setting) {
  const auto fits = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.';
  };
  for (std::size_t d = 0; d < datasets.size(); ++d)
    if (const auto& name = datasets[d].report_as; name && !std::ranges::all_of(*name, fits))
      throw UserError(Exit::config, str("data.", setting, "[", d, "].report_as: \"", printable(*name, 60),
                                        "\" must be of ASCII letters, digits, \"_\", \"-\" and \".\""));
}

// Throws UserError (config) for settings that only the other kind of model uses.
void refuse_foreign(const DataConfig& c, bool seq2seq) {
  const DataConfig usual;
  const auto refuse = [](const char* setting, const char* why) {
    throw UserError(Exit::config, str("data.", setting, ": ", why));
  };
  if (!seq2seq) {
    const char* why = "only encoder-decoders have sources and targets; set data.max_seq_length";
    if (c.max_source_length != usual.max_source_length) refuse("max_source_length", why);
    if (c.max_target_length != usual.max_target_length) refuse("max_target_length", why);
    return;
  }
  if (c.max_seq_length != usual.max_seq_length)
    refuse("max_seq_length",
           "an encoder-decoder's samples are cut to data.max_source_length and data.max_target_length");
  if (c.packing) refuse("packing", "not for encoder-decoders; their batches have no padding either way");
  if (c.pad_to_max_length) refuse("pad_to_max_length", "not for encoder-decoders");
  if (c.train_on_inputs) refuse("train_on_inputs", "an encoder-decoder writes the target only");
}

}  // namespace

void check_data(const DataConfig& config, const LoadContext& context) {
  if (config.datasets.empty()) throw UserError(Exit::config, "data.datasets: nothing to train on");
  for (const auto& [given, name] : {std::pair{config.stopping_strategy.has_value(), "stopping_strategy"},
                                    std::pair{config.mixture_temperature.has_value(), "mixture_temperature"}})
    if (given && config.datasets.size() < 2)
      throw UserError(Exit::config, str("data.", name, ": has no effect on a single data set"));
  if (config.mixture_temperature && !config.stopping_strategy)
    throw UserError(Exit::config, "data.mixture_temperature: has no effect without data.stopping_strategy");
  for (const auto& [given, name] : {std::pair{config.ignore_empty_think, "ignore_empty_think"},
                                    std::pair{config.mask_history, "mask_history"}})
    if (given && context.rows.kind != RowKind::example)
      throw UserError(Exit::config, str("data.", name, ": is for examples to learn; objective.type ",
                                        context.rows.objective, " has other rows; take it out"));
  check_names(config.datasets, "datasets");
  check_names(config.eval_datasets, "eval_datasets");
  refuse_foreign(config, context.seq2seq.has_value());
}

LoadedData load_data(const DataConfig& config, std::uint64_t seed, const LoadContext& context,
                     LoadPart part) {
  check_data(config, context);
  const Random random{config.data_seed ? static_cast<std::uint64_t>(*config.data_seed) : seed};
  LoadedData out;
  if (!config.pad_to_max_length && config.pad_to_multiple_of != DataConfig().pad_to_multiple_of)
    out.notes.emplace_back(
        "data.pad_to_multiple_of has no effect: nothing is padded unless data.pad_to_max_length is "
        "true");
  if (!config.streaming && config.shuffle_buffer_size != DataConfig().shuffle_buffer_size)
    out.notes.emplace_back(
        "data.shuffle_buffer_size is for data.streaming; without it all samples are shuffled");
  if (config.chat_template)
    if (std::string note =
            note_about_markers(*config.chat_template, context.tokenizer_path, context.tokenizer());
        !note.empty())
      out.notes.push_back(std::move(note));
  const auto finish = [&](const ReadDatasets& read, std::vector<std::int64_t> rows,
                          const std::vector<DatasetConfig>& datasets, const char* what) {
    Dataset data(read.store, std::move(rows));
    if (reports_any(datasets)) data.set_bounds(read.bounds);
    require_usable(data, read.counts, config, datasets[0]);
    for (std::string& note : notes_of(data, read.counts, config, what)) out.notes.push_back(std::move(note));
    return data;
  };
  if (!config.eval_datasets.empty()) {
    const ReadDatasets read =
        read_or_prepared(config, config.eval_datasets, "data.eval_datasets", context, out.notes);
    out.eval_counts = read.counts;
    out.eval = finish(
        read,
        weighted(trained_samples(read.bounds, {}), weights_of(config.eval_datasets), random.with("weight")),
        config.eval_datasets, "evaluation");
    if (part == LoadPart::eval) return out;
  }
  if (config.streaming) {  // the rows are read during training
    out.train_counts = counts_of_first_rows(config, context);
    for (std::string& note : notes_of_rows(out.train_counts)) out.notes.push_back(std::move(note));
    return out;
  }
  const ReadDatasets read = read_or_prepared(config, config.datasets, "data.datasets", context, out.notes);
  out.train_counts = read.counts;
  const auto held = choose_held_out(config.val_set_size, read.store->size(), random.with("held out"));
  const Samples samples = trained_samples(read.bounds, held);
  const std::vector<double> weights =
      config.stopping_strategy ? mixture(config, samples, out.notes) : weights_of(config.datasets);
  out.train = finish(read, weighted(samples, weights, random.with("weight")), config.datasets, "training");
  if (!held.empty()) {
    out.eval = Dataset(read.store, held);
    if (reports_any(config.datasets)) out.eval.set_bounds(read.bounds);
    if (out.eval.targets() == 0 && out.eval.kind() != RowKind::prompt)
      throw UserError(Exit::input,
                      str("data.val_set_size: none of the ", held.size(),
                          " samples that are held out has tokens to train on, such as ", out.eval.source(0)));
    out.eval_counts = read.counts;
  }
  return out;
}

}  // namespace ft
