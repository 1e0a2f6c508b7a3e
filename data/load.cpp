#include "data/load.h"

#include <algorithm>
#include <cmath>

#include "data/files.h"
#include "data/format.h"
#include "data/parallel.h"
#include "data/row_reader.h"
#include "data/shuffle.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr std::size_t kWindowRows = 8192;
constexpr std::int64_t kWindowBytes = std::int64_t{16} << 20;

// Reads datasets one after another into one store.
class Loader {
 public:
  Loader(const DataConfig& config, const LoadContext& context)
      : store(std::make_shared<SampleStore>(context.seq2seq.has_value())),
        config_(config),
        context_(context) {}

  // Appends to `bounds` where each dataset's samples end.
  void read_all(const std::vector<DatasetConfig>& datasets, const std::string& setting) {
    std::vector<std::vector<DataFile>> files;
    for (std::size_t i = 0; i < datasets.size(); ++i) {
      files.push_back(find_data_files(datasets[i].path, context_.base, str(setting, "[", i, "].path")));
      for (const DataFile& f : files.back())
        total_ += static_cast<std::int64_t>(std::filesystem::file_size(f.path));
    }
    for (std::size_t i = 0; i < datasets.size(); ++i) {
      read_dataset(datasets[i], files[i], str(setting, "[", i, "]"));
      bounds.push_back(store->size());
    }
  }

  std::shared_ptr<SampleStore> store;  // shared by the Datasets made of it
  std::vector<std::int64_t> bounds{0};
  LoadCounts counts;

 private:
  void read_dataset(const DatasetConfig& dataset, const std::vector<DataFile>& files,
                    const std::string& setting) {
    const FormatContext context{config_,
                                dataset,
                                setting,
                                context_.vocab_size,
                                context_.tokenizer,
                                context_.tokenizer_path,
                                context_.seq2seq.has_value()};
    std::unique_ptr<Format> format;
    std::int64_t left = dataset.max_samples.value_or(INT64_MAX);
    const std::int64_t before = counts.rows;
    for (const DataFile& file : files) {
      if (left > 0) read_file(file, context, format, left);
      done_ += static_cast<std::int64_t>(std::filesystem::file_size(file.path));
    }
    if (counts.rows == before)
      throw UserError(Exit::input, str(printable(files.front().name),
                                       files.size() > 1 ? " and the other files" : "", ": no rows in it"));
  }

  void read_file(const DataFile& file, const FormatContext& context, std::unique_ptr<Format>& format,
                 std::int64_t& left) {
    const auto rows = open_rows(file);
    store->start_file(file.name);
    std::exception_ptr trouble;  // what ended the reading; rows before it come first
    for (bool more = true; more;) {
      std::vector<Row> window;
      std::int64_t bytes = 0;
      try {
        while (left > 0 && window.size() < kWindowRows && bytes < kWindowBytes && more) {
          Row row;
          more = rows->next(row);
          if (!more) break;
          bytes += static_cast<std::int64_t>(row.text.size());
          window.push_back(std::move(row));
          --left;
        }
      } catch (const UserError&) {
        trouble = std::current_exception();
      }
      more = more && left > 0 && !trouble;
      add(window, file, context, format);
      if (context_.progress) context_.progress(done_ + rows->bytes_read(), total_);
    }
    if (trouble) std::rethrow_exception(trouble);
  }

  void add(const std::vector<Row>& window, const DataFile& file, const FormatContext& context,
           std::unique_ptr<Format>& format) {
    if (window.empty()) return;
    if (!format) format = make_format(context, window[0].text, {&file.name, window[0].line});
    std::vector<Sample> samples(window.size());
    parallel_for(static_cast<std::int64_t>(window.size()), config_.preprocessing_num_workers,
                 [&](std::int64_t i) {
                   const auto at = static_cast<std::size_t>(i);
                   samples[at] = format->read(window[at].text, {&file.name, window[at].line});
                 });
    for (std::size_t i = 0; i < window.size(); ++i) {
      ++counts.rows;
      if (fit(samples[i], {&file.name, window[i].line})) store->add(samples[i], window[i].line);
    }
  }

  // Cuts a sample to the lengths allowed; false: it is left out.
  bool fit(Sample& sample, const Place& at) {
    if (context_.seq2seq) return fit_pair(sample, at);
    const auto size = static_cast<std::int64_t>(sample.input_ids.size()), most = config_.max_seq_length;
    // Packing in pieces cuts long samples itself, and loses nothing of them.
    if (size <= most || (config_.packing && config_.packing_strategy != "bfd")) return true;
    if (config_.truncation == "error")
      at.fail(str(size, " tokens; data.max_seq_length is ", most, " and data.truncation is error"));
    if (!may_cut()) return false;
    for (auto* list : {&sample.input_ids, &sample.labels}) {
      if (config_.truncation == "keep_end") list->erase(list->begin(), list->end() - most);
      list->resize(static_cast<std::size_t>(most));
    }
    return true;
  }

  bool fit_pair(Sample& sample, const Place& at) {
    struct Side {
      std::vector<std::int32_t>& ids;
      const char *name, *setting;
      std::int64_t most;
    };
    const Side sides[] = {{sample.input_ids, "source", "data.max_source_length", config_.max_source_length},
                          {sample.labels, "target", "data.max_target_length", config_.max_target_length}};
    const auto too_long = [](const Side& s) { return std::ssize(s.ids) > s.most; };
    if (!too_long(sides[0]) && !too_long(sides[1])) return true;
    for (const Side& s : sides)
      if (too_long(s) && config_.truncation == "error")
        at.fail(str("a ", s.name, " of ", s.ids.size(), " tokens; ", s.setting, " is ", s.most,
                    " and data.truncation is error"));
    if (!may_cut()) return false;
    for (const Side& s : sides)
      cut_side(s.ids, s.most, config_.truncation == "keep_end", context_.seq2seq->end);
    return true;
  }

