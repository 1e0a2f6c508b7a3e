// QLoRA (Dettmers et al. 2023): the frozen Linears' weights in 4 bits. Chooses the Linears as transformers
// and bitsandbytes do. The weights are quantized one after another during loading, or read from a folder that
// bitsandbytes wrote.
#pragma once
#include <map>
#include <set>

#include "engine/formats/bitsandbytes.h"
#include "engine/layers/linear.h"
#include "engine/model/model.h"
#include "lora/config.h"

namespace ft::lora {

struct FourBitPlan {
  FourBitForm form;
  std::vector<std::string> skip;  // modules kept in full precision: names, or complete parts of names
  bool stored = false;            // the folder's weights are in 4 bits already
};
FourBitPlan four_bit_plan(const QuantizationConfig&);
// Returns the plan in config.json's quantization_config; empty if there is none. Throws UserError (input) if
// it is not bitsandbytes' 4 bits.
std::optional<FourBitPlan> stored_four_bit_plan(const std::string& config_json);

// Quantizes a folder's weight to 4 bits, on all cores.
FourBitData quantized(const WeightSource& base, const std::string& weight, std::int64_t elements,
                      FourBitForm form);

// The 4-bit weights of a model, and the reading of their parameters.
class FourBitWeights {
 public:
  // Gives the model's frozen Linears 4-bit weights. Call it after attach(). Throws UserError (config) if a
  // name to skip matches nothing, or a 4-bit weight would be trained. With `stored`, weights get the forms
  // that the folder has for them.
  FourBitWeights(Model&, const FourBitPlan&, const WeightSource* base);

  bool has(const Parameter& p) const { return by_parameter_.contains(p.name); }
  // Finds the locations of their bytes in the base's files (Parameter::stored).
  void find_stored(const WeightSource& base) const;
  // Throws UserError (input) unless the base has the weights in the right shapes.
  void expect(const WeightSource& base) const;
  // Reads elements of one of their parameters from `first` on. Only one weight is in memory at a time.
  void read(const WeightSource& base, const Parameter&, const Tensor& y, std::int64_t first) const;

  // Returns the values of a 4-bit weight in f32.
  std::vector<float> dense(const WeightSource& base, const FourBitWeight&) const;

  // Finds a weight by its name in the model's files; null: not in 4 bits.
  const FourBitWeight* find(const std::string& stored_name) const;
  const FourBitWeight& first() const { return *weights_.front(); }
  // Returns true if some weights are stored (in, out), and quantized as (out, in).
  bool turns() const { return !turned_.empty(); }
  FourBitForm form() const { return plan_.form; }
  std::int64_t count() const { return static_cast<std::int64_t>(weights_.size()); }

 private:
  void quantize(Linear&, const WeightSource* base);
  void hold(const WeightSource& base, const FourBitWeight&) const;

  FourBitPlan plan_;
  std::vector<FourBitWeight*> weights_;
  std::set<const FourBitWeight*> turned_;  // stored (in, out) in the files
  std::map<std::string, FourBitWeight*> by_parameter_, by_stored_name_;
  mutable const FourBitWeight* held_ = nullptr;  // the weight that data_ belongs to
  mutable FourBitData data_;
};

}  // namespace ft::lora
