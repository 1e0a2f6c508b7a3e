#include "data/batches/sample_reader.h"

#include <algorithm>

#include "data/batches/load_notes.h"
#include "data/embed/batch.h"
#include "data/files/json_row.h"
#include "data/files/parallel.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr std::int64_t kWindowBytes = std::int64_t{16} << 20;

std::int64_t size_of_file(const DataFile& file) {
  return static_cast<std::int64_t>(std::filesystem::file_size(file.path));
}

}  // namespace

SampleReader::SampleReader(const DataConfig& config, const DatasetConfig& dataset, const LoadContext& context,
                           const std::string& setting)
    : config_(config),
      dataset_(dataset),
      context_(context),
      setting_(setting),
      files_(find_data_files(dataset, {context.base, context.hub}, setting)),
      left_(dataset.max_samples.value_or(INT64_MAX)) {
  for (const DataFile& f : files_) bytes_ += size_of_file(f);
}

bool SampleReader::next(Window& window, std::int64_t rows) {
  window.samples.clear();
  while (!trouble_ && left_ > 0 && (rows_ || open_next())) {
    const std::vector<Row> read = read_rows(std::min(rows, left_));
    if (read.empty() && !trouble_) {
      done_ += size_of_file(files_[opened_ - 1]);
      rows_.reset();
      continue;
    }
    left_ -= std::ssize(read);
    tokenize(read, window);
    if (!read.empty()) return true;
  }
  if (trouble_) std::rethrow_exception(trouble_);
  if (counts_.rows == 0)
    throw UserError(Exit::input, str(printable(files_.front().name),
                                     files_.size() > 1 ? " and the other files" : "", ": no rows in it"));
  return false;
}

bool SampleReader::open_next() {
  if (opened_ == files_.size()) return false;
  const DataFile& file = files_[opened_++];
  rows_ = open_rows(file);
  if (const auto names = rows_->columns()) {
    choose_format(*names, {&file.name, 1});
    add_unused(*names);
    rows_->read_only(format_->columns);
  }
  return true;
}

// Chooses the format by the first row.
void SampleReader::choose_format(std::span<const std::string> names, const Place& at) {
  if (format_) return;
  const FormatContext context{config_,
                              dataset_,
                              setting_,
                              context_.vocab_size,
                              context_.tokenizer,
                              context_.tokenizer_path,
                              context_.seq2seq.has_value(),
                              context_.rows};
  format_ = make_format(context, names, at);
}

void SampleReader::add_unused(std::span<const std::string> names) {
  for (const std::string& name : names) {
    if (std::find(format_->columns.begin(), format_->columns.end(), name) != format_->columns.end()) continue;
    auto& unused = counts_.unused[str(dataset_.path, " (rows of type ", format_->type, ")")];
    if (std::find(unused.begin(), unused.end(), name) == unused.end()) unused.push_back(name);
  }
}

// Returns the names in a row that the format does not read. Returns none for columnar files, whose names are
// checked once, and for prompts, whose rows are kept complete.
std::vector<std::string> SampleReader::unused_of(const Row& row, const Place& at) const {
  if (rows_->columns() || context_.rows.kind == RowKind::prompt) return {};
  std::vector<std::string> names = row_names(row.text, at);
  std::erase_if(names, [&](const std::string& name) {
    return std::find(format_->columns.begin(), format_->columns.end(), name) != format_->columns.end();
  });
  return names;
}

std::vector<Row> SampleReader::read_rows(std::int64_t most) {
  std::vector<Row> rows;
  std::int64_t bytes = 0;
  try {
    for (Row row; std::ssize(rows) < most && bytes < kWindowBytes && rows_->next(row);) {
      bytes += std::ssize(row.text);
      rows.push_back(std::move(row));
    }
  } catch (const UserError&) {
    trouble_ = std::current_exception();
  }
  return rows;
}

void SampleReader::tokenize(const std::vector<Row>& rows, Window& window) {
  const std::string& name = files_[opened_ - 1].name;
  window.file = &name;
  if (rows.empty()) return;
  if (!format_) {
    const Place first{&name, rows[0].line};
    choose_format(row_names(rows[0].text, first), first);
  }
  std::vector<Sample> samples(rows.size());
  std::vector<std::vector<std::string>> unused(rows.size());
  parallel_for(std::ssize(rows), config_.preprocessing_num_workers, [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    const Place place{&name, rows[at].line};
    samples[at] = format_->read(rows[at].text, place);
    unused[at] = unused_of(rows[at], place);
  });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Place at{&name, rows[i].line};
    add_unused(unused[i]);
    count(samples[i], at);
    const bool trained = has_targets(samples[i]);
    if (!fit(samples[i], at)) continue;
    if (!has_targets(samples[i])) count_untrained(samples[i], trained, at);
    window.samples.push_back({std::move(samples[i]), rows[i].line});
  }
}

void SampleReader::count(const Sample& sample, const Place& at) {
  ++counts_.rows;
  ++counts_.written[static_cast<std::size_t>(sample.written)];
  counts_.add(sample.turns, at.where());
  if (sample.begins_twice)
    counts_.begun_twice.add(str(at.where(), ": the text begins with ",
                                printable(context_.tokenizer().token(sample.input_ids.front()), 40)));
}

bool SampleReader::has_targets(const Sample& sample) const {
  const RowKind kind = context_.rows.kind;
  if (kind == RowKind::classified && context_.rows.labels.of_tokens)
    return std::ranges::any_of(sample.labels, [](std::int32_t l) { return l != kIgnored; });
  return kind == RowKind::prompt || kind == RowKind::classified || kind == RowKind::texts ||
         count_targets(sample.labels, context_.seq2seq.has_value()) > 0;
}

