// A model's weights with an adapter folded in, for kinds that are not trained (folding.h).
#pragma once
#include <map>
#include <memory>
#include <mutex>

#include "engine/files/safetensors/weights.h"
#include "engine/ops/device.h"
#include "lora/folded/folding.h"

namespace ft::lora {

// The base's weights as the adapter changes them. Weights and biases that the adapter's file holds completely
// (modules_to_save, bias) replace the base's.
class FoldedBase final : public WeightSource {
 public:
  // Throws UserError (input) unless the folder holds all tensors of the adapter that it describes, in the
  // model's shapes, and no others. origin: the model's names. The Ops compute on the CPU.
  FoldedBase(std::unique_ptr<WeightSource> base, const std::string& folder, Model&, Origin origin,
             std::unique_ptr<Ops>);
  ~FoldedBase() override;

  const AdapterFolder& adapter() const { return adapter_.files; }
  std::int64_t linears() const { return std::ssize(linears_); }  // that the adapter changes

  std::vector<std::string> names() const override;
  bool has(const std::string& name) const override { return base_->has(name) || whole_.contains(name); }
  WeightInfo info(const std::string& name) const override;
  void read(const std::string& name, const Tensor& to, std::int64_t first = 0) const override;
  StoredBytes find_stored(const std::string& name, DType type, std::int64_t elements) const override;

 private:
  struct Changed {
    FoldedLinear linear;
    bool turned;  // the weight is stored (in, out)
  };
  void choose(Model&, const Origin&);
  void replace(Model&, const Origin&);
  // Throw UserError (input) unless the file holds all complete parameters, and nothing else.
  void expect_whole(Model&, const std::vector<ChosenLinear>&, const Origin&) const;
  void expect_no_more() const;
  void read_unfolded(const std::string& name, const Tensor& to, std::int64_t first) const;
  // Computes a weight or a bias with the adapter folded in.
  std::vector<float> folded(const std::string& name) const;

  std::unique_ptr<WeightSource> base_;
  std::unique_ptr<Ops> ops_;
  FoldedAdapter adapter_;
  const Folding* folding_;
  std::map<std::string, Changed> linears_;             // by the names of their weights
  std::map<std::string, const FoldedLinear*> biases_;  // by their names; only if the kind changes them
  std::map<std::string, const StoredTensor*> whole_;   // the file's tensors that replace the base's
  mutable std::mutex folding_one_;
  mutable std::string held_;  // the name of the weight in values_
  mutable std::vector<float> values_;
};

}  // namespace ft::lora
