#include "engine/train/objectives/teacher_file.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/core/error.h"
#include "engine/core/require.h"
#include "engine/files/convert.h"
#include "engine/files/hash.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

constexpr const char* kForm = "ft-teacher-1";
constexpr double kLeast = 1e-9;             // least probability left for the other tokens
constexpr double kTooMuch = 1e-3;           // amount by which the likeliest tokens' sum may exceed 1
constexpr std::int64_t kChecked = 1 << 20;  // elements read at once

Tensor host(auto& values, DType type) {
  return {reinterpret_cast<std::byte*>(values.data()), type, {std::ssize(values)}};
}

// A batch's targets as indices into the file; -1: not in the file.
class TaughtLogits final : public TargetLogits {
 public:
  TaughtLogits(const TeacherFile& file, std::vector<std::int64_t> targets)
      : file_(file), targets_(std::move(targets)) {}

  void write(Ctx& c, Tensor logits, std::int64_t begin) const override {
    const std::int64_t rows = logits.rows(), columns = logits.cols();
    if (columns != file_.vocab_size())
      throw UserError(Exit::config,
                      str("objective.teacher_file: ", printable(file_.path()), " is of a vocabulary of ",
                          file_.vocab_size(), " tokens, the model has ", columns));
    if (!c.ops.computes()) return;
    std::vector<float> row(static_cast<std::size_t>(columns));
    std::vector<std::uint16_t> rounded(logits.dtype == DType::f32 ? 0 : row.size());
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t target = targets_[static_cast<std::size_t>(begin + r)];
      if (target >= 0)
        file_.write(target, row);
      else
        std::ranges::fill(row, 0.F);
      const Tensor to = logits.slice(r, r + 1);
      if (rounded.empty()) {
        c.ops.upload(to, row.data());
      } else {
        convert(rounded.data(), logits.dtype, row.data(), DType::f32, columns);
        c.ops.upload(to, rounded.data());
      }
    }
  }

 private:
  const TeacherFile& file_;
  std::vector<std::int64_t> targets_;
};

}  // namespace

std::vector<std::int64_t> first_targets(const Batch& b) {
  std::vector<std::int64_t> first;
  for (const std::int32_t start : b.starts)
    first.push_back(std::lower_bound(b.target_rows.begin(), b.target_rows.end(), start) -
                    b.target_rows.begin());
  return first;
}

std::vector<SequenceKey> sequence_keys(const Batch& b) {
  const std::vector<std::int64_t> first = first_targets(b);
  std::vector<SequenceKey> keys;
  for (std::size_t s = 0; s + 1 < b.starts.size(); ++s) {
    std::vector<std::int32_t> all;
    const auto add = [&](const std::vector<std::int32_t>& from, std::int64_t begin, std::int64_t end) {
      all.push_back(static_cast<std::int32_t>(end - begin));
      all.insert(all.end(), from.begin() + begin, from.begin() + end);
    };
    if (!b.source_ids.empty()) add(b.source_ids, b.source_starts[s], b.source_starts[s + 1]);
    add(b.input_ids, b.starts[s], b.starts[s + 1]);
    for (std::int64_t t = first[s]; t < first[s + 1]; ++t)
      all.push_back(b.target_rows[static_cast<std::size_t>(t)] - b.starts[s]);
    const std::string hash = sha256({reinterpret_cast<const char*>(all.data()), all.size() * sizeof(all[0])});
    SequenceKey key;
    for (std::size_t i = 0; i < key.size(); ++i)
      key[i] = static_cast<std::uint8_t>(std::stoi(hash.substr(2 * i, 2), nullptr, 16));
    keys.push_back(key);
  }
  return keys;
}