  // Counts a sample that is too long.
  bool may_cut() {
    const bool drop = config_.truncation == "drop";
    ++(drop ? counts.dropped : counts.truncated);
    return !drop;
  }

  const DataConfig& config_;
  const LoadContext& context_;
  std::int64_t done_ = 0, total_ = 0;  // bytes
};

// Samples that are left after `held` (sorted) went, taken as often as their dataset's weight says.
std::vector<std::int64_t> weighted(const std::vector<DatasetConfig>& datasets, const Loader& loader,
                                   const std::vector<std::int64_t>& held, Random random) {
  std::vector<std::int64_t> rows;
  for (std::size_t d = 0; d < datasets.size(); ++d) {
    std::vector<std::int64_t> own;
    for (std::int64_t i = loader.bounds[d]; i < loader.bounds[d + 1]; ++i)
      if (!std::binary_search(held.begin(), held.end(), i)) own.push_back(i);
    const double whole = std::floor(datasets[d].weight);
    for (double copy = 0; copy < whole; ++copy) rows.insert(rows.end(), own.begin(), own.end());
    const auto count = static_cast<std::int64_t>(own.size());
    auto part = permutation(count, random.with(d));
    part.resize(
        static_cast<std::size_t>(std::llround((datasets[d].weight - whole) * static_cast<double>(count))));
    std::sort(part.begin(), part.end());
    for (const std::int64_t i : part) rows.push_back(own[static_cast<std::size_t>(i)]);
  }
  return rows;
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

// What samples must not be longer than, as settings.
std::string lengths_allowed(const DataConfig& c, bool seq2seq, bool values = false) {
  const auto with = [&](const char* name, std::int64_t value) {
    return values ? str(name, " (", value, ")") : std::string(name);
  };
  if (!seq2seq) return with("data.max_seq_length", c.max_seq_length);
  return with("data.max_source_length", c.max_source_length) + " or " +
         with("data.max_target_length", c.max_target_length);
}

void check_usable(const Dataset& data, const LoadCounts& counts, const DatasetConfig& first,
                  const std::string& allowed) {
  if (data.size() == 0)
    throw UserError(Exit::input, str(printable(first.path), ": all ", counts.rows,
                                     " samples are longer than ", allowed, ", and data.truncation is drop"));
  if (data.targets() == 0)
    throw UserError(Exit::input,
                    str(printable(first.path), ": nothing to train on: every label is -100",
                        counts.truncated ? ", or what is trained was cut off by " + allowed : ""));
}

void note_counts(const Dataset& data, const LoadCounts& counts, const DataConfig& config, const char* what,
                 std::vector<std::string>& notes) {
  if (counts.truncated > 0)
    notes.push_back(str(counts.truncated, " of ", counts.rows, " ", what, " samples are longer than ",
                        lengths_allowed(config, data.seq2seq(), true), " and were cut"));
  if (counts.dropped > 0)
    notes.push_back(str(counts.dropped, " of ", counts.rows, " ", what, " samples are longer than ",
                        lengths_allowed(config, data.seq2seq(), true), " and were left out"));
  if (data.untrained() > 0)
    notes.push_back(str(data.untrained(), " ", what, " samples have nothing to train on"));
}

// Settings of the other kind of model: nothing would come of them.
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

LoadedData load_data(const DataConfig& config, std::uint64_t seed, const LoadContext& context,
                     LoadPart part) {
  if (config.datasets.empty()) throw UserError(Exit::config, "data.datasets: nothing to train on");
  if (config.val_set_size > 0 && !config.eval_datasets.empty())
    throw UserError(Exit::config,
                    "data.val_set_size: data.eval_datasets says what to evaluate on; leave one out");
  refuse_foreign(config, context.seq2seq.has_value());
  const Random random{config.data_seed ? static_cast<std::uint64_t>(*config.data_seed) : seed};
  LoadedData out;
  if (!config.pad_to_max_length && config.pad_to_multiple_of != DataConfig().pad_to_multiple_of)
    out.notes.push_back(
        "data.pad_to_multiple_of has nothing to round: nothing is padded unless data.pad_to_max_length is "
        "true");
  const auto finish = [&](Loader& loader, std::vector<std::int64_t> rows, const DatasetConfig& first,
                          const char* what) {
    Dataset data(loader.store, std::move(rows));
    check_usable(data, loader.counts, first, lengths_allowed(config, data.seq2seq()));
    note_counts(data, loader.counts, config, what, out.notes);
    return data;
  };
  if (!config.eval_datasets.empty()) {
    Loader loader(config, context);
    loader.read_all(config.eval_datasets, "data.eval_datasets");
    out.eval_counts = loader.counts;
    out.eval = finish(loader, weighted(config.eval_datasets, loader, {}, random.with("weight")),
                      config.eval_datasets[0], "evaluation");
    if (part == LoadPart::eval) return out;
  }
  Loader loader(config, context);
  loader.read_all(config.datasets, "data.datasets");
  out.train_counts = loader.counts;
  const auto held = choose_held_out(config.val_set_size, loader.store->size(), random.with("held out"));
  out.train = finish(loader, weighted(config.datasets, loader, held, random.with("weight")),
                     config.datasets[0], "training");
  if (!held.empty()) {
    out.eval = Dataset(loader.store, held);
    out.eval_counts = loader.counts;
  }
  return out;
}

}  // namespace ft
