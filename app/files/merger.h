// The tensors of a model with an adapter merged in, W + s B A summed in f32, with DoRA diag(m / n) (W + s B
// A), one at a time: what ft merge and ft export write.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/assembly/built_model.h"
#include "engine/files/safetensors_write.h"
#include "engine/ops/device.h"

namespace ft {

namespace lora {
class DoraAdapter;
}

// The model alone ("" for the adapter) or with an adapter, in the form that build_model takes.
RunConfig merge_config(const std::string& model, const std::string& adapter);

// The base's tensors with the adapter folded in. Uses the BuiltModel, whose weights are checked.
class Merger {
 public:
  explicit Merger(const BuiltModel& b);
  ~Merger();

  // Where the adapter changes the head or the embedding of a tied model they are no longer one. The head's
  // weight then has the scale of the states before it (ModelInfo::head_scale) in it.
  bool unties() const { return unties_; }
  // Whether a weight is stored as (in, out).
  bool inputs_first(const std::string& weight) const { return inputs_first_.contains(weight); }
  // What there is, as stored or as `dtype`.
  std::vector<TensorSpec> specs(std::optional<DType> dtype) const;
  // The values, f32, until the next call.
  Tensor operator()(const TensorSpec& spec);

 private:
  // The weight as stored whose values a tensor has before the adapter is folded in.
  const std::string& source_of(const std::string& name) const;
  void put_tokens(const std::string& weight, const Tensor& table);  // the rows that were trained apart
  void add_lora(const Parameter& a, const Parameter& b, float scale, const Tensor& y, bool turned);
  void rescale(const lora::DoraAdapter&, const Tensor& y, bool turned);  // rows to their magnitudes
  void add_expert(const lora::ExpertPart&, Tensor y);
  static Tensor room(std::vector<float>& values, const Shape& shape);

  const BuiltModel& built_;
  std::unique_ptr<Ops> ops_;
  bool unties_ = false, own_head_ = false;                    // own_head_: the model has a matrix of the head
  std::map<std::string, const lora::LoraAdapter*> adapters_;  // by the weight they add to
  std::map<std::string, const lora::ExpertPart*> experts_;
  const lora::ExpertsLora* held_ = nullptr;  // whose a_ and b_ are there
  std::set<std::string> inputs_first_;
  std::map<std::string, const Parameter*> whole_;  // what the adapter's file has in place of the base's
  std::vector<float> values_, a_, b_, own_b_;
};

}  // namespace ft
