// QLoRA (Dettmers et al. 2023): the frozen linears' weights in 4 bits. Chooses them as transformers and
// bitsandbytes do, and where their bytes come from: quantized one after another as they are loaded, or read
// from a folder that bitsandbytes wrote.
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
  std::vector<std::string> skip;  // modules kept as they are: names, or whole parts of names
  bool stored = false;            // the folder's weights are in 4 bits already
};
FourBitPlan four_bit_plan(const QuantizationConfig&);
// What config.json's quantization_config says; nothing when there is none. UserError for other kinds than
// bitsandbytes' 4 bits.
std::optional<FourBitPlan> stored_four_bit_plan(const std::string& config_json);

// A weight of a folder in 4 bits, by all cores.
FourBitData quantized(const WeightSource& base, const std::string& weight, std::int64_t elements,
                      FourBitForm form);

// The weights in 4 bits of a model and the reading of their parameters.
class FourBitWeights {
 public:
  // Gives the model's frozen linears 4-bit weights. Call it after attach(). UserError(config) when a name to
  // skip matches nothing, or a 4-bit weight would be trained. With `stored` the forms are the folder's, where
  // it has them.
  FourBitWeights(Model&, const FourBitPlan&, const WeightSource* base);

  bool has(const Parameter& p) const { return by_parameter_.contains(p.name); }
  // Looks for their bytes in the base's files (Parameter::stored).
  void find_stored(const WeightSource& base) const;
  // Makes sure that the base has them in their shapes.
  void expect(const WeightSource& base) const;
  // Elements of one of their parameters from `first` on. One weight is held at a time.
  void read(const WeightSource& base, const Parameter&, const Tensor& y, std::int64_t first) const;

  // A weight as it is in 4 bits, in f32.
  std::vector<float> dense(const WeightSource& base, const FourBitWeight&) const;

  // By its name in the model's files; null: not in 4 bits.
  const FourBitWeight* find(const std::string& stored_name) const;
  const FourBitWeight& first() const { return *weights_.front(); }
  // Whether some are stored as (in, out), and quantized as (out, in).
  bool turns() const { return !turned_.empty(); }
  FourBitForm form() const { return plan_.form; }
  std::int64_t count() const { return static_cast<std::int64_t>(weights_.size()); }

 private:
  void quantize(Linear&, const WeightSource* base);
  void hold(const WeightSource& base, const FourBitWeight&) const;

  FourBitPlan plan_;
  std::vector<FourBitWeight*> weights_;
  std::set<const FourBitWeight*> turned_;  // whose values in the files are (in, out)
  std::map<std::string, FourBitWeight*> by_parameter_, by_stored_name_;
  mutable const FourBitWeight* held_ = nullptr;  // that data_ is of
  mutable FourBitData data_;
};

}  // namespace ft::lora
