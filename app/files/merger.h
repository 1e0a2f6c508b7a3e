// Merges an adapter into a model's tensors, one tensor at a time, in f32: W + s B A, or what another kind of
// adapter makes of W. Used by ft merge and ft export.
#pragma once
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/assembly/built_model.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/ops/device.h"

namespace ft {

// Returns the configuration from which build_model builds a model, with an adapter or alone (`adapter` "").
RunConfig merge_config(const std::string& model, const std::string& adapter);
// Returns the purpose that build_model gets with it: a computation if nothing could be trained, because the
// adapter is folded into weights, or the model alone is in 4 bits or FP8.
Purpose merge_purpose(const RunConfig&);

// Reads the base's tensors with the adapter merged in. Uses the BuiltModel, whose weights must be checked.
class Merger {
 public:
  // computed: a type to which the weights and the factors of adapters are rounded before they are merged, as
  // a run that computes in it has them; wide weights are not. Throws UserError (input) if an adapter's bias
  // belongs to a linear without one, or if adapters act from tokens on.
  explicit Merger(const BuiltModel& b, std::optional<DType> computed = {});
  ~Merger();

  // True if the adapter changes the head and the embedding of a tied model differently, so that they become
  // two tensors. The separate head then includes the scale of the states before it (ModelInfo::head_scale).
  bool unties() const { return unties_; }
  // True if a weight is stored as (in, out).
  bool inputs_first(const std::string& weight) const { return inputs_first_.contains(weight); }
  // Returns all tensors of the merged model, with the dtype of the file or with `dtype`; wide ones in f32.
  std::vector<TensorSpec> specs(std::optional<DType> dtype) const;
  // Returns the values in f32. They are valid until the next call.
  Tensor operator()(const TensorSpec& spec);

 private:
  // Returns the stored weight whose values the tensor has before the adapter is merged.
  const std::string& source_of(const std::string& name) const;
  void put_tokens(const std::string& weight, const Tensor& table);  // copies separately trained rows
  void add_lora(const Parameter& a, const Parameter& b, float scale, const Tensor& y, bool turned);
  // Reads the adapter's parameters into `held`, rounded to the type of the computation.
  lora::ParameterValues values_in(std::list<std::vector<float>>& held) const;
  void merge_linear(const lora::LinearAdapter&, const Tensor& y, bool turned);
  void merge_bias(const lora::LinearAdapter&, const Tensor& y);
  // Notes the adapter of the Linear if it changes a bias.
  void find_bias(const Linear&);
  void add_expert(const lora::ExpertPart&, Tensor y);
  void round(const Tensor& values) const;
  static Tensor room(std::vector<float>& values, const Shape& shape);

  const BuiltModel& built_;
  std::unique_ptr<Ops> ops_;
  std::optional<DType> computed_;
  bool unties_ = false, own_head_ = false;  // own_head_: the model has a separate head matrix
  std::map<std::string, const lora::LinearAdapter*> adapters_;   // by the changed weight's name
  std::map<std::string, const lora::LinearAdapter*> biases_;     // by the changed bias's name
  std::multimap<std::string, const lora::ExpertPart*> experts_;  // a stack has a part for each expert
  const lora::ExpertsLora* held_ = nullptr;                      // the experts whose adapter is in a_ and b_
  std::set<std::string> inputs_first_;
  std::set<std::string> wide_;                     // weights that stay in f32
  std::map<std::string, const Parameter*> whole_;  // weights that the adapter's file replaces completely
  std::vector<float> values_, a_, b_, own_b_;
};

}  // namespace ft
