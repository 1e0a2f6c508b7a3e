// What a teacher says of a run's targets, made once (ft teach) and learnt from instead of a live teacher: at
// each target its likeliest tokens with their log-probabilities. A safetensors file by sequence, so that
// order, batches, packing and ranks are free:
//   keys    u8  (sequences, 16)    the begin of SHA-256 of a sequence's tokens and which of them are targets
//   first   i32 (sequences + 1)    its targets in what follows
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
#include "engine/files/safetensors.h"
#include "engine/model/logit_loss.h"

namespace ft {

using SequenceKey = std::array<std::uint8_t, 16>;

// One for each of a batch's sequences.
std::vector<SequenceKey> sequence_keys(const Batch&);
// The first of a batch's targets in each of its sequences, and their number (sequences + 1).
std::vector<std::int64_t> first_targets(const Batch&);

class TeacherFile {
 public:
  // Reads all of it once. UserError (exit 3) where it is damaged or something else.
  explicit TeacherFile(const std::string& path);
  const std::string& path() const { return file_.path(); }
  std::int64_t top_k() const { return top_k_; }
  std::int64_t vocab_size() const { return vocab_size_; }
  bool knows(const Batch&) const;  // every sequence that has targets

  // The logits whose softmax is the teacher's answer. What its likeliest tokens leave is shared out evenly
  // among the others. Those of sequences that it does not know are zero: a plan's are made up, and runs ask
  // knows() first. Uses this file.
  std::unique_ptr<TargetLogits> logits(const Batch&) const;
  // One target's row (V).
  void write(std::int64_t target, std::span<float> row) const;

 private:
  [[noreturn]] void damaged(const std::string& why) const;
  void check_targets() const;
  void check_target(std::int64_t target, std::span<const std::int32_t> ids,
                    std::span<const float> logps) const;

  SafetensorsFile file_;
  const StoredTensor *ids_ = nullptr, *logps_ = nullptr;
  std::int64_t top_k_ = 0, vocab_size_ = 0;
  std::map<SequenceKey, std::pair<std::int32_t, std::int32_t>> places_;  // first target, how many
};

// Gathers such a file.
class Teaching {
 public:
  Teaching(std::int64_t top_k, std::int64_t vocab_size) : top_k_(top_k), vocab_size_(vocab_size) {}
  std::int64_t vocab_size() const { return vocab_size_; }
  // Which targets of a batch are wanted: their sequence is not there yet. Those have to be
  // added next, in their order.
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
