// Training data that need not fit into memory: the files are read over and over, and
// `data.shuffle_buffer_size` samples at a time are shuffled and cut into micro-batches like a dataset of
// their own. The next of these chunks is read while one is trained on, so three are in memory at most.
//
// Batches are those of one endless pass; they are a function of their index as everywhere, but going back
// further than a chunk, or far ahead to resume, reads the files again from the start.
#pragma once
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

#include "data/batches/batcher.h"
#include "data/batches/load.h"

namespace ft {

class Stream : public BatchSource {
 public:
  // `batches`: of the run, all ranks together. The context is kept; what it refers to outlives the stream.
  // UserError where files are missing.
  Stream(const DataConfig& config, const LoadContext& context, const BatcherOptions& options,
         std::int64_t batches);
  ~Stream() override;

  std::int64_t batches_per_epoch() const override { return batches_; }
  // A UserError (exit 3) that names file and line when a row is wrong that is read only now.
  Batch batch(std::int64_t epoch, std::int64_t i) const override;
  BatchShape shape(std::int64_t epoch, std::int64_t i) const override;

  // What no batch exceeds, whatever the data.
  BatchShape largest() const;
  std::int64_t bytes() const { return bytes_; }  // of all files

 private:
  struct Chunk {
    std::int64_t first = 0, end = 0;  // of its batches
    std::shared_ptr<const Batcher> batches;
  };
  class Source;

  Chunk chunk_with(std::int64_t batch) const;
  void restart() const;

  DataConfig config_;
  LoadContext context_;
  BatcherOptions options_;
  std::int64_t batches_, bytes_ = 0;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Source> source_;
  mutable std::future<std::unique_ptr<Batcher>> next_;  // being read
  mutable std::deque<Chunk> chunks_;                    // the last two
};

}  // namespace ft