// `cut`: the sample had targets before it was cut.
void SampleReader::count_untrained(const Sample& sample, bool cut, const Place& at) {
  std::string why = sample.turns.nothing;
  if (why.empty())
    why = sample.input_ids.size() == 1 && context_.rows.kind != RowKind::classified
              ? "it is one token, and the first is never predicted"
              : "every label is -100";
  if (cut)
    why = "the part to train on was cut off by " + lengths_allowed(config_, context_.seq2seq.has_value());
  counts_.untrained.add(str(at.where(), ": ", why));
}

// Cuts a sample to the allowed lengths; returns false if it is skipped.
bool SampleReader::fit(Sample& sample, const Place& at) {
  if (context_.seq2seq && !fit_source_and_target(sample.input_ids, sample.labels, at)) return false;
  if (context_.seq2seq)
    return context_.rows.kind != RowKind::pair ||
           fit_source_and_target(sample.rejected_ids, sample.rejected_labels, at);
  if (context_.rows.kind == RowKind::prompt) return fit_prompt(sample, at);
  if (context_.rows.kind == RowKind::texts) return fit_texts(sample, at);
  if (context_.rows.kind != RowKind::example && context_.rows.kind != RowKind::classified)
    return fit_answers(sample, at);
  const auto size = static_cast<std::int64_t>(sample.input_ids.size()), most = config_.max_seq_length;
  // Packing in pieces cuts long samples itself, and loses no tokens.
  if (size <= most || (config_.packing && config_.packing_strategy != PackingStrategy::bfd)) return true;
  if (config_.truncation == Truncation::error)
    at.fail(str(size, " tokens; data.max_seq_length is ", most, " and data.truncation is error"));
  if (!may_cut()) return false;
  for (auto* list : {&sample.input_ids, &sample.labels}) {
    if (config_.truncation == Truncation::keep_end) list->erase(list->begin(), list->end() - most);
    list->resize(static_cast<std::size_t>(most));
  }
  return true;
}

// Cuts answers at their end; returns false for a row whose prompt leaves no room for an answer.
bool SampleReader::fit_answers(Sample& sample, const Place& at) {
  const std::int64_t most = config_.max_seq_length;
  const std::int64_t size = std::max(std::ssize(sample.input_ids), std::ssize(sample.rejected_ids));
  if (size <= most) return true;
  if (config_.truncation == Truncation::error || context_.rows.kind == RowKind::rollout)
    at.fail(
        str(size, " tokens; data.max_seq_length is ", most, " and ",
            context_.rows.kind == RowKind::rollout ? "rollouts are never cut" : "data.truncation is error"));
  const auto prompt =
      std::find_if(sample.labels.begin(), sample.labels.end(), [](std::int32_t l) { return l != kIgnored; }) -
      sample.labels.begin();
  if (config_.truncation == Truncation::drop || !context_.rows.cut || prompt >= most) {
    ++counts_.dropped;
    return false;
  }
  ++counts_.truncated;
  // Shorter prompts of other rows may have room for the complete answer.
  if (context_.rows.kind == RowKind::labelled) {
    std::fill(sample.labels.begin() + most, sample.labels.end(), kIgnored);
    return true;
  }
  for (auto* list : {&sample.input_ids, &sample.labels, &sample.rejected_ids, &sample.rejected_labels})
    list->resize(static_cast<std::size_t>(std::min(std::ssize(*list), most)));
  return true;
}

// Cuts each text to the allowed length.
bool SampleReader::fit_texts(Sample& sample, const Place& at) {
  const std::int64_t most = config_.max_seq_length, longest = longest_text(sample);
  if (longest <= most) return true;
  if (config_.truncation == Truncation::error)
    at.fail(str("a text of ", longest, " tokens; data.max_seq_length is ", most,
                " and data.truncation is error"));
  if (!may_cut()) return false;
  cut_texts(sample, most, config_.truncation == Truncation::keep_end);
  return true;
}

// Returns false for a prompt that is too long: prompts are never cut.
bool SampleReader::fit_prompt(const Sample& sample, const Place& at) {
  const std::int64_t size = std::ssize(sample.input_ids), answer = context_.rows.answer;
  if (size + answer <= config_.max_seq_length) return true;
  if (config_.truncation == Truncation::error)
    at.fail(str("a prompt of ", size, " tokens and an answer of ", answer, "; data.max_seq_length is ",
                config_.max_seq_length, " and data.truncation is error"));
  ++counts_.dropped;
  return false;
}

bool SampleReader::fit_source_and_target(std::vector<std::int32_t>& source, std::vector<std::int32_t>& target,
                                         const Place& at) {
  struct Side {
    std::vector<std::int32_t>& ids;
    const char *name, *setting;
    std::int64_t most;
  };
  const Side sides[] = {{source, "source", "data.max_source_length", config_.max_source_length},
                        {target, "target", "data.max_target_length", config_.max_target_length}};
  const auto too_long = [](const Side& s) { return std::ssize(s.ids) > s.most; };
  if (!too_long(sides[0]) && !too_long(sides[1])) return true;
  for (const Side& s : sides)
    if (too_long(s) && config_.truncation == Truncation::error)
      at.fail(str("a ", s.name, " of ", s.ids.size(), " tokens; ", s.setting, " is ", s.most,
                  " and data.truncation is error"));
  if (!may_cut()) return false;
  for (const Side& s : sides)
    cut_side(s.ids, s.most, config_.truncation == Truncation::keep_end, context_.seq2seq->end);
  return true;
}

// Counts a sample that is too long; returns false if it is dropped.
bool SampleReader::may_cut() {
  const bool drop = config_.truncation == Truncation::drop;
  ++(drop ? counts_.dropped : counts_.truncated);
  return !drop;
}

}  // namespace ft
