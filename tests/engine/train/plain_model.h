// Models for the Trainer that consist of a few vectors, with gradients by the test; data and files for them.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/files/safetensors/safetensors_write.h"
#include "engine/train/trainer.h"

namespace ft::test {

// A model with one unit for each vector.
class PlainModel : public Model {
 public:
  PlainModel(const std::vector<std::pair<std::string, std::int64_t>>& vectors, DType dtype) {
    for (const auto& [name, size] : vectors) {
      Parameter& p = parameters.emplace_back();
      p.name = name;
      p.shape = {size};
      p.dtype = dtype;
      p.trainable = true;
    }
    vocabulary_.head.lm_head.out = 1;
  }
  void visit(Visitor& v) override {
    for (Parameter& p : parameters) v.parameter(p);
  }
  void add_units(ParameterStore& store) override {
    for (Parameter& p : parameters) store.add_unit(p.name, {&p});
  }
  void cut_all(TensorRank) override {}
  void share_rows(std::int64_t, SequenceSharing) override {}
  void set_sparse_attention(const SparseAttentionConfig&) override {}
  void drop_tokens(const std::vector<std::int64_t>&, bool, std::int64_t) override {}
  std::int64_t blocks() const override { return 1; }
  void set_recompute(std::int64_t) override {}
  void forward(Ctx&, ParameterStore&, const Batch&, const Loss&) override {}
  void logits(Ctx&, ParameterStore&, const Batch&, Tensor) override {}
  std::unique_ptr<TargetLogits> target_logits(Ctx&, ParameterStore&, const Batch&) override { return {}; }

  std::vector<Parameter> parameters;
};

// Data with one token in each micro-batch: its number.
class Numbers final : public BatchSource {
 public:
  explicit Numbers(std::vector<std::int32_t> ids) : ids_(std::move(ids)) {}
  std::int64_t batches_per_epoch() const override { return static_cast<std::int64_t>(ids_.size()); }
  Batch batch(std::int64_t, std::int64_t i) const override {
    Batch b;
    b.input_ids = {ids_[static_cast<std::size_t>(i)]};
    b.positions = b.target_rows = b.targets = {0};
    b.starts = {0, 1};
    return b;
  }
  BatchShape shape(std::int64_t, std::int64_t) const override {
    return {.tokens = 1, .targets = 1, .sequences = 1, .longest = 1};
  }

 private:
  std::vector<std::int32_t> ids_;
};

class Files final : public ModelFiles {
 public:
  explicit Files(const PlainModel& model) {
    for (const Parameter& p : model.parameters) specs_.push_back({p.name, DType::f32, p.shape});
  }
  void create(const std::string& folder, bool) override {
    write_safetensors(folder + "/model.safetensors", specs_, {});
  }
  std::int64_t bytes(bool) const override { return 0; }
  std::string name_of(const Parameter& p) const override { return p.name; }
  ReadParameter read(const std::string& folder) override {
    auto file = std::make_shared<SafetensorsFile>(folder + "/model.safetensors");
    return [file](const Parameter& p, Tensor y, std::int64_t first) {
      file->read(*file->find(p.name), y, first);
    };
  }

 private:
  std::vector<TensorSpec> specs_;
};

struct Told : Report {
  std::vector<StepRow> rows;
  std::vector<std::string> notes;
  void progress(const StepRow& row) override { rows.push_back(row); }
  void note(const std::string& text) override { notes.push_back(text); }
};

inline std::vector<std::int32_t> numbers(std::int32_t n) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < n; ++i) ids.push_back(i);
  return ids;
}

}  // namespace ft::test
