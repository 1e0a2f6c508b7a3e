// A teacher's predictions for a run's targets, made once (ft teach) and used in place of a live teacher: at
// each target the likeliest tokens with their log-probabilities. The safetensors file is ordered by sequence,
// so that order, batches, packing and ranks of a run are free:
//   keys    u8  (sequences, 16)    first bytes of SHA-256 of a sequence's tokens and its targets' positions
//   first   i32 (sequences + 1)    index of its first target in the arrays below
//   ids     i32 (targets, k)       the likeliest first
//   logps   f32 (targets, k)
#pragma once
#include <array>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/batch.h"
#include "engine/files/safetensors/safetensors.h"
#include "engine/model/logit_loss.h"

namespace ft {

using SequenceKey = std::array<std::uint8_t, 16>;

// Returns a key for each sequence of a batch.
std::vector<SequenceKey> sequence_keys(const Batch&);
// Returns the index of each sequence's first target in the batch, and the number of targets (sequences + 1
// elements).
std::vector<std::int64_t> first_targets(const Batch&);

class TeacherFile {
 public:
  // Reads the complete file once. Throws UserError (input) if it is damaged or of another kind.
  explicit TeacherFile(const std::string& path);
  const std::string& path() const { return file_.path(); }
  std::int64_t top_k() const { return top_k_; }
  std::int64_t vocab_size() const { return vocab_size_; }
  bool knows(const Batch&) const;  // for all sequences that have targets

  // Returns logits whose softmax is the teacher's prediction. The probability that the likeliest tokens leave
  // is split evenly among the others. Logits of unknown sequences are zero: runs call knows() first. A plan
  // writes none. The result uses this file.
  std::unique_ptr<TargetLogits> logits(const Batch&) const;
  // Writes one target's row (V).
  void write(std::int64_t target, std::span<float> row) const;

 private:
  [[noreturn]] void damaged(const std::string& why) const;
  void check_targets() const;
  void check_target(std::int64_t target, std::span<const std::int32_t> ids,
                    std::span<const float> logps) const;

  SafetensorsFile file_;
  const StoredTensor *ids_ = nullptr, *logps_ = nullptr;
  std::int64_t top_k_ = 0, vocab_size_ = 0;
  std::map<SequenceKey, std::pair<std::int32_t, std::int32_t>> places_;  // first target, number of targets
};

// Collects a teacher's predictions, and writes them to a file.
class Teaching {
 public:
  Teaching(std::int64_t top_k, std::int64_t vocab_size) : top_k_(top_k), vocab_size_(vocab_size) {}
  std::int64_t vocab_size() const { return vocab_size_; }
  // Returns which targets of a batch are needed, because their sequence is not in the file yet. Their logits
  // have to be added next, in their order.
  std::vector<bool> begin(const Batch&);
  void add(std::span<const float> logits);  // (V)
  void write(const std::string& path) const;
  std::int64_t targets() const { return static_cast<std::int64_t>(ids_.size()) / top_k_; }

 private:
  std::int64_t top_k_, vocab_size_;
  std::set<SequenceKey> known_;
  std::vector<std::uint8_t> keys_;
  std::vector<std::int32_t> first_{0}, ids_;
  std::vector<float> logps_;
};

}  // namespace ft
