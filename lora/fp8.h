// Frozen Linears in FP8 under LoRA (model.frozen_dtype=fp8). The weights are quantized one after another
// during loading, with a scale for each output channel, or read from a folder in FP8. The head, trained
// weights and embeddings keep their type.
#pragma once
#include <map>
#include <set>

#include "engine/formats/fp8_folder.h"
#include "engine/layers/linear.h"
#include "engine/model/model.h"

namespace ft::lora {

struct Fp8Plan {
  Fp8Scheme scheme = kFp8Channels;
  // Modules that are not in FP8: names, complete parts of names, or re: and a regular expression for the
  // beginning of a name.
  std::vector<std::string> skip;
  bool stored = false;  // the folder's weights are in FP8 already
};
// Returns the plan in config.json's quantization_config; empty if there is none, or another method's. Throws
// UserError (input) if it is a kind of compressed-tensors or FP8 that ft does not read.
std::optional<Fp8Plan> stored_fp8_plan(const std::string& config_json);

// Quantizes a folder's weight (out, in) to FP8, on several threads. turned: it is stored (in, out).
Fp8Data quantized_fp8(const WeightSource& base, const std::string& weight, const Shape& shape, bool turned);

// The weights in FP8 of a model, and the reading of their parameters.
class Fp8Weights {
 public:
  // Gives the model's frozen Linears weights in FP8. Call it after attach(). With `stored`, the weights that
  // the folder has in FP8 get its schemes, and others stay dense; without a base, the plan decides. Without
  // `stored`, weights that the folder has in FP8 get its schemes too, and of the others those with one
  // output, such as gates of shared experts, stay dense. Throws UserError (config) if no linear is left, and
  // (input) if the base has no such weights.
  Fp8Weights(Model&, const Fp8Plan&, const WeightSource* base);

  bool has(const Parameter& p) const { return by_parameter_.contains(p.name); }
  // Finds the locations of their bytes in the base's files (Parameter::stored).
  void find_stored(const WeightSource& base) const;
  // Throws UserError (input) unless the base has the weights in the right shapes.
  void expect(const WeightSource& base) const;
  // Reads elements of one of their parameters from `first` on. Only one weight is in memory at a time.
  void read(const WeightSource& base, const Parameter&, const Tensor& y, std::int64_t first) const;

  // Returns the values of a weight (out, in) in f32.
  std::vector<float> dense(const WeightSource& base, const Fp8Weight&) const;

  // Finds a weight by its name in the model's files; null: not in FP8.
  const Fp8Weight* find(const std::string& stored_name) const;
  // Returns true if some weights are stored (in, out), and quantized as (out, in).
  bool turns() const { return !turned_.empty(); }
  const Fp8Weight& first() const { return *weights_.front(); }
  std::int64_t count() const { return std::ssize(weights_); }

 private:
  void quantize(Linear&, const Fp8Plan&, const WeightSource* base);
  void hold(const WeightSource& base, const Fp8Weight&) const;

  std::vector<Fp8Weight*> weights_;
  std::set<const Fp8Weight*> turned_;  // stored (in, out) in the files
  std::map<std::string, Fp8Weight*> by_parameter_, by_stored_name_;
  mutable const Fp8Weight* held_ = nullptr;  // the weight that data_ belongs to
  mutable Fp8Data data_;
};

}  // namespace ft::lora