TeacherFile::TeacherFile(const std::string& path) : file_(path) {
  bool ours = false;
  for (const auto& [name, text] : file_.metadata()) {
    if (name == "format") ours = text == kForm;
    if (name == "vocab_size" && text.size() < 10) vocab_size_ = std::atoll(text.c_str());
  }
  if (!ours) damaged("it is no file of ft teach");
  ids_ = file_.find("ids");
  logps_ = file_.find("logps");
  const StoredTensor *keys = file_.find("keys"), *first = file_.find("first");
  const bool there = ids_ && logps_ && keys && first && ids_->type == StoredType::i32 &&
                     logps_->type == StoredType::f32 && keys->type == StoredType::u8 &&
                     first->type == StoredType::i32 && ids_->shape.size() == 2 &&
                     ids_->shape == logps_->shape && keys->shape.size() == 2 && keys->shape[1] == 16 &&
                     first->numel == keys->shape[0] + 1;
  if (!there) damaged("its tensors are not those of such a file");
  top_k_ = ids_->shape[1];
  if (top_k_ < 1 || top_k_ > vocab_size_) damaged("it has more tokens of a target than the vocabulary");
  std::vector<std::uint8_t> all(static_cast<std::size_t>(keys->numel));
  std::vector<std::int32_t> begins(static_cast<std::size_t>(first->numel));
  file_.read(*keys, host(all, DType::u8));
  file_.read(*first, host(begins, DType::i32));
  if (begins.front() != 0 || begins.back() != ids_->shape[0] || !std::is_sorted(begins.begin(), begins.end()))
    damaged("where its sequences begin makes no sense");
  for (std::size_t s = 0; s + 1 < begins.size(); ++s) {
    SequenceKey key;
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(16 * s), key.size(), key.begin());
    places_[key] = {begins[s], begins[s + 1] - begins[s]};
  }
  check_targets();
}

void TeacherFile::damaged(const std::string& why) const {
  throw UserError(Exit::input, str("objective.teacher_file: ", printable(path()), ": ", why,
                                   "; make it again with ft teach"));
}

// Checks all targets once, so that no training step meets invalid data.
void TeacherFile::check_targets() const {
  const std::int64_t targets = ids_->shape[0], at_once = std::max<std::int64_t>(1, kChecked / top_k_);
  std::vector<std::int32_t> ids;
  std::vector<float> logps;
  for (std::int64_t first = 0; first < targets; first += at_once) {
    const std::int64_t count = std::min(at_once, targets - first);
    ids.resize(static_cast<std::size_t>(count * top_k_));
    logps.resize(ids.size());
    file_.read(*ids_, host(ids, DType::i32), first * top_k_);
    file_.read(*logps_, host(logps, DType::f32), first * top_k_);
    for (std::int64_t t = 0; t < count; ++t) {
      const auto begin = static_cast<std::size_t>(t * top_k_), k = static_cast<std::size_t>(top_k_);
      check_target(first + t, std::span(ids).subspan(begin, k), std::span(logps).subspan(begin, k));
    }
  }
}

void TeacherFile::check_target(std::int64_t target, std::span<const std::int32_t> ids,
                               std::span<const float> logps) const {
  double sum = 0;
  for (const float logp : logps) sum += std::exp(static_cast<double>(logp));
  if (!(sum <= 1 + kTooMuch)) damaged(str("the probabilities of target ", target, " are above 1"));
  for (const std::int32_t id : ids)
    if (id < 0 || id >= vocab_size_)
      damaged(str("token ", id, " of target ", target, " is not in its vocabulary"));
}

bool TeacherFile::knows(const Batch& b) const {
  const std::vector<std::int64_t> first = first_targets(b);
  const std::vector<SequenceKey> keys = sequence_keys(b);
  for (std::size_t s = 0; s < keys.size(); ++s) {
    const auto place = places_.find(keys[s]);
    if (first[s] < first[s + 1] &&
        (place == places_.end() || place->second.second != first[s + 1] - first[s]))
      return false;
  }
  return true;
}

