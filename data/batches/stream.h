// Training data that may be larger than memory: the files are read again and again.
// `data.shuffle_buffer_size` samples at a time form a chunk, which is shuffled and cut into micro-batches
// like a dataset. The next chunk is read while one is trained on, so at most three are in memory.
//
// Batches come from one endless pass. They are a function of their index as in every source, but going back
// more than a chunk, or far ahead to resume, reads the files again from the start.
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
  // `batches`: of the run, on all ranks together. The context is copied; objects that it refers to must
  // outlive the stream. Throws UserError (input) if files are missing.
  Stream(const DataConfig& config, const LoadContext& context, const BatcherOptions& options,
         std::int64_t batches);
  ~Stream() override;

  std::int64_t batches_per_epoch() const override { return batches_; }
  // Throws UserError (input), with file and line, if a row that is read now is not valid.
  Batch batch(std::int64_t epoch, std::int64_t i) const override;
  BatchShape shape(std::int64_t epoch, std::int64_t i) const override;

  // Returns a shape that no batch exceeds, whatever the data.
  BatchShape largest() const;
  std::int64_t bytes() const { return bytes_; }  // of all files

 private:
  struct Chunk {
    std::int64_t first = 0, end = 0;  // range of its batches
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
