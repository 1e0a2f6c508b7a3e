#include "data/batches/stream.h"

#include <algorithm>
#include <cmath>

#include "data/batches/sample_reader.h"
#include "engine/core/error.h"

namespace ft {

// Reads chunk after chunk from all datasets, in proportion to their sizes, and begins again after the end.
class Stream::Source {
 public:
  Source(const DataConfig& config, const LoadContext& context, const BatcherOptions& options)
      : config_(config), context_(context), options_(options) {
    open();
  }

  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const auto& reader : readers_) sum += reader->bytes();
    return sum;
  }

  std::unique_ptr<Batcher> next_chunk() {
    auto store = std::make_shared<SampleStore>(context_.seq2seq.has_value(), context_.rows.kind);
    std::vector<std::int64_t> rows;
    const std::int64_t most = config_.shuffle_buffer_size;
    while (std::ssize(rows) < most && read_some(*store, rows, most - std::ssize(rows))) {
    }
    BatcherOptions options = options_;
    options.seed = Random{options_.seed}.with("chunk").with(static_cast<std::uint64_t>(chunk_++)).key;
    return std::make_unique<Batcher>(Dataset(std::move(store), std::move(rows)), options);
  }

 private:
  void open() {
    readers_.clear();
    for (std::size_t d = 0; d < config_.datasets.size(); ++d)
      readers_.push_back(std::make_unique<SampleReader>(config_, config_.datasets[d], context_,
                                                        str("data.datasets[", d, "]")));
    ended_.assign(readers_.size(), false);
    row_.assign(readers_.size(), 0);
    targets_ = 0;
  }

  // Reads a window of the dataset that is read least so far. Returns false at the end of an epoch if the
  // chunk holds something; an empty chunk continues with the next epoch.
  bool read_some(SampleStore& store, std::vector<std::int64_t>& rows, std::int64_t most) {
    std::size_t next = readers_.size();
    for (std::size_t d = 0; d < readers_.size(); ++d)
      if (!ended_[d] && (next == readers_.size() || part_read(d) < part_read(next))) next = d;
    if (next == readers_.size()) {
      if (targets_ == 0)
        throw UserError(Exit::input, "data.datasets: no tokens to train on in all of the data" + untrained());
      ++pass_;
      open();
      return rows.empty();
    }
    SampleReader::Window window;
    ended_[next] = !readers_[next]->next(window, std::min<std::int64_t>(most, kWindow));
    if (ended_[next]) return true;
    store.start_file(*window.file);
    for (const auto& read : window.samples) {
      const std::int64_t copies = copies_of(next, row_[next]++);
      if (copies == 0) continue;
      targets_ +=
          count_targets(read.sample.labels, context_.seq2seq || context_.rows.kind == RowKind::classified);
      rows.insert(rows.end(), static_cast<std::size_t>(copies), store.size());
      store.add(read.sample, read.line);
    }
    return true;
  }

  // Returns the place of the first row without targets, for messages.
  std::string untrained() const {
    for (const auto& reader : readers_)
      if (const Places& rows = reader->counts().untrained; rows.count > 0) return ": " + rows.shown.front();
    return "";
  }

  double part_read(std::size_t d) const {
    return static_cast<double>(readers_[d]->bytes_read()) /
           static_cast<double>(std::max<std::int64_t>(1, readers_[d]->bytes()));
  }

  // Returns how often a sample is taken in this pass: on the average its dataset's weight.
  std::int64_t copies_of(std::size_t d, std::int64_t row) const {
    const double weight = config_.datasets[d].weight, whole = std::floor(weight);
    const Random random =
        Random{options_.seed}.with("weight").with(d).with(static_cast<std::uint64_t>(pass_));
    const double u = to_uniform(random.at(static_cast<std::uint64_t>(row))[0]);
    return static_cast<std::int64_t>(whole) + (u < weight - whole);
  }

  static constexpr std::int64_t kWindow = 1024;  // rows that are read before the next dataset's turn

  const DataConfig& config_;
  const LoadContext& context_;
  const BatcherOptions& options_;
  std::vector<std::unique_ptr<SampleReader>> readers_;  // of the current epoch
  std::vector<bool> ended_;
  std::vector<std::int64_t> row_;  // by dataset: row in the current pass
  std::int64_t pass_ = 0, chunk_ = 0;
  std::int64_t targets_ = 0;  // in the current pass
};

Stream::Stream(const DataConfig& config, const LoadContext& context, const BatcherOptions& options,
               std::int64_t batches)
    : config_(config), context_(context), options_(options), batches_(batches) {
  const std::lock_guard lock(mutex_);
  restart();
  bytes_ = source_->bytes();
}

Stream::~Stream() = default;

void Stream::restart() const {
  if (next_.valid()) next_.wait();
  chunks_.clear();
  source_ = std::make_unique<Source>(config_, context_, options_);
  next_ = std::async(std::launch::async, [this] { return source_->next_chunk(); });
}

Stream::Chunk Stream::chunk_with(std::int64_t batch) const {
  const std::lock_guard lock(mutex_);
  if (!chunks_.empty() && batch < chunks_.front().first) restart();
  while (chunks_.empty() || batch >= chunks_.back().end) {
    Chunk c{.first = chunks_.empty() ? 0 : chunks_.back().end, .batches = next_.get()};
    c.end = c.first + c.batches->batches_per_epoch();
    next_ = std::async(std::launch::async, [this] { return source_->next_chunk(); });
    chunks_.push_back(std::move(c));
    if (chunks_.size() > 2) chunks_.pop_front();
  }
  return *std::find_if(chunks_.begin(), chunks_.end(), [&](const Chunk& c) { return batch < c.end; });
}

BatchShape Stream::largest() const {
  const bool compares = context_.rows.kind != RowKind::example;
  const std::int64_t rows = options_.batch_size * (context_.rows.kind == RowKind::pair ? 2 : 1);
  if (context_.seq2seq) {
    BatchShape s = full_pairs(rows, config_.max_source_length, config_.max_target_length);
    if (compares) s.compared = options_.batch_size;
    return s;
  }
  const std::int64_t row = std::max(config_.max_seq_length, options_.pad_to);
  const bool of_tokens = context_.rows.labels.of_tokens, one = options_.padding.has_value();
  BatchShape s{.tokens = rows * row,
               .targets = rows * (one ? 1 : config_.max_seq_length - (of_tokens ? 0 : 1)),
               .sequences = options_.pack_to > 0 ? rows * row : rows,  // packed samples may have one token
               .longest = row,
               .compared = compares ? options_.batch_size : 0};
  if (context_.rows.kind == RowKind::pair && options_.answers.share) share_nothing(s);
  return s;
}

Batch Stream::batch(std::int64_t, std::int64_t i) const {
  const Chunk c = chunk_with(i);
  return c.batches->batch(0, i - c.first);
}

BatchShape Stream::shape(std::int64_t, std::int64_t i) const {
  const Chunk c = chunk_with(i);
  return c.batches->shape(0, i - c.first);
}

}  // namespace ft