std::unique_ptr<TargetLogits> TeacherFile::logits(const Batch& b) const {
  const std::vector<std::int64_t> first = first_targets(b);
  const std::vector<SequenceKey> keys = sequence_keys(b);
  std::vector<std::int64_t> targets(b.targets.size(), -1);
  for (std::size_t s = 0; s < keys.size(); ++s) {
    const auto place = places_.find(keys[s]);
    if (place == places_.end()) continue;
    const std::int64_t count = std::min<std::int64_t>(place->second.second, first[s + 1] - first[s]);
    std::iota(targets.begin() + first[s], targets.begin() + first[s] + count, place->second.first);
  }
  return std::make_unique<TaughtLogits>(*this, std::move(targets));
}

void TeacherFile::write(std::int64_t target, std::span<float> row) const {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(top_k_));
  std::vector<float> logps(ids.size());
  file_.read(*ids_, host(ids, DType::i32), target * top_k_);
  file_.read(*logps_, host(logps, DType::f32), target * top_k_);
  check_target(target, ids, logps);  // the file may have changed
  double left = 1;
  for (const float logp : logps) left -= std::exp(static_cast<double>(logp));
  const auto others = static_cast<double>(vocab_size_ - top_k_);
  std::ranges::fill(row, others > 0 ? static_cast<float>(std::log(std::max(left, kLeast) / others)) : 0.F);
  for (std::size_t i = 0; i < ids.size(); ++i) row[static_cast<std::size_t>(ids[i])] = logps[i];
}

std::vector<bool> Teaching::begin(const Batch& b) {
  const std::vector<std::int64_t> first = first_targets(b);
  const std::vector<SequenceKey> keys = sequence_keys(b);
  std::vector<bool> wanted(b.targets.size());
  for (std::size_t s = 0; s < keys.size(); ++s) {
    if (first[s] == first[s + 1] || !known_.insert(keys[s]).second) continue;
    keys_.insert(keys_.end(), keys[s].begin(), keys[s].end());
    std::fill(wanted.begin() + first[s], wanted.begin() + first[s + 1], true);
    const std::int64_t end = first_.back() + first[s + 1] - first[s];
    if (end > INT32_MAX) throw UserError(Exit::input, "more than 2^31 targets do not fit into one file");
    first_.push_back(static_cast<std::int32_t>(end));
  }
  return wanted;
}

void Teaching::add(std::span<const float> logits) {
  if (const auto bad = std::ranges::find_if(logits, [](float x) { return !std::isfinite(x); });
      bad != logits.end())
    throw UserError(Exit::numeric, str("the teacher's logit of token ", bad - logits.begin(),
                                       " is not a finite number; is its type too narrow (training.fp16)?"));
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  std::partial_sort(order.begin(), order.begin() + top_k_, order.end(), [&](std::int32_t a, std::int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  });
  const double most = logit(order[0]);
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - most);
  for (std::int64_t i = 0; i < top_k_; ++i) {
    ids_.push_back(order[static_cast<std::size_t>(i)]);
    logps_.push_back(static_cast<float>(logit(ids_.back()) - most - std::log(sum)));
  }
}

void Teaching::write(const std::string& path) const {
  require(targets() == first_.back(), "a target that was wanted was not added");
  const std::int64_t sequences = std::ssize(first_) - 1;
  const auto tensor = [](const auto& values, DType type) {
    auto* data =
        reinterpret_cast<std::byte*>(const_cast<std::remove_cvref_t<decltype(values[0])>*>(values.data()));
    return Tensor(data, type, {std::ssize(values)});
  };
  write_safetensors(path,
                    {{"keys", DType::u8, {sequences, 16}},
                     {"first", DType::i32, {sequences + 1}},
                     {"ids", DType::i32, {targets(), top_k_}},
                     {"logps", DType::f32, {targets(), top_k_}}},
                    [&](const TensorSpec& spec) {
                      if (spec.name == "keys") return tensor(keys_, DType::u8);
                      if (spec.name == "first") return tensor(first_, DType::i32);
                      return spec.name == "ids" ? tensor(ids_, DType::i32) : tensor(logps_, DType::f32);
                    },
                    {{"format", kForm}, {"vocab_size", std::to_string(vocab_size_)}});
}

}  // namespace ft
