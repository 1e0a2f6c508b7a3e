// Weights that may have more rows than their files hold, as after transformers' resize_token_embeddings. Each
// new row is the mean of the old rows. transformers draws from a normal distribution around that mean, with a
// billionth of the rows' covariance; if the covariance has no root, it uses the mean itself.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/files/safetensors/weights.h"

namespace ft {

class GrownWeights final : public WeightSource {
 public:
  // `grown`: names of matrices (rows, columns) and vectors (rows) that get `rows` rows, unless they have
  // more. Names that are not in the base are ignored. The mean is computed in f64, and rounded to f32, then
  // to the stored type.
  GrownWeights(std::unique_ptr<WeightSource> base, const std::vector<std::string>& grown, std::int64_t rows);

  const WeightSource* changed() const override { return base_.get(); }
  std::vector<std::string> names() const override { return base_->names(); }
  bool has(const std::string& name) const override { return base_->has(name); }
  WeightInfo info(const std::string& name) const override;
  void read(const std::string& name, const Tensor& to, std::int64_t first = 0) const override;
  StoredBytes find_stored(const std::string& name, DType type, std::int64_t elements) const override;

 private:
  struct Grown {
    std::int64_t stored = 0, columns = 1;  // number of elements in the files, and in a row
    std::once_flag once{};
    std::vector<float> mean{};
  };
  const std::vector<float>& mean_of(const std::string& name, Grown&) const;

  std::unique_ptr<WeightSource> base_;
  std::int64_t rows_;
  mutable std::map<std::string, Grown> grown_;
};

}  // namespace ft
